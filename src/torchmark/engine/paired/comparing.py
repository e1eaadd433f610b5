"""Compares cases in two environments, from the first try to the last replicate.

Counts come first, because they need no quiet machine. While times are taken, nothing else runs
except the launch of the next zygotes. Iterating yields each result as soon as it exists. A case
that fails in either environment yields a failed result. All cases are prepared and tried once in
both environments first, so a case that does not work is known early and costs no replicate.

Two things show where a change comes from: Python functions that do not do the same in both, and
stacks that py-spy samples in both at once.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import msgspec

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.pairs import judge_alone
from torchmark.engine.cores import Division, begin, on_cores
from torchmark.engine.cpp.compiler import stop_compilers
from torchmark.engine.execution import reason_to_skip
from torchmark.engine.paired.counting import Counting, count_cases, sentries
from torchmark.engine.paired.pairing import SideFailedError
from torchmark.engine.paired.timing import (
    CaseTiming,
    Control,
    control_starter,
    starter,
    take_replicates,
)
from torchmark.engine.preparing import Models, prepare_cases
from torchmark.engine.sampling_profiler import Recording, record
from torchmark.engine.under_test import UnderTest
from torchmark.engine.zygote.cases import PythonCase, Ready
from torchmark.errors import MissingToolError, ProfilerError, TorchmarkError, ZygoteError
from torchmark.flame.stacks import fold_stacks
from torchmark.model.case import Case
from torchmark.model.result import (
    Metric,
    PairedCounts,
    PairedProfile,
    PlannedResult,
    PythonCalls,
    Result,
    Status,
)
from torchmark.model.run import Began, Effort, Progress, Stage

_PROFILE_SECONDS = 2
"""Seconds that a loop is sampled."""

_OF_EVERY_CASE = (MissingToolError, ProfilerError, ZygoteError)
"""Errors of the profiler that would occur for every other case too."""


class ReadyCase(NamedTuple):
    """A case that has run once in both environments."""

    planned: PlannedResult
    ready: tuple[Ready, Ready]
    """What runs in A and in B."""


def make_ready(
    plan: Sequence[PlannedResult],
    sides: tuple[UnderTest, UnderTest],
    effort: Effort,
    *,
    units_at_once: int,
) -> Iterator[Stage | ReadyCase | Result]:
    """Prepare and try the planned cases; a case that cannot be prepared or run has failed."""
    made = []
    for index, side in enumerate(sides):
        cases = {case.id: case for case in (planned.cases[index] for planned in plan)}
        made.append((yield from _make_in(side, list(cases.values()), effort, units_at_once)))

    @cache
    def try_in(index: int, case: Case) -> Ready | TorchmarkError:
        """Return what runs, or why it does not."""
        side, ready = sides[index], made[index][case.id]
        if isinstance(ready, TorchmarkError):
            return ready
        zygote = side.workers.start(case.num_threads, under_callgrind=False)
        try:
            zygote.run(ready, time_limit=effort.timeout)
        except TorchmarkError as error:
            return error
        return ready

    for planned in plan:
        a, b = (try_in(index, case) for index, case in enumerate(planned.cases))
        if isinstance(a, TorchmarkError) or isinstance(b, TorchmarkError):
            yield _without_both(planned, sides, (a, b))
        else:
            yield ReadyCase(planned, (a, b))


def _without_both(
    planned: PlannedResult,
    sides: tuple[UnderTest, UnderTest],
    tried: tuple[Ready | TorchmarkError, Ready | TorchmarkError],
) -> Result:
    """Return a failed result, or a skipped one if the environments only lack something it needs."""
    errors = [
        (side.name, each)
        for side, each in zip(sides, tried, strict=True)
        if isinstance(each, TorchmarkError)
    ]
    for name, error in errors:
        if not error.lacking:
            return planned.finish(Status.FAILED, reason=f"in {name}: {error}")
    reason = "; ".join(f"in {name}: {error.lacking}" for name, error in errors)
    return planned.finish(Status.SKIPPED, reason=reason)


def _make_in(
    side: UnderTest, cases: Sequence[Case], effort: Effort, units_at_once: int
) -> Generator[Stage, None, dict[str, Ready | TorchmarkError]]:
    """Prepare each case for the environment; return what runs, or the error, by case id."""
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


@dataclass(slots=True)
class Comparison:
    """One comparison, carried out once by `results`."""

    plan: Sequence[PlannedResult]
    a: UnderTest
    b: UnderTest
    effort: Effort
    division: Division
    timed_before: int = 0
    """Number of cases that were timed before the run was interrupted."""

    sentries: list[Result] = field(default_factory=list)
    """Results of the sentry cases, once they have been counted."""

    _under_way: list[CaseTiming] = field(default_factory=list)
    """Cases that are being timed and have not been yielded yet."""

    def results(self) -> Generator[Progress, None, None]:
        """Yield starts and results until every planned result exists."""
        wanted = []
        ready = []
        try:
            for planned in self.plan:
                reason = reason_to_skip(planned.case, planned.metric)
                if reason is None:
                    wanted.append(planned)
                else:
                    yield planned.finish(Status.SKIPPED, reason=reason)
            with on_cores(self.division.everything):  # nothing is timed yet
                units = len(self.division.everything)
                sides = (self.a, self.b)
                for news in make_ready(wanted, sides, self.effort, units_at_once=units):
                    if isinstance(news, ReadyCase):
                        ready.append(news)
                    else:
                        yield news
                yield from self._counts(_by_threads(ready, Metric.INSTRUCTIONS))
            with on_cores(self.division.others):
                yield from self._times(_by_threads(ready, Metric.TIME))
        finally:
            stop_compilers()

    def _counts(self, groups: Sequence[tuple[int, list[ReadyCase]]]) -> Iterator[Progress]:
        for threads, group in groups:
            watch = [] if self.sentries else sentries()
            for news in count_cases(
                [*watch, *(Counting(*each) for each in group)],
                self.a,
                self.b,
                threads=threads,
                time_limit=self.effort.timeout,
            ):
                if isinstance(news, Stage):
                    yield news
                elif news in watch:
                    self.sentries.append(news.result())
                else:
                    yield self._count_result(news)

    def _count_result(self, counting: Counting) -> Result:
        result = counting.result()
        counts = result.payload
        if not isinstance(counts, PairedCounts) or not judge_counts(result).verdict.is_change:
            return result
        calls = self._python_calls(counting)
        payload = msgspec.structs.replace(counts, python_calls=calls)
        return msgspec.structs.replace(result, payload=payload)

    def _times(self, groups: Sequence[tuple[int, list[ReadyCase]]]) -> Iterator[Progress]:
        cases = self.timed_before + sum(len(group) for _, group in groups)
        same_files = self.a.environment.loads_the_same_files(self.b.environment)
        rng = random.Random(self.effort.seed)  # noqa: S311 - an order of blocks, not a secret
        lane = self.division.lanes[0]
        for threads, group in groups:
            timings = [CaseTiming(*each, same_files=same_files) for each in group]
            self._under_way = list(timings)
            for news in take_replicates(
                timings,
                starter(self.a, self.b, threads=threads, everywhere=self.division.everything),
                rng=rng,
                cores=lane[:threads] if threads <= len(lane) else self.division.everything,
                effort=self.effort,
                cases=cases,
                in_background=bool(self.division.others),
                control=Control(timings, control_starter(self.a, self.b, threads=threads)),
            ):
                if not isinstance(news, CaseTiming):
                    yield news
                    continue
                yield self._time_result(news)
                if news in self._under_way:  # no control
                    self._under_way.remove(news)

    def partial_results(self) -> Iterator[Result]:
        """Yield results for interrupted cases that have enough data for an interval.

        A case that has had its budget is not interrupted: its result is final.
        """
        for case in self._under_way:
            if case.failure is not None:
                yield self._failed(case, case.failure)
            elif case.has_had_its_budget(self.effort):
                case.cut_short()
                yield case.planned.finish(payload=case.timing(), seconds=case.seconds)
            elif case.cut_short():
                count = len(case.replicates)
                reason = f"cut short after {count} replicate{'s' if count > 1 else ''}"
                yield case.planned.finish(
                    Status.PARTIAL, reason=reason, payload=case.timing(), seconds=case.seconds
                )

    def _time_result(self, case: CaseTiming) -> Result:
        if case.failure is not None:
            return self._failed(case, case.failure)
        timing = case.timing()
        is_control = case.planned.metric is Metric.CONTROL
        if not is_control and judge_alone(timing).verdict.is_change:
            calls = self._python_calls(case)
            timing = msgspec.structs.replace(timing, python_calls=calls)
        return case.planned.finish(payload=timing, seconds=case.seconds)

    def _failed(self, case: CaseTiming, failure: SideFailedError) -> Result:
        side = self.a if failure.is_a else self.b
        reason = f"in {side.name}: {failure.error}"
        return case.planned.finish(Status.FAILED, reason=reason, seconds=case.seconds)

    def _python_calls(self, case: Counting | CaseTiming) -> tuple[PythonCalls, ...]:
        return compare_python_calls(
            (self.a, self.b),
            case.ready,
            threads=case.planned.case.num_threads,
            time_limit=self.effort.timeout,
        )


def _by_threads(cases: Sequence[ReadyCase], metric: Metric) -> list[tuple[int, list[ReadyCase]]]:
    """Group the cases by number of threads, because each number has its own zygotes."""
    groups: dict[int, list[ReadyCase]] = defaultdict(list)
    for each in cases:
        if each.planned.metric is metric:
            groups[each.planned.case.num_threads].append(each)
    return sorted(groups.items())


def compare_python_calls(
    sides: tuple[UnderTest, UnderTest],
    ready: tuple[Ready, Ready],
    *,
    threads: int,
    time_limit: float,
) -> tuple[PythonCalls, ...]:
    """Return the bytecodes of one run of each Python function that differs, largest difference
    first; empty for C++.
    """
    calls = []
    for side, case in zip(sides, ready, strict=True):
        if not isinstance(case, PythonCase):
            return ()
        zygote = side.workers.start(threads, under_callgrind=False)
        try:
            calls.append(zygote.python_calls(case, time_limit=time_limit))
        except TorchmarkError:  # the statement cannot be traced; the change is still reported
            return ()
    one, other = calls
    both = [
        PythonCalls(function=name, a=one.get(name, 0), b=other.get(name, 0))
        for name in {**one, **other}
    ]
    differing = [each for each in both if each.a != each.b]
    return tuple(sorted(differing, key=lambda each: (-abs(each.b - each.a), each.function)))


class WantedProfile(NamedTuple):
    """A case whose stacks are wanted."""

    planned: PlannedResult

    seconds: tuple[float, float]
    """The time of a run in each environment according to its replicates. It sets the widths of the
    flame graphs, because it is known better than the time of a loop during sampling."""


def profile_cases(
    a: UnderTest, b: UnderTest, wanted: Sequence[WantedProfile], effort: Effort
) -> Iterator[Began | Result]:
    """Profile one case after another; if py-spy cannot work at all, all of them fail at once."""
    reason = ""
    for planned, seconds in wanted:
        if reason:
            yield planned.finish(Status.FAILED, reason=reason)
            continue
        yield Began(case=planned.case, metric=planned.metric)
        try:
            yield _profile(a, b, planned, seconds, effort)
        except TorchmarkError as error:
            yield planned.finish(Status.FAILED, reason=str(error))
            reason = str(error) if isinstance(error, _OF_EVERY_CASE) else ""


def _profile(
    a: UnderTest,
    b: UnderTest,
    planned: PlannedResult,
    seconds: tuple[float, float],
    effort: Effort,
) -> Result:
    """Sample the case in both environments at the same time, including C and C++ frames."""
    *_, last = make_ready([planned], (a, b), effort, units_at_once=1)
    if isinstance(last, Result):
        return last
    assert isinstance(last, ReadyCase), last
    in_a, in_b = last.ready
    recording = begin(lambda: _record(a, planned.case, in_a), "recording")
    of_b = _record(b, planned.case, in_b)
    of_a = recording.result()
    folded = [
        fold_stacks(replace(each, seconds_per_run=of_run).per_run())
        for each, of_run in zip((of_a, of_b), seconds, strict=True)
    ]
    samples = (of_a.inside, of_b.inside)
    return planned.finish(payload=PairedProfile(a=folded[0], b=folded[1], samples=samples))


def _record(side: UnderTest, case: Case, ready: Ready) -> Recording:
    zygote = side.workers.start(case.num_threads, under_callgrind=False)
    return record(zygote, ready, seconds=_PROFILE_SECONDS, native=True)
