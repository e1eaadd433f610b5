"""The score of a comparison: the geometric mean of the ratios of its cases.

The interval says how well the mean of these cases is known. It does not say what other cases would
do: the cases of a suite are chosen, not drawn at random. What all cases share, such as the place of
code in memory, does not become smaller with more cases, so `shared` is added as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torchmark.analyse.ab import Judged
from torchmark.analyse.pairs import ALLOWANCE
from torchmark.analyse.run_differences import RunDifferences
from torchmark.model.case import Case
from torchmark.model.units import collect
from torchmark_probe.loops.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRatio:
    """The ratio of one case, and how well it is known."""

    case: Case
    ratio: float
    interval: Interval | None = None
    """The 95 % interval; None if the ratio is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The geometric mean of some ratios."""

    ratio: float
    interval: Interval | None
    """The 95 % interval; None if the ratios are exact."""

    cases: int


def score_of(ratios: Sequence[CaseRatio], *, shared: float = 0.0) -> Score | None:
    """The score of these cases; None if there are none with a finite ratio.

    >>> case = Case(label=("add",), stmt="x + y")
    >>> score = score_of([CaseRatio(case=case, ratio=ratio) for ratio in (0.5, 2.0, 8.0)])
    >>> round(score.ratio, 6), score.interval, score.cases
    (2.0, None, 3)
    """
    found = [each for each in ratios if 0 < each.ratio < math.inf]
    if not found:
        return None
    logs = [math.log(each.ratio) for each in found]
    mean = math.fsum(logs) / len(logs)
    halves = [_half(each.interval) for each in found if each.interval is not None]
    if not halves:
        return Score(ratio=math.exp(mean), interval=None, cases=len(found))
    half = math.hypot(*halves) / len(found) + shared
    return Score(
        ratio=math.exp(mean),
        interval=Interval(_exp(mean - half), _exp(mean + half)),
        cases=len(found),
    )


def scores_by_group(ratios: Iterable[CaseRatio], *, shared: float = 0.0) -> list[tuple[str, Score]]:
    """The score of each group of cases (their first label), in order."""
    groups = collect((each.case.label[0] if each.case.label else "", each) for each in ratios)
    found = [(name, score_of(members, shared=shared)) for name, members in groups.items()]
    return [(name, score) for name, score in found if score is not None]


def time_ratios(judged: Judged) -> list[CaseRatio]:
    """The ratios of the times of an A/B comparison."""
    return [
        CaseRatio(case=row.case, ratio=row.effect.ratio, interval=row.effect.interval_95)
        for row in judged.times
    ]


def count_ratios(judged: Judged) -> list[CaseRatio]:
    """The ratios of the counts of an A/B comparison."""
    return [
        CaseRatio(case=row.case, ratio=float(row.after / row.before))
        for row in judged.counts
        if row.before and row.after
    ]


def ratios_between_runs(differences: RunDifferences) -> list[CaseRatio]:
    """The ratios of the times of two runs."""
    return [
        CaseRatio(case=each.case, ratio=each.ratio, interval=each.interval)
        for each in differences.times
        if not each.is_of_ratios
    ]


SHARED = ALLOWANCE
"""What all ratios of a comparison may share although no code differs, as a logarithm."""


def _half(interval: Interval) -> float:
    """Half of the interval, on the logarithmic scale."""
    if interval.low <= 0 or not math.isfinite(interval.high):
        return math.inf
    return math.log(interval.high / interval.low) / 2


def _exp(logarithm: float) -> float:
    return math.exp(min(max(logarithm, -700.0), 700.0))
