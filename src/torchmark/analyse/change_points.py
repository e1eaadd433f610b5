"""Change points: where the figures of a case changed, and whether they stayed changed.

A series is divided into segments of constant level, on the logarithmic scale:

1. *Outliers* are pulled in to three standard deviations from a running median, so that a single bad
   run is not a change. The standard deviation comes from differences of neighbours, which a step
   does not affect.
2. *Candidates* are the boundaries of the division with the least sum of squares and a low price for
   each boundary (dynamic programming).
3. *Each candidate must hold.* The levels on both sides are compared by a t test. Its standard error
   includes what neighbours have in common: runs of one hour are more alike than runs of different
   days. The level of the test is shared among all places where a change could be. The least certain
   candidate is removed until all hold.
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
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from torchmark.analyse.student import quantile, two_sided_p
from torchmark_probe.loops.intervals import Interval

Floats: TypeAlias = npt.NDArray[np.float64]

FEWEST = 3
"""Points of a segment. Two bad runs in a row are not rare on a shared machine."""

_OUTLYING = 3.0
"""Standard deviations from the running median to which outliers are pulled in."""

_HALF_WINDOW = 3
"""The running median has seven points: a segment of `FEWEST` points is pulled in, but not away."""

_PRICE = 6.0
"""Price of a boundary among the candidates, in squared standard deviations. A step that is worth
less cannot pass the test afterwards."""

_LIKELY = 2.0
"""Standard errors by which the means of neighbouring windows differ at a place worth trying."""

_GROWTH = 1.4
"""Each window is longer than the one before by this factor."""

_LAGS = 3
"""Neighbours up to this distance are looked at for what they have in common."""

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
    tame = _pull_in(logs)
    boundaries = _candidates(tame)
    return _changes(values, *_keep_certain(tame, boundaries, rule))


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
    tame = _pull_in(logs)
    count = len(tame)
    spread = float(tame.std(ddof=1)) if count > 1 else 0.0
    spread = max(spread, _SMALLEST_NOISE)
    return Level(
        log=float(tame.mean()),
        spread=spread,
        error=spread * math.sqrt(_in_common(tame - tame.mean(), 1) / count),
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
    middle = np.median(np.stack([logs[:-2], logs[1:-1], logs[2:]]), axis=0)
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
    size = float(np.median(logs[boundary:stop]) - np.median(logs[start:boundary]))
    return _Step(boundary, size, 0.0, math.inf, 0.0, is_drift=False)


def _pull_in(logs: Floats) -> Floats:
    """The series with its outliers pulled in towards a running median."""
    if len(logs) < FEWEST:
        return logs
    half = min(_HALF_WINDOW, (len(logs) - 1) // 2)
    padded = np.concatenate([logs[half:0:-1], logs, logs[-2 : -2 - half : -1]])
    running = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    reach = _OUTLYING * _noise(logs)
    return np.asarray(running + np.clip(logs - running, -reach, reach))


def _noise(logs: Floats) -> float:
    """The standard deviation of a point, from the differences of neighbours."""
    if len(logs) < 2:
        return _SMALLEST_NOISE
    differences = np.abs(np.diff(logs))
    return max(float(np.median(differences)) / 0.6745 / math.sqrt(2), _SMALLEST_NOISE)


def _candidates(logs: Floats) -> list[int]:
    """The boundaries of the cheapest division: squares from the means, and a price for each.

    Only places where the means of neighbouring windows differ are tried: in a long series, trying
    all would take thirty times as long.
    """
    count = len(logs)
    if count < 2 * FEWEST:
        return []
    scaled = (logs - logs[0]) / _noise(logs)
    sums = np.concatenate([[0.0], np.cumsum(scaled)])
    squares = np.concatenate([[0.0], np.cumsum(scaled**2)])
    places = np.array([0, *_likely_places(sums), count])
    best = np.zeros(len(places))
    best[0] = -_PRICE
    came_from = np.zeros(len(places), dtype=np.intp)
    for number in range(1, len(places)):
        lengths = places[number] - places[:number]
        totals = sums[places[number]] - sums[places[:number]]
        costs = squares[places[number]] - squares[places[:number]] - totals**2 / lengths
        found = np.where(lengths >= FEWEST, best[:number] + costs + _PRICE, np.inf)
        came_from[number] = int(np.argmin(found))
        best[number] = found[came_from[number]]
    boundaries = []
    at = int(came_from[-1])
    while at > 0:
        boundaries.append(int(places[at]))
        at = int(came_from[at])
    return boundaries[::-1]


def _likely_places(sums: Floats) -> list[int]:
    """Where the means of two neighbouring windows differ most, for windows of several lengths."""
    count = len(sums) - 1
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


def _keep_certain(logs: Floats, boundaries: list[int], rule: Rule) -> tuple[list[int], list[_Step]]:
    """Remove the least certain candidate until all hold; move the others to their best place."""
    kept = list(boundaries)
    while kept:
        steps = _test_all(logs, kept)
        worst = max(range(len(kept)), key=lambda place: (steps[place].is_drift, steps[place].p))
        if _holds(steps[worst], len(logs), rule):
            small = [place for place, step in enumerate(steps) if not _is_large(step, rule)]
            if not small:
                return kept, steps
            worst = min(small, key=lambda place: abs(steps[place].size))
        del kept[worst]
        for place in (worst - 1, worst):
            if 0 <= place < len(kept):
                kept[place] = _best_place(logs, kept, place)
    return [], []


def _holds(step: _Step, count: int, rule: Rule) -> bool:
    return not step.is_drift and step.p * count < rule.significance


def _is_large(step: _Step, rule: Rule) -> bool:
    return abs(step.size) >= math.log1p(rule.least)


def _around(boundaries: list[int], place: int, count: int) -> tuple[int, int, int]:
    """The start of the segment before a boundary, the boundary, the end of the segment after."""
    start = boundaries[place - 1] if place else 0
    stop = boundaries[place + 1] if place + 1 < len(boundaries) else count
    return start, boundaries[place], stop


def _best_place(logs: Floats, boundaries: list[int], place: int) -> int:
    """Where a step divides its two segments best."""
    start, _, stop = _around(boundaries, place, len(logs))
    both = logs[start:stop]
    lengths = np.arange(FEWEST, len(both) - FEWEST + 1)
    sums = np.cumsum(both)
    left = sums[lengths - 1]
    gain = left**2 / lengths + (sums[-1] - left) ** 2 / (len(both) - lengths)
    return start + int(lengths[np.argmax(gain)])


def _residuals(logs: Floats, boundaries: list[int]) -> Floats:
    """Each point without the mean of its segment."""
    return np.concatenate([part - part.mean() for part in np.split(logs, boundaries)])


def _in_common(residuals: Floats, segments: int) -> float:
    """The factor by which the likeness of neighbours increases the variance of a mean."""
    variance = float(residuals @ residuals)
    if variance <= 0:
        return 1.0
    count = len(residuals)
    factor = 1.0
    for lag in range(1, min(_LAGS, count - 1) + 1):
        likeness = float(residuals[:-lag] @ residuals[lag:]) / variance
        # The mean of each segment was taken away, which makes neighbours look different.
        likeness += segments / count
        factor += 2 * (1 - lag / (_LAGS + 1)) * likeness
    return min(max(factor, 1.0), _MOST_IN_COMMON)


def _test_all(logs: Floats, boundaries: list[int]) -> list[_Step]:
    """Compare the levels on both sides of each boundary."""
    residuals = _residuals(logs, boundaries)
    common = _in_common(residuals, len(boundaries) + 1)
    # The noise of the whole series steadies that of short segments.
    spare = max(len(logs) - len(boundaries) - 1, 1)
    pooled = float(residuals @ residuals) / spare
    steps = []
    for place in range(len(boundaries)):
        start, boundary, stop = _around(boundaries, place, len(logs))
        left, right = boundary - start, stop - boundary
        own = float(residuals[start:stop] @ residuals[start:stop]) / max(left + right - 2, 1)
        variance = max(own, pooled, _SMALLEST_NOISE**2)
        size = float(logs[boundary:stop].mean() - logs[start:boundary].mean())
        error = math.sqrt(variance * common * (1 / left + 1 / right))
        freedom = max((left + right - 2) / common, 2.0)
        steps.append(
            _Step(
                boundary=boundary,
                size=size,
                error=error,
                freedom=freedom,
                p=two_sided_p(size / error, freedom),
                is_drift=_is_drift(logs[start:stop], left),
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
    return by_line < by_step


def _changes(values: Sequence[float], boundaries: list[int], steps: list[_Step]) -> Changes:
    array, logs = np.asarray(values, dtype=np.float64), _logarithms(values)
    parts = np.split(logs, boundaries) if len(logs) else []
    starts = [0, *boundaries]
    segments = tuple(
        Segment(
            start=start,
            stop=start + len(part),
            level=float(np.median(array[start : start + len(part)])),
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
    return float(np.median(np.abs(part - np.median(part)))) / 0.6745 if len(part) else 0.0


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
