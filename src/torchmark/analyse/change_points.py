"""Change points: where the figures of a case changed, and whether they stayed changed.

A series is divided into segments of constant level, on the logarithmic scale:

1. *Search*: the cheapest division into segments, with a price for each boundary (dynamic
   programming). Segments of points that are alike cost less; a single bad run costs the same
   wherever it is. Neighbours that are alike raise the price: runs of one hour have more in common
   than runs of different days.
2. *One certain change first.* The first search has a high price. Unless it finds a change, and a
   rank test agrees that chance hardly ever does this, the series has none.
3. *Then the others.* The second search has a lower price, because a series with one change often
   has more.
4. *A drift is no step.* Where a line explains both sides better than a step, the step is removed.

A change that returns to its former level has *passed*: that is typical of a machine, not of code. A
change with very few points behind it is *recent*, and the next runs decide what it is.

Counts that repeat exactly need no statistics: they have changed where they differ for more than one
run.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from torchmark.analyse.student import quantile, two_sided_p
from torchmark_probe.loops.intervals import Interval

Floats: TypeAlias = npt.NDArray[np.float64]

FEWEST = 3
"""Points of a segment. Two bad runs in a row are not rare on a shared machine."""

_OUTLYING = 3.0
"""Standard deviations from the running median to which outliers of a baseline are pulled in."""

_NEAR_MEDIAN = 1.0
"""The same where likely places are searched and steps are compared with drifts."""

_OF_A_MEDIAN = 1.2533
"""The standard error of a median over that of a mean, for normal noise."""

_ALSO = 4.0
"""The second test may add a quarter to the false alarms of the first."""

_SHORT = 10
"""A rank test is exact if one side has at most so many points."""

_NEIGHBOURS = 60
"""The nearest points of the other side that an exact test compares them with."""

_HALF_WINDOW = 3
"""The running median has seven points: a segment of `FEWEST` points is pulled in, but not away."""

_PRICE = 0.5
"""Price of a boundary, times the logarithm of the number of points, once a change is certain."""

_CERTAIN_PRICE = 0.8
"""The same for the first one: of 1,100 stationary series of recorded noise, eleven had a change at
0.7, and five at 0.82."""

_LEAST_STRICT = 0.6
"""With less, the first change could be as uncertain as the others."""

_ALSO_RARE = 5.0
"""A certain change must not be likely by a rank test either. This matters in short series, for
which the prices are too low."""

_FAR = 100.0
"""Points further apart than this have no likeness; it only prevents underflow."""

_LIKELY = 2.0
"""Standard errors by which the means of neighbouring windows differ at a place worth trying."""

_GROWTH = 1.4
"""Each window is longer than the one before by this factor."""

_SURELY_DRIFT = 5.0
"""A line explains a step better if it leaves so many variances of a point less; noise alone often
makes it a little better."""

_LAGS = (1, 2, 3, 4, 5, 6, 7, 8)
_SHORTEST = 64
"""In a shorter series, too large a part of the distant points are on both sides of one step."""

_ALIKE = 4
"""The first of these distances are compared with the others, at which runs have nothing in common.
"""

_CHANCE = 3.0
"""What chance does to the likeness of neighbours, times the root of the number of points."""

_MOST_IN_COMMON = 6.0
"""Limit of the factor by which that increases the variance of a mean."""

_EXACT_SHARE = 8
"""A series of counts is exact if at most one of so many points differs from the one before."""

_SMALLEST_NOISE = 1e-7
"""Standard deviation on the logarithmic scale that any series has at least."""

_RECENT = 3
"""A change with fewer points behind it is recent, for counts too."""

SIGNIFICANCE = 0.01
"""The share of series without a change in which one may be found."""


class Fate(enum.Enum):
    """What became of a change."""

    STAYED = "stayed"
    PASSED = "passed"
    """A later change undid it."""

    RECENT = "recent"
    """Too few points follow to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What counts as a change."""

    least: float = 0.0
    """Smaller changes are ignored, as a share: 0.01 is 1 %."""

    significance: float = SIGNIFICANCE
    """The share of series without a change in which one may be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive points of one level."""

    start: int
    """Index of the first point."""

    stop: int
    """Index after the last point."""

    level: float
    """The median, in the unit of the series."""

    spread: float
    """Standard deviation of a point, as a share of the level."""

    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """A change of level."""

    index: int
    """Index of the first point with the new level."""

    before: float
    """The level before, in the unit of the series."""

    after: float
    interval: Interval
    """The 95 % interval of the ratio."""

    fate: Fate

    @property
    def ratio(self) -> float:
        """The level after over the level before; above 1 is slower, or more."""
        return _ratio(self.before, self.after)

    @property
    def change(self) -> float:
        """The change as a share: 0.02 is 2 % more."""
        return self.ratio - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A series divided into segments."""

    segments: tuple[Segment, ...]
    points: tuple[ChangePoint, ...]
    """The changes between neighbouring segments."""

    @property
    def lasting(self) -> tuple[ChangePoint, ...]:
        """The changes that have not passed."""
        return tuple(each for each in self.points if each.fate is not Fate.PASSED)


@dataclass(slots=True)
class _Step:
    """A candidate, with its test."""

    boundary: int
    size: float
    error: float
    freedom: float
    p: float
    is_drift: bool


def find_changes(
    values: Sequence[float], rule: Rule | None = None, *, is_exact: bool = False
) -> Changes:
    """Divide a series of positive figures into segments of constant level.

    `is_exact` says that figures repeat exactly while nothing changes, as counts do.

    >>> [each.index for each in find_changes([10, 10, 10, 10, 12, 12, 12], is_exact=True).points]
    [4]
    """
    rule = rule or Rule()
    logs = _logarithms(values)
    boundaries = _exact_boundaries(logs, rule) if is_exact else None
    if boundaries is not None:
        steps = [_exact_step(logs, boundaries, place) for place in range(len(boundaries))]
        return _changes(values, boundaries, steps)
    return _changes(values, *_search(logs, rule))


def rank_p(left: Floats, right: Floats, common: float = 1.0) -> float:
    """The p-value of a rank test: how often chance puts values so much higher on one side.

    Outliers of any size do not matter, which a t test of recorded runs did not survive: it found a
    change in one of seven series without one. `common` is the factor by which the likeness of
    neighbours increases the variance of a mean.

    >>> round(rank_p(np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0])), 4)
    0.0571
    """
    is_exact = min(len(left), len(right)) <= _SHORT
    if is_exact:
        left, right = left[-_NEIGHBOURS:], right[:_NEIGHBOURS]
    ordered = np.sort(np.concatenate([left, right]))
    low, high = np.searchsorted(ordered, right), np.searchsorted(ordered, right, side="right")
    count, others = len(right), len(left)
    sum_of_ranks = float(((low + high + 1) / 2).sum())
    middle = count * (count + others + 1) / 2
    away = abs(sum_of_ranks - middle)
    deviation = math.sqrt(count * others * (count + others + 1) / 12)
    if is_exact:
        p = _exact_tail(min(count, others), max(count, others), round(away * 2))
    else:
        p = math.erfc(max(0.0, away - 0.5) / deviation / math.sqrt(2))
    if common <= 1 or p >= 1:
        return min(p, 1.0)
    normal = NormalDist()
    z = -normal.inv_cdf(max(p, 1e-300) / 2) / math.sqrt(common)
    return 2 * normal.cdf(-z)


def welch_p(left: Floats, right: Floats, common: float = 1.0) -> float:
    """The p-value of Welch's t test, with the degrees of freedom of the shorter side alone.

    Few points have few orders, so a rank test cannot be certain of them, however far apart they
    are. This test can, and it is too strict to be fooled by outliers.
    """
    fewest = min(len(left), len(right))
    if fewest < FEWEST:
        return 1.0
    variance = max(float(left.var(ddof=1)), _SMALLEST_NOISE**2) / len(left)
    variance += max(float(right.var(ddof=1)), _SMALLEST_NOISE**2) / len(right)
    size = float(right.mean() - left.mean())
    return two_sided_p(size / math.sqrt(variance * common), fewest - 1)


@lru_cache(maxsize=4096)
def _tails(few: int, many: int) -> tuple[float, ...]:
    """The probability of a sum of ranks at least so far from its middle, in half ranks."""
    most = few * (few + 2 * many + 1) // 2
    ways = np.zeros((few + 1, most + 1))
    ways[0, 0] = 1.0
    for rank in range(1, few + many + 1):
        for size in range(min(few, rank), 0, -1):
            ways[size, rank:] += ways[size - 1, : most + 1 - rank]
    shares = ways[few] / ways[few].sum()
    distances = np.abs(2 * np.arange(most + 1) - few * (few + many + 1))
    by_distance = np.bincount(distances, weights=shares)
    return tuple(np.cumsum(by_distance[::-1])[::-1].tolist())


def _exact_tail(few: int, many: int, distance: int) -> float:
    tails = _tails(few, many)
    return tails[distance] if distance < len(tails) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The level of figures that have not changed, on the logarithmic scale."""

    log: float
    """The mean, without the effect of outliers."""

    spread: float
    """Standard deviation of one more figure."""

    error: float
    """Standard error of `log`; neighbours may have something in common."""

    points: int


def level_of(values: Sequence[float]) -> Level:
    """The level of figures of one segment.

    >>> round(level_of([1.0, 1.01, 0.99, 1.0]).spread, 4)
    0.0082
    """
    logs = _logarithms(values)
    tame = _pull_in(logs, _OUTLYING)
    count = len(tame)
    spread = float(tame.std(ddof=1)) if count > 1 else 0.0
    spread = max(spread, _SMALLEST_NOISE)
    return Level(
        log=float(tame.mean()),
        spread=spread,
        error=spread * math.sqrt(_in_common(logs) / count),
        points=count,
    )


def _logarithms(values: Sequence[float]) -> Floats:
    """Zeros, which a count may be, get a value far below all others."""
    array = np.asarray(values, dtype=np.float64)
    return np.log(np.maximum(array, 1e-12))


def _exact_boundaries(logs: Floats, rule: Rule) -> list[int] | None:
    """Where exact figures differ for more than one run; None if they do not repeat exactly."""
    if len(logs) < 2:
        return []
    # The median of three removes single differing points; the last point has no point behind it.
    middle = np.sort(np.stack([logs[:-2], logs[1:-1], logs[2:]]), axis=0)[1]
    steady = np.concatenate([[logs[0]], middle, [logs[-1]]])
    if len(logs) > 2 and logs[0] != logs[1] == logs[2]:
        steady[0] = logs[1]
    least = max(math.log1p(rule.least), 1e-12)
    boundaries, level = [], steady[0]
    for index, value in enumerate(steady):
        if abs(value - level) >= least:
            boundaries.append(index)
            level = value
    is_exact = len(boundaries) <= max(3, len(logs) // _EXACT_SHARE)
    return boundaries if is_exact else None


def _exact_step(logs: Floats, boundaries: list[int], place: int) -> _Step:
    start, boundary, stop = _around(boundaries, place, len(logs))
    size = _median(logs[boundary:stop]) - _median(logs[start:boundary])
    return _Step(boundary, size, 0.0, math.inf, 0.0, is_drift=False)


def _pull_in(logs: Floats, reach: float = _NEAR_MEDIAN) -> Floats:
    """The series with its outliers pulled in towards a running median."""
    if len(logs) < FEWEST:
        return logs
    half = min(_HALF_WINDOW, (len(logs) - 1) // 2)
    padded = np.concatenate([logs[half:0:-1], logs, logs[-2 : -2 - half : -1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    running = np.partition(windows, half, axis=1)[:, half]
    most = reach * _noise(logs)
    return np.asarray(running + np.clip(logs - running, -most, most))


def _median(values: Floats) -> float:
    """`np.median`, in a quarter of its time for short arrays."""
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    low, high = np.partition(values, (middle - 1, middle))[middle - 1 : middle + 1]
    return float((low + high) / 2)


def _noise(logs: Floats) -> float:
    """The standard deviation of a point, from the differences of neighbours."""
    if len(logs) < 2:
        return _SMALLEST_NOISE
    differences = np.abs(np.diff(logs))
    return max(_median(differences) / 0.6745 / math.sqrt(2), _SMALLEST_NOISE)


def _divide(sums: Floats, places: npt.NDArray[np.intp], price: float) -> list[int]:
    """The boundaries of the cheapest division, with this price for each.

    A segment costs the less, the more alike all pairs of its points are: 1 for equal points, 0 for
    points far apart, however far. So outliers cost the same wherever they are.
    """
    own = np.diagonal(sums)
    best = np.full(len(places), np.inf)
    best[0] = -price
    came_from = np.zeros(len(places), dtype=np.intp)
    for number in range(1, len(places)):
        lengths = places[number] - places[:number]
        alike = own[number] - 2 * sums[number, :number] + own[:number]
        found = best[:number] + lengths - alike / lengths + price
        found = np.where(lengths >= FEWEST, found, np.inf)
        came_from[number] = int(np.argmin(found))
        best[number] = found[came_from[number]]
    boundaries = []
    at = int(came_from[-1])
    while at > 0:
        boundaries.append(int(places[at]))
        at = int(came_from[at])
    return boundaries[::-1]


def _sums_of_likeness(logs: Floats) -> Floats:
    """The likeness of all pairs of points, summed from the first point to each pair."""
    distances = (logs[:, None] - logs[None, :]) ** 2
    usual = _median(distances[np.triu_indices(len(logs), 1)])
    likeness = np.exp(-np.minimum(distances / max(usual, _SMALLEST_NOISE**2), _FAR))
    sums = np.zeros((len(logs) + 1, len(logs) + 1))
    sums[1:, 1:] = likeness.cumsum(axis=0).cumsum(axis=1)
    return sums


def _likely_places(tame: Floats) -> list[int]:
    """Where the means of two neighbouring windows differ most, for windows of several lengths.

    Trying all places takes twice the time and finds no more.
    """
    count = len(tame)
    sums = np.concatenate([[0.0], np.cumsum((tame - tame[0]) / _noise(tame))])
    found: set[int] = set()
    length = FEWEST
    while 2 * length <= count:
        at = np.arange(length, count - length + 1)
        right = sums[at + length] - sums[at]
        left = sums[at] - sums[at - length]
        distance = np.abs(right - left) / math.sqrt(2 * length)
        # A place counts if no other within the window is more distant.
        padded = np.pad(distance, FEWEST - 1)
        largest = np.lib.stride_tricks.sliding_window_view(padded, 2 * FEWEST - 1).max(axis=1)
        found.update(at[(distance >= largest) & (distance > _LIKELY)].tolist())
        length = math.ceil(length * _GROWTH)
    return sorted(found)


def _search(logs: Floats, rule: Rule) -> tuple[list[int], list[_Step]]:
    """The changes of a series; none unless at least one is certain."""
    count = len(logs)
    if count < 2 * FEWEST:
        return [], []
    tame = _pull_in(logs)
    places = np.array([0, *_likely_places(tame), count], dtype=np.intp)
    sums = _sums_of_likeness(logs)[np.ix_(places, places)]
    # A rule that allows fewer false alarms asks for more: a tenth of them costs a half more.
    strict = 1 - math.log10(rule.significance / SIGNIFICANCE) / 2
    usual = _in_common(logs) * math.log(count)
    if not _divide(sums, places, max(strict, _LEAST_STRICT) * _CERTAIN_PRICE * usual):
        return [], []
    kept = _divide(sums, places, _PRICE * usual)
    steps = _test_all(logs, tame, kept)
    surest = min((step.p for step in steps), default=1.0)
    if surest * count >= _ALSO_RARE * rule.significance:
        return [], []
    while kept:
        doubtful = [place for place, step in enumerate(steps) if not _is_step(step, rule)]
        if not doubtful:
            break
        del kept[min(doubtful, key=lambda place: abs(steps[place].size))]
        steps = _test_all(logs, tame, kept)
    return kept, steps


def _is_step(step: _Step, rule: Rule) -> bool:
    """Whether it is large enough, and no part of a drift."""
    return abs(step.size) >= math.log1p(rule.least) and not step.is_drift


def _around(boundaries: list[int], place: int, count: int) -> tuple[int, int, int]:
    """The start of the segment before a boundary, the boundary, the end of the segment after."""
    start = boundaries[place - 1] if place else 0
    stop = boundaries[place + 1] if place + 1 < len(boundaries) else count
    return start, boundaries[place], stop


def _in_common(logs: Floats) -> float:
    """The factor by which the likeness of neighbours increases the variance of a mean.

    Neighbours are alike if they differ less than points that are further apart. Steps and outliers
    hardly matter, since differences are compared by their medians. What chance alone does to a
    series of this length is subtracted.
    """
    count = len(logs)
    if count < _SHORTEST:
        return 1.0
    near = [_median(np.abs(logs[lag:] - logs[:-lag])) for lag in _LAGS]
    apart = _median(np.array(near[_ALIKE:]))
    if apart <= 0:
        return 1.0
    factor = 1.0
    for lag, distance in zip(_LAGS[:_ALIKE], near, strict=False):
        likeness = 1 - (distance / apart) ** 2
        factor += 2 * (1 - lag / (_ALIKE + 1)) * max(0.0, likeness - _CHANCE / math.sqrt(count))
    return min(factor, _MOST_IN_COMMON)


def _test_all(logs: Floats, tame: Floats, boundaries: list[int]) -> list[_Step]:
    """Compare the levels on both sides of each boundary."""
    residuals = np.concatenate([part - _median(part) for part in np.split(logs, boundaries)])
    noise = max(_median(np.abs(residuals)) / 0.6745, _SMALLEST_NOISE)
    common = _in_common(logs)
    steps = []
    for place in range(len(boundaries)):
        start, boundary, stop = _around(boundaries, place, len(logs))
        left, right = logs[start:boundary], logs[boundary:stop]
        own = _median(np.abs(residuals[start:stop])) / 0.6745
        share = 1 / len(left) + 1 / len(right)
        steps.append(
            _Step(
                boundary=boundary,
                size=_median(right) - _median(left),
                error=_OF_A_MEDIAN * max(own, noise) * math.sqrt(common * share),
                freedom=max((stop - start - 2) / common, 2.0),
                p=min(rank_p(left, right, common), _ALSO * welch_p(left, right, common)),
                is_drift=_is_drift(tame[start:stop], len(left)),
            )
        )
    return steps


def _is_drift(both: Floats, boundary: int) -> bool:
    """Whether a line explains two segments better than a step does."""
    times = np.arange(len(both), dtype=np.float64)
    times -= times.mean()
    centred = both - both.mean()
    slope = float(times @ centred) / float(times @ times)
    by_line = float(((centred - slope * times) ** 2).sum())
    parts = both[:boundary], both[boundary:]
    by_step = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    return by_line < by_step * (1 - _SURELY_DRIFT / len(both))


def _changes(values: Sequence[float], boundaries: list[int], steps: list[_Step]) -> Changes:
    array, logs = np.asarray(values, dtype=np.float64), _logarithms(values)
    parts = np.split(logs, boundaries) if len(logs) else []
    starts = [0, *boundaries]
    segments = tuple(
        Segment(
            start=start,
            stop=start + len(part),
            level=_median(array[start : start + len(part)]),
            spread=_spread(part),
            points=len(part),
        )
        for start, part in zip(starts, parts, strict=False)
    )
    points = tuple(
        ChangePoint(
            index=step.boundary,
            before=before.level,
            after=after.level,
            interval=_interval(step, _ratio(before.level, after.level)),
            fate=_fate(segments, place, steps),
        )
        for place, (step, before, after) in enumerate(
            zip(steps, segments, segments[1:], strict=False)
        )
    )
    return Changes(segments=segments, points=points)


def _spread(part: Floats) -> float:
    """The standard deviation by the median distance from the median, which outliers hardly move."""
    return _median(np.abs(part - _median(part))) / 0.6745 if len(part) else 0.0


def _ratio(before: float, after: float) -> float:
    """Infinite if a count was zero before."""
    return after / before if before else math.inf


def _interval(step: _Step, ratio: float) -> Interval:
    factor = math.exp(quantile(0.95, step.freedom) * step.error) if step.error else 1.0
    return Interval(ratio / factor, ratio * factor)


def _fate(segments: Sequence[Segment], place: int, steps: Sequence[_Step]) -> Fate:
    """Passed if a later segment, or for the way back an earlier one, has the former level."""
    step = steps[place]
    for other in (place + 1, place - 1):
        if 0 <= other < len(steps) and _undo(step, steps[other]):
            middle = segments[max(place, other)]
            if middle.points <= _longest_episode(segments):
                return Fate.PASSED
    return Fate.RECENT if segments[place + 1].points < _RECENT else Fate.STAYED


def _undo(one: _Step, other: _Step) -> bool:
    """Whether two neighbouring steps cancel, within twice their errors or a quarter of one."""
    left_over = abs(one.size + other.size)
    return left_over <= max(
        2 * math.hypot(one.error, other.error), min(abs(one.size), abs(other.size)) / 4
    ) and (one.size > 0) is not (other.size > 0)


def _longest_episode(segments: Sequence[Segment]) -> int:
    """An episode of a machine is shorter than what surrounds it together."""
    return sum(each.points for each in segments) // 2
