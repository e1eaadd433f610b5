"""What each case needs in each environment is made there, and the case is tried once in both.

So a statement that does not work in one of them is known in the first seconds, and costs no
replicate.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from torchmark.engine.models import Models
from torchmark.engine.paired.plan import case_in_b, make_result
from torchmark.engine.preparing import prepare_cases
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.errors import TorchmarkError
from torchmark.model.result import Status
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.engine.under_test import UnderTest
    from torchmark.model.case import Case
    from torchmark.model.effort import Effort
    from torchmark.model.result import Result
    from torchmark.model.run import PlannedResult

Ready: TypeAlias = PythonCase | NativeCase
"""What a zygote is given."""


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
        made: tuple[dict[str, Ready | TorchmarkError], ...] = ({}, {})
        for index, side in enumerate(self._sides):
            cases = {case.id: case for case in (_in(index, planned) for planned in plan)}
            yield from self._make_in(side, list(cases.values()), made[index])
        of_case: dict[tuple[str, str], list[PlannedResult]] = {}
        for planned in plan:
            of_case.setdefault(_key(planned), []).append(planned)
        for key, same in of_case.items():
            tried = [self._try(index, _in(index, same[0]), made[index]) for index in (0, 1)]
            a, b = tried
            if not isinstance(a, str) and not isinstance(b, str):
                self._ready[key] = (a, b)
                continue
            reason = next(each for each in tried if isinstance(each, str))
            for planned in same:
                yield make_result(planned, Status.FAILED, reason=reason)

    def _make_in(
        self, side: UnderTest, cases: Sequence[Case], made: dict[str, Ready | TorchmarkError]
    ) -> Iterator[Stage]:
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

    def _try(self, index: int, case: Case, made: dict[str, Ready | TorchmarkError]) -> Ready | str:
        """What runs, or why it does not."""
        side, ready = self._sides[index], made[case.id]
        if isinstance(ready, TorchmarkError):
            return f"in {side.name}: {ready}"
        zygote = side.workers.start(case.num_threads, under_callgrind=False)
        try:
            zygote.run(ready, time_limit=self._effort.timeout)
        except TorchmarkError as error:
            return f"in {side.name}: {error}"
        return ready


def _key(planned: PlannedResult) -> tuple[str, str]:
    return planned.case.id, case_in_b(planned).id


def _in(index: int, planned: PlannedResult) -> Case:
    return case_in_b(planned) if index else planned.case
