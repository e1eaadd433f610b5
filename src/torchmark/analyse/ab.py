"""Judge a comparison of two environments: ratios, verdicts, differences and the control.

*Times* are judged from their replicates (see `torchmark.analyse.pairs`), all cases together.

*Counts* are exact if both environments have the same memory layout. Otherwise the same work takes
a few instructions more or fewer, so each case is counted in several layouts. It has changed if the
distance between the counts of A and B is larger than the spread within A or within B.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import NamedTuple, TypeAlias

from torchmark.analyse.estimates import Compared, CountChange, Verdict, counted_its_loop
from torchmark.analyse.pairs import Effect, can_be_judged, judge_alone, judge_times
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.case import Case, spec_of
from torchmark.model.result import (
    Metric,
    PairedCounts,
    PairedTiming,
    PythonCalls,
    Result,
    Status,
    stats_of_counts,
)
from torchmark.model.run import Environment, Run

Pair: TypeAlias = tuple[str, str]
"""The names of two environments: the second is compared with the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRow:
    """The time of one case in both environments."""

    case: Case
    other: Case | None
    a_seconds: float
    effect: Effect
    """The ratio of B to A with its interval, the verdict, and the detectable change."""

    python_calls: tuple[PythonCalls, ...]
    """Python functions that differ, if the case has changed."""

    @property
    def verdict(self) -> Verdict:
        return self.effect.verdict

    @property
    def b_seconds(self) -> float:
        """One run in B: A's time multiplied by the ratio."""
        return self.a_seconds * self.effect.ratio


class FunctionDifference(NamedTuple):
    """The additional instructions of one function in B, for one run of the case."""

    function: str
    instructions: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRow(CountChange):
    """The instructions of one case in A and in B: the medians over the memory layouts.

    Functions whose count depends only on the layout are left out.
    """

    other: Case | None
    spread: Fraction
    """The range of the counts over the layouts, in A or in B, whichever is larger."""

    functions: tuple[FunctionDifference, ...]
    """The differences by function, largest first."""

    python_calls: tuple[PythonCalls, ...]


class Control(NamedTuple):
    """A/A comparisons: A compared with A, launched separately, to count false alarms."""

    comparisons: int
    """Number of cases that were compared, each judged as a single case."""

    alarms: int
    """Number of comparisons that were called a change."""

    deviation: float
    """The standard deviation of the log ratios around 0: the noise of one replicate."""

    share: float
    """Share of the time of all comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Compared):
    """The judged comparison of two environments; rows with the largest changes come first."""

    a: Environment
    b: Environment
    results: tuple[Result, ...]
    """Times and counts in the order of the plan."""

    times: tuple[TimeRow, ...]
    counts: tuple[CountRow, ...]
    gaps: tuple[Result, ...]
    """Results that failed or were skipped."""

    control: Control | None
    """None if the comparison was too short for one."""

    missing: int
    """Number of planned results that are missing."""


def pairs_of(run: Run) -> list[Pair]:
    """The pairs of environments that the run compares, in the order of its plan."""
    found = dict.fromkeys(each.environments for each in run.plan)
    return [(pair[0], pair[1]) for pair in found if len(pair) == 2]


def judge(run: Run, pair: Pair) -> Judged:
    """Judge all cases of one comparison together."""
    places = {planned.key: place for place, planned in enumerate(run.plan)}
    mine = [each for each in run.results if each.environments == pair]
    compared = sorted(
        (each for each in mine if each.metric in (Metric.TIME, Metric.INSTRUCTIONS)),
        key=lambda each: places.get(each.key, len(places)),
    )
    timings = [(each, each.payload) for each in compared if isinstance(each.payload, PairedTiming)]
    counted = [each for each in compared if isinstance(each.payload, PairedCounts)]
    there = {each.key for each in mine}
    of_name = {each.name: each for each in run.environments}
    return Judged(
        a=of_name.get(pair[0], Environment(name=pair[0])),
        b=of_name.get(pair[1], Environment(name=pair[1])),
        results=tuple(compared),
        times=tuple(sorted(_time_rows(timings), key=_time_order)),
        counts=tuple(sorted(map(judge_counts, counted), key=_count_order)),
        gaps=tuple(each for each in compared if each.status in (Status.FAILED, Status.SKIPPED)),
        control=_control(mine),
        missing=sum(
            planned.environments == pair and planned.key not in there for planned in run.plan
        ),
    )


def _time_rows(timings: Sequence[tuple[Result, PairedTiming]]) -> list[TimeRow]:
    found = [(each, times) for each, times in timings if can_be_judged(times)]
    effects = judge_times([times for _, times in found])
    return [
        TimeRow(
            case=each.case,
            other=each.other,
            a_seconds=times.a_seconds,
            effect=effect,
            python_calls=times.python_calls,
        )
        for (each, times), effect in zip(found, effects, strict=True)
    ]


def _time_order(row: TimeRow) -> tuple[int, float]:
    """The order of rows: changes, largest first; then unclear; then the same."""
    place = {Verdict.SLOWER: 0, Verdict.FASTER: 0, Verdict.UNCLEAR: 1, Verdict.SAME: 2}
    return place[row.verdict], -abs(math.log(row.effect.ratio))


def _count_order(row: CountRow) -> tuple[bool, float]:
    return not row.verdict.is_change, -abs(row.share)


def judge_counts(result: Result) -> CountRow:
    """Judge the counts of one case; other cases do not affect it."""
    counts = result.payload
    assert isinstance(counts, PairedCounts)
    spec = spec_of(result.case)
    first, second = ([stats_of_counts(each, spec) for each in of] for of in (counts.a, counts.b))
    with_loop = not all(map(counted_its_loop, (*counts.a, *counts.b)))
    a = sorted(_per_run(stats, with_loop=with_loop) for stats in first)
    b = sorted(_per_run(stats, with_loop=with_loop) for stats in second)
    spread = max(a[-1] - a[0], b[-1] - b[0])
    return CountRow(
        case=result.case,
        other=result.other,
        before=a[len(a) // 2],
        after=b[len(b) // 2],
        spread=spread,
        verdict=_count_verdict(a, b, spread),
        functions=_functions_that_differ(first[0], second[0]),
        python_calls=counts.python_calls,
    )


def _count_verdict(a: Sequence[Fraction], b: Sequence[Fraction], spread: Fraction) -> Verdict:
    if b[0] - a[-1] > spread:
        return Verdict.MORE
    if a[0] - b[-1] > spread:
        return Verdict.FEWER
    return Verdict.SAME if a == b else Verdict.CLOSE


def _per_run(stats: CallgrindStats, *, with_loop: bool) -> Fraction:
    """Instructions of one run, without functions that depend on memory addresses."""
    counts = stats.stmt_exclusive_stats if with_loop else stats.without_loop()
    return Fraction(counts.without_layout().sum(), stats.number_per_run)


def _functions_that_differ(a: CallgrindStats, b: CallgrindStats) -> tuple[FunctionDifference, ...]:
    """The additional instructions of each function in B, largest first, without build folders."""
    more: dict[str, Fraction] = defaultdict(Fraction)
    for stats, sign in ((b.as_standardized(), 1), (a.as_standardized(), -1)):
        for count, name in stats.without_loop().without_layout():
            more[name] += Fraction(sign * count, stats.number_per_run)
    found = [FunctionDifference(name, value) for name, value in more.items() if value]
    return tuple(sorted(found, key=lambda each: (-abs(each.instructions), each.function)))


def _control(results: Sequence[Result]) -> Control | None:
    """The result of all A/A comparisons."""
    timed = [
        (each, each.payload)
        for each in results
        if isinstance(each.payload, PairedTiming) and can_be_judged(each.payload)
    ]
    controls = [(each, times) for each, times in timed if each.metric is Metric.CONTROL]
    if not controls:
        return None
    squares = [
        fmean([sum(crossover) / 2 for crossover in replicate]) ** 2
        for _, times in controls
        for replicate in times.replicates
        if replicate
    ]
    seconds = sum(each.seconds for each, _ in timed)
    return Control(
        comparisons=len(controls),
        alarms=sum(judge_alone(times).verdict.is_change for _, times in controls),
        deviation=math.sqrt(fmean(squares)),
        share=sum(each.seconds for each, _ in controls) / seconds if seconds else 0.0,
    )
