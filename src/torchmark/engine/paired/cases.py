"""The cases of a comparison: what each needs is made in both environments, and each is tried once.

So a statement that does not work in one of them is known in the first seconds, and costs no
replicate.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from torchmark.engine.models import Models
from torchmark.engine.preparing import prepare_cases
from torchmark.errors import TorchmarkError
from torchmark.model.result import Result, Status, utc_now
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from torchmark.engine.under_test import UnderTest
    from torchmark.engine.zygote.cases import Ready
    from torchmark.model.case import Case
    from torchmark.model.effort import Effort
    from torchmark.model.result import Payload
    from torchmark.model.run import PlannedResult


def cases_of(planned: PlannedResult) -> tuple[Case, Case]:
    """What runs in A and in B."""
    return planned.case, planned.other or planned.case


def make_result(
    planned: PlannedResult,
    status: Status = Status.DONE,
    *,
    reason: str = "",
    payload: Payload | None = None,
    seconds: float = 0.0,
) -> Result:
    """What came of it: the figures, or why there are none."""
    return Result(
        case=planned.case,
        other=planned.other,
        metric=planned.metric,
        environments=planned.environments,
        status=status,
        finished=utc_now(),
        reason=reason,
        payload=payload,
        seconds=seconds,
    )


class ReadyCases:
    """Cases as both environments are given them, by the ids of what runs in A and in B."""

    def __init__(self, a: UnderTest, b: UnderTest, effort: Effort, *, units_at_once: int) -> None:
        self._sides = (a, b)
        self._effort = effort
        self._units = units_at_once
        self._ready: dict[tuple[str, str], tuple[Ready, Ready]] = {}

    def __contains__(self, planned: PlannedResult) -> bool:
        return _key(planned) in self._ready

    def of(self, planned: PlannedResult) -> tuple[Ready, Ready]:
        """For A and for B."""
        return self._ready[_key(planned)]

    def make(self, plan: Sequence[PlannedResult]) -> Iterator[Stage | Result]:
        """Make all that can be made; of what cannot, every planned result fails."""
        of_key: dict[tuple[str, str], list[PlannedResult]] = {}
        for planned in plan:
            of_key.setdefault(_key(planned), []).append(planned)
        made = []
        for index, side in enumerate(self._sides):
            cases = {case.id: case for case in (cases_of(each)[index] for each in plan)}
            made.append((yield from self._make_in(side, list(cases.values()))))
        for key, same in of_key.items():
            a, b = (
                self._try(*each) for each in zip(self._sides, cases_of(same[0]), made, strict=True)
            )
            if not isinstance(a, str) and not isinstance(b, str):
                self._ready[key] = (a, b)
                continue
            reason = a if isinstance(a, str) else str(b)
            for planned in same:
                yield make_result(planned, Status.FAILED, reason=reason)

    def _make_in(
        self, side: UnderTest, cases: Sequence[Case]
    ) -> Generator[Stage, None, dict[str, Ready | TorchmarkError]]:
        made: dict[str, Ready | TorchmarkError] = {}
        stages: list[Stage] = []

        @contextmanager
        def stage(text: str) -> Iterator[None]:
            stages.append(Stage(text=f"{text} for {side.name}"))
            yield
            stages.append(Stage(text=f"{text} for {side.name}", is_over=True))

        models = Models(side.workers, cores=(), kept=None, time_limit=self._effort.timeout)
        with closing(models):
            for case, ready in prepare_cases(
                cases,
                models,
                units_at_once=self._units,
                stage=stage,
                toolchain=side.toolchain,
            ):
                made[case.id] = ready
                yield from stages
                stages.clear()
        yield from stages
        return made

    def _try(
        self, side: UnderTest, case: Case, made: dict[str, Ready | TorchmarkError]
    ) -> Ready | str:
        """What runs, or why it does not."""
        ready = made[case.id]
        if isinstance(ready, TorchmarkError):
            return f"in {side.name}: {ready}"
        zygote = side.workers.start(case.num_threads, under_callgrind=False)
        try:
            zygote.run(ready, time_limit=self._effort.timeout)
        except TorchmarkError as error:
            return f"in {side.name}: {error}"
        return ready


def _key(planned: PlannedResult) -> tuple[str, str]:
    a, b = cases_of(planned)
    return a.id, b.id
