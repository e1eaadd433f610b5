"""Cases compared in two environments, from the first try to the last pair.

Counts come first, since they need no quiet machine; while times are taken nothing else runs but
the start of the next zygotes. Whoever iterates gets each result the moment it exists. A case that
fails in either environment is a result.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from torchmark.analyse.ab import count_row
from torchmark.analyse.pairs import LAYOUT_EFFECT, Verdict, effect_in, verdicts_of
from torchmark.analyse.run_differences import CountVerdict
from torchmark.engine.cores import on_cores
from torchmark.engine.cpp.compiler import stop_compilers
from torchmark.engine.execution import Began, Stage
from torchmark.engine.paired.counting import Counting, counted
from torchmark.engine.paired.explaining import python_functions
from torchmark.engine.paired.readying import Readied
from torchmark.engine.paired.sentries import sentries
from torchmark.engine.paired.starting import starter
from torchmark.engine.paired.timing import Timing, timed
from torchmark.model.result import Metric, Status

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from torchmark.engine.cores import Division
    from torchmark.engine.paired.plan import Planned, Wish
    from torchmark.engine.under_test import UnderTest
    from torchmark.model.ab_record import Compared

News: TypeAlias = "Began | Stage | Compared"
"""What happens in a comparison."""


class Comparing:
    """One comparison, carried out once by `results`."""

    def __init__(
        self,
        plan: Sequence[Planned],
        a: UnderTest,
        b: UnderTest,
        *,
        wish: Wish,
        division: Division,
    ) -> None:
        self._plan = plan
        self._a = a
        self._b = b
        self._wish = wish
        self._division = division
        self._ready = Readied(a, b, wish, units_at_once=len(division.everything))
        self.sentries: list[Compared] = []
        """What the sentry cases gave, once counts have been taken."""

    def results(self) -> Generator[News, None, None]:
        """What begins and what comes out, until every case has its rows."""
        try:
            yield from self._skips()
            with on_cores(self._division.everything):  # nothing is timed yet
                yield from self._ready.make([each for each in self._plan if each.skip is None])
                if Metric.INSTRUCTIONS in self._wish.kinds:
                    yield from self._counts()
            if Metric.TIME in self._wish.kinds:
                with on_cores(self._division.others):
                    yield from self._times()
        finally:
            stop_compilers()

    def _skips(self) -> Iterator[Compared]:
        for planned in self._plan:
            for kind in self._wish.kinds:
                reason = planned.reason_against(kind)
                if reason is not None:
                    yield planned.row(kind, Status.SKIPPED, reason)

    def _by_threads(self, kind: Metric) -> list[tuple[int, list[Planned]]]:
        """What can be measured, by the number of threads: each has its own zygotes."""
        groups: dict[int, list[Planned]] = defaultdict(list)
        for planned in self._plan:
            if planned in self._ready and planned.reason_against(kind) is None:
                groups[planned.case.num_threads].append(planned)
        return sorted(groups.items())

    def _counts(self) -> Iterator[News]:
        for threads, group in self._by_threads(Metric.INSTRUCTIONS):
            watch = [] if self.sentries else sentries()
            wanted = [
                Counting(
                    planned=planned, a=self._ready.of(planned)[0], b=self._ready.of(planned)[1]
                )
                for planned in group
            ]
            for each in counted(
                [*watch, *wanted],
                self._a,
                self._b,
                threads=threads,
                time_limit=self._wish.time_limit,
            ):
                if isinstance(each, Stage):
                    yield each
                elif each in watch:
                    self.sentries.append(each.compared())
                else:
                    yield self._count_row(each)

    def _count_row(self, counting: Counting) -> Compared:
        compared = counting.compared()
        if compared.counts is None:
            return compared
        has_changed = count_row(compared).verdict in (CountVerdict.MORE, CountVerdict.FEWER)
        return self._explained(counting.planned, compared) if has_changed else compared

    def _times(self) -> Iterator[News]:
        groups = self._by_threads(Metric.TIME)
        cases = sum(len(group) for _, group in groups)
        is_alike = self._a.environment.loads_the_same_files(self._b.environment)
        rng = random.Random(self._wish.seed)  # noqa: S311 - an order of blocks, not a secret
        for threads, group in groups:
            lane = self._division.lanes[0]
            wanted = [
                Timing(
                    planned=planned,
                    a=self._ready.of(planned)[0],
                    b=self._ready.of(planned)[1],
                    layout_effect=0.0 if is_alike else LAYOUT_EFFECT,
                )
                for planned in group
            ]
            for news in timed(
                wanted,
                starter(self._a, self._b, threads=threads, everywhere=self._division.everything),
                rng=rng,
                cores=lane[:threads] if threads <= len(lane) else self._division.everything,
                wish=self._wish,
                cases=cases,
                in_background=bool(self._division.others),
            ):
                yield self._time_row(news) if isinstance(news, Timing) else news

    def _time_row(self, timing: Timing) -> Compared:
        planned = timing.planned
        if timing.failure is not None:
            side = self._a if timing.failure.is_a else self._b
            reason = f"in {side.name}: {timing.failure.error}"
            return planned.row(Metric.TIME, Status.FAILED, reason)
        times = timing.times()
        row = replace(planned.row(Metric.TIME, Status.DONE), times=times, seconds=timing.seconds)
        verdict = verdicts_of([effect_in(times)])[0]
        has_changed = verdict in (Verdict.FASTER, Verdict.SLOWER)
        return self._explained(planned, row) if has_changed else row

    def _explained(self, planned: Planned, compared: Compared) -> Compared:
        functions = python_functions(
            self._a,
            self._b,
            self._ready.of(planned),
            threads=planned.case.num_threads,
            time_limit=self._wish.time_limit,
        )
        return replace(compared, python=functions)
