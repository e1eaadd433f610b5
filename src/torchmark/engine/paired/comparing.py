"""Cases compared in two environments, from the first try to the last replicate.

Counts come first, since they need no quiet machine; while times are taken nothing else runs but
the launch of the next zygotes. Whoever iterates gets each result the moment it exists. A case that
fails in either environment is a result.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.pairs import LAYOUT_EFFECT, effect_in, verdicts_of
from torchmark.engine.cores import on_cores
from torchmark.engine.cpp.compiler import stop_compilers
from torchmark.engine.paired.counting import Counting, count_cases
from torchmark.engine.paired.explaining import python_functions
from torchmark.engine.paired.plan import make_result, reason_against
from torchmark.engine.paired.readying import ReadyCases
from torchmark.engine.paired.sentries import sentries
from torchmark.engine.paired.starting import starter
from torchmark.engine.paired.timing import CaseTiming, take_replicates
from torchmark.model.result import Metric, PairedCounts, Status
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from torchmark.engine.cores import Division
    from torchmark.engine.under_test import UnderTest
    from torchmark.model.effort import Effort
    from torchmark.model.result import PythonCalls, Result
    from torchmark.model.run import PlannedResult, Progress


class Comparison:
    """One comparison, carried out once by `results`."""

    def __init__(
        self,
        plan: Sequence[PlannedResult],
        a: UnderTest,
        b: UnderTest,
        *,
        effort: Effort,
        division: Division,
        timed_before: int = 0,
    ) -> None:
        """`timed_before` is how many cases have their times from before the run was cut short."""
        self._plan = plan
        self._a = a
        self._b = b
        self._effort = effort
        self._division = division
        self._timed_before = timed_before
        self._ready = ReadyCases(a, b, effort, units_at_once=len(division.everything))
        self.sentries: list[Result] = []
        """What the sentry cases gave, once counts have been taken."""

    def results(self) -> Generator[Progress, None, None]:
        """What begins and what comes out, until every planned result is there."""
        try:
            yield from self._skips()
            with on_cores(self._division.everything):  # nothing is timed yet
                yield from self._ready.make([p for p in self._plan if reason_against(p) is None])
                yield from self._counts()
            with on_cores(self._division.others):
                yield from self._times()
        finally:
            stop_compilers()

    def _skips(self) -> Iterator[Result]:
        for planned in self._plan:
            reason = reason_against(planned)
            if reason is not None:
                yield make_result(planned, Status.SKIPPED, reason=reason)

    def _by_threads(self, metric: Metric) -> list[tuple[int, list[PlannedResult]]]:
        """What can be measured, by the number of threads: each has its own zygotes."""
        groups: dict[int, list[PlannedResult]] = defaultdict(list)
        for planned in self._plan:
            is_wanted = planned.metric is metric and reason_against(planned) is None
            if is_wanted and planned in self._ready:
                groups[planned.case.num_threads].append(planned)
        return sorted(groups.items())

    def _counts(self) -> Iterator[Progress]:
        for threads, group in self._by_threads(Metric.INSTRUCTIONS):
            watch = [] if self.sentries else sentries()
            wanted = [
                Counting(
                    planned=planned, a=self._ready.of(planned)[0], b=self._ready.of(planned)[1]
                )
                for planned in group
            ]
            for each in count_cases(
                [*watch, *wanted],
                self._a,
                self._b,
                threads=threads,
                time_limit=self._effort.timeout,
            ):
                if isinstance(each, Stage):
                    yield each
                elif each in watch:
                    self.sentries.append(each.result())
                else:
                    yield self._count_result(each)

    def _count_result(self, counting: Counting) -> Result:
        result = counting.result()
        if not isinstance(result.payload, PairedCounts):
            return result
        if not judge_counts(result).verdict.is_change:
            return result
        calls = self._python_calls(counting.planned)
        payload = msgspec.structs.replace(result.payload, python_calls=calls)
        return msgspec.structs.replace(result, payload=payload)

    def _times(self) -> Iterator[Progress]:
        groups = self._by_threads(Metric.TIME)
        cases = self._timed_before + sum(len(group) for _, group in groups)
        is_alike = self._a.environment.loads_the_same_files(self._b.environment)
        rng = random.Random(self._effort.seed)  # noqa: S311 - an order of blocks, not a secret
        for threads, group in groups:
            lane = self._division.lanes[0]
            timings = [
                CaseTiming(
                    planned=planned,
                    a=self._ready.of(planned)[0],
                    b=self._ready.of(planned)[1],
                    layout_effect=0.0 if is_alike else LAYOUT_EFFECT,
                )
                for planned in group
            ]
            for news in take_replicates(
                timings,
                starter(self._a, self._b, threads=threads, everywhere=self._division.everything),
                rng=rng,
                cores=lane[:threads] if threads <= len(lane) else self._division.everything,
                effort=self._effort,
                cases=cases,
                in_background=bool(self._division.others),
            ):
                yield self._time_result(news) if isinstance(news, CaseTiming) else news

    def _time_result(self, case: CaseTiming) -> Result:
        if case.failure is not None:
            side = self._a if case.failure.is_a else self._b
            reason = f"in {side.name}: {case.failure.error}"
            return make_result(case.planned, Status.FAILED, reason=reason, seconds=case.seconds)
        timing = case.timing()
        if verdicts_of([effect_in(timing)])[0].is_change:
            calls = self._python_calls(case.planned)
            timing = msgspec.structs.replace(timing, python_calls=calls)
        return make_result(case.planned, payload=timing, seconds=case.seconds)

    def _python_calls(self, planned: PlannedResult) -> tuple[PythonCalls, ...]:
        return python_functions(
            self._a,
            self._b,
            self._ready.of(planned),
            threads=planned.case.num_threads,
            time_limit=self._effort.timeout,
        )
