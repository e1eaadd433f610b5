"""The cases of a comparison: what each needs is made in both environments, and each is tried once.

So a statement that does not work in one of them is known in the first seconds, and costs no
replicate.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from torchmark.engine.preparing import Models, prepare_cases
from torchmark.errors import TorchmarkError
from torchmark.model.result import Status
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from torchmark.engine.under_test import UnderTest
    from torchmark.engine.zygote.cases import Ready
    from torchmark.model.case import Case
    from torchmark.model.result import PlannedResult, Result
    from torchmark.model.run import Effort


class ReadyCase(NamedTuple):
    """A case that has run once in both environments."""

    planned: PlannedResult
    ready: tuple[Ready, Ready]
    """What A and B are given."""


def make_ready(
    plan: Sequence[PlannedResult],
    sides: tuple[UnderTest, UnderTest],
    effort: Effort,
    *,
    units_at_once: int,
) -> Iterator[Stage | ReadyCase | Result]:
    """Make and try what is planned; what cannot be made or does not run has failed."""
    made = []
    for index, side in enumerate(sides):
        cases = {case.id: case for case in (planned.cases[index] for planned in plan)}
        made.append((yield from _make_in(side, list(cases.values()), effort, units_at_once)))

    @cache
    def try_in(index: int, case: Case) -> Ready | str:
        """What runs, or why it does not."""
        side, ready = sides[index], made[index][case.id]
        if isinstance(ready, TorchmarkError):
            return f"in {side.name}: {ready}"
        zygote = side.workers.start(case.num_threads, under_callgrind=False)
        try:
            zygote.run(ready, time_limit=effort.timeout)
        except TorchmarkError as error:
            return f"in {side.name}: {error}"
        return ready

    for planned in plan:
        a, b = (try_in(index, case) for index, case in enumerate(planned.cases))
        if isinstance(a, str):
            yield planned.finish(Status.FAILED, reason=a)
        elif isinstance(b, str):
            yield planned.finish(Status.FAILED, reason=b)
        else:
            yield ReadyCase(planned, (a, b))


def _make_in(
    side: UnderTest, cases: Sequence[Case], effort: Effort, units_at_once: int
) -> Generator[Stage, None, dict[str, Ready | TorchmarkError]]:
    """What the environment is given for each case by its id, or why there is nothing to give."""
    made: dict[str, Ready | TorchmarkError] = {}
    stages: list[Stage] = []

    @contextmanager
    def stage(text: str) -> Iterator[None]:
        stages.append(Stage(text=f"{text} for {side.name}"))
        yield
        stages.append(Stage(text=f"{text} for {side.name}", is_over=True))

    with closing(Models(side.workers, cores=(), kept=None, time_limit=effort.timeout)) as models:
        for case, ready in prepare_cases(
            cases, models, units_at_once=units_at_once, stage=stage, toolchain=side.toolchain
        ):
            made[case.id] = ready
            yield from stages
            stages.clear()
    yield from stages
    return made
