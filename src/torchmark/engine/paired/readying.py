"""What each case needs in each environment is made there, and the case is tried once in both.

So a statement that does not work in one of them is known in the first seconds, and costs no pair.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from torchmark.engine.execution import Stage
from torchmark.engine.models import Models
from torchmark.engine.preparing import prepared
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.errors import TorchmarkError
from torchmark.model.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.engine.paired.plan import Planned, Wish
    from torchmark.engine.under_test import UnderTest
    from torchmark.model.ab_record import Compared
    from torchmark.model.case import Case

Ready: TypeAlias = PythonCase | NativeCase
"""What a zygote is given."""


class Readied:
    """Cases as both environments are given them, by the ids of what runs in A and in B."""

    def __init__(self, a: UnderTest, b: UnderTest, wish: Wish, *, units_at_once: int) -> None:
        self._sides = (a, b)
        self._wish = wish
        self._units = units_at_once
        self._ready: dict[tuple[str, str], tuple[Ready, Ready]] = {}

    def __contains__(self, planned: Planned) -> bool:
        return _key(planned) in self._ready

    def of(self, planned: Planned) -> tuple[Ready, Ready]:
        """For A and for B."""
        return self._ready[_key(planned)]

    def make(self, plan: Sequence[Planned]) -> Iterator[Stage | Compared]:
        """Make all that can be made; what cannot is a row."""
        made: tuple[dict[str, Ready | TorchmarkError], ...] = ({}, {})
        for index, side in enumerate(self._sides):
            cases = {case.id: case for case in (_in(index, planned) for planned in plan)}
            yield from self._made(side, list(cases.values()), made[index])
        for planned in plan:
            tried = [self._tried(index, _in(index, planned), made[index]) for index in (0, 1)]
            a, b = tried
            if not isinstance(a, str) and not isinstance(b, str):
                self._ready[_key(planned)] = (a, b)
                continue
            reason = next(each for each in tried if isinstance(each, str))
            for kind in self._wish.kinds:
                if planned.reason_against(kind) is None:
                    yield planned.row(kind, Status.FAILED, reason)

    def _made(
        self, side: UnderTest, cases: Sequence[Case], made: dict[str, Ready | TorchmarkError]
    ) -> Iterator[Stage]:
        stages: list[Stage] = []

        @contextmanager
        def stage(text: str) -> Iterator[None]:
            stages.append(Stage(f"{text} for {side.name}", is_over=False))
            yield
            stages.append(Stage(f"{text} for {side.name}", is_over=True))

        models = Models(side.workers, cores=(), kept=None, time_limit=self._wish.time_limit)
        with closing(models):
            for case, ready in prepared(
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

    def _tried(
        self, index: int, case: Case, made: dict[str, Ready | TorchmarkError]
    ) -> Ready | str:
        """What runs, or why it does not."""
        side, ready = self._sides[index], made[case.id]
        if isinstance(ready, TorchmarkError):
            return f"in {side.name}: {ready}"
        zygote = side.workers.started(case.num_threads, under_callgrind=False)
        try:
            zygote.run(ready, time_limit=self._wish.time_limit)
        except TorchmarkError as error:
            return f"in {side.name}: {error}"
        return ready


def _key(planned: Planned) -> tuple[str, str]:
    return planned.case.id, planned.in_b.id


def _in(index: int, planned: Planned) -> Case:
    return planned.in_b if index else planned.case
