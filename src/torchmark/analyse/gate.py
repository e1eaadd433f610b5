"""The gate: is a case worse than its baseline by more than its limit?

A change fails the gate if two things hold: it is certain (the interval of the ratio excludes one),
and it is larger than the hard limit of the case. A certain change beyond the soft limit is a
warning. If the interval does not exclude one but reaches the limit, the case is *near* its limit:
it should be measured again before anybody is alarmed.

There are two sources of ratios:

- *A history*: the new figure is compared with the last stable segment of earlier runs. The interval
  is that of one more run, so it includes what differs from run to run. It is shared among all cases
  of the run: at most one clean run in a hundred has a certain change, as long as noise is normal.
  On a busy machine it is not: of a hundred cases, one or more are then slower in most clean runs
  than in any of thirty runs before. So a change must still be there when it is measured again.
- *A comparison* (`torchmark ab`), whose processes alternate. It sees much smaller changes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import NamedTuple

from torchmark.analyse.ab import CountRow, TimeRow
from torchmark.analyse.change_points import Level, level_of
from torchmark.analyse.history import History
from torchmark.analyse.student import quantile
from torchmark.model.case import Case
from torchmark.model.run import Run
from torchmark.model.series import Origin, Point, Quantity
from torchmark_probe.loops.intervals import Interval

FALSE_ALARMS = 0.01
"""The share of clean runs with a change that is called certain."""

NEAR_LEVEL = 0.9
"""A case is near its limit if the interval of this level reaches it: a change of that size is then
overlooked in one of twenty."""

FEWEST_POINTS = 4
"""With fewer runs in the baseline, their spread is not known."""

UNKNOWN_SPREAD = 0.025
"""The standard deviation of the median of a run, where it is not known: in nine of ten pairs of
runs of one program on a busy machine, the medians differed by less than three times this."""

_KNOWN = 1e6
"""Degrees of freedom of a standard deviation that is given, and not estimated."""

_SMALLEST_SPREAD = 1e-9


class Outcome(enum.Enum):
    """What the gate says of a case."""

    FAIL = "slower"
    """Worse by more than the hard limit."""

    WARN = "slightly slower"
    """Worse by more than the soft limit."""

    NEAR = "unclear"
    """A change beyond the limit can neither be seen nor excluded."""

    BETTER = "faster"
    """Better by more than the limit."""

    FINE = "fine"
    NEW = "new"
    """There is no baseline."""

    MISSING = "missing"
    """The baseline has it, but the run does not."""

    BROKEN = "failed"
    """It could not be measured."""


class Limit(NamedTuple):
    """How much worse a case may get, as shares."""

    soft: float
    hard: float


DEFAULT_LIMIT = Limit(soft=0.0, hard=0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """The limits of some cases."""

    pattern: str = ""
    """The cases, as for `-k`; all by default."""

    quantity: Quantity | None = None
    """What it applies to; None means everything."""

    soft: float | None = None
    hard: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a new figure is compared with."""

    level: float
    """The level of the last stable segment."""

    points: int
    first: Origin
    """The first run of the segment."""

    last: Origin
    """The last run of the segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """One figure of a case, and what the gate says of it."""

    case: Case
    quantity: Quantity
    outcome: Outcome
    limit: Limit = DEFAULT_LIMIT
    value: float | None = None
    baseline: Baseline | None = None
    before: float | None = None
    """The figure of the baseline."""

    ratio: float | None = None
    """The new figure over the baseline."""

    interval: Interval | None = None
    """The interval of the ratio by which the outcome was decided."""

    is_paired: bool = False
    """Whether both sides were measured together."""

    reason: str = ""
    """Why there is no figure."""

    @property
    def key(self) -> tuple[str, Quantity]:
        return self.case.id, self.quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What the gate says of a run."""

    run: Run
    against: str
    """What the run was compared with, in words."""

    rows: tuple[GateRow, ...]
    notes: tuple[str, ...] = ()
    again: str = ""
    """The id of the run in which doubtful times were measured again."""

    def rows_with(self, *outcomes: Outcome) -> tuple[GateRow, ...]:
        return tuple(row for row in self.rows if row.outcome in outcomes)

    @property
    def has_regression(self) -> bool:
        return bool(self.rows_with(Outcome.FAIL))

    @property
    def has_change(self) -> bool:
        """Whether a case changed beyond its hard limit, in either direction."""
        return bool(self.rows_with(Outcome.FAIL, Outcome.BETTER))

    @property
    def was_judged(self) -> bool:
        """Whether any case could be compared with a baseline."""
        return any(row.ratio is not None or row.before is not None for row in self.rows)


def judge_point(
    case: Case,
    quantity: Quantity,
    point: Point,
    history: History | None,
    limit: Limit,
    *,
    cases: int,
) -> GateRow:
    """Compare a new figure with the last stable segment of its baseline.

    `cases` is the number of figures that are judged together.
    """
    row = GateRow(case=case, quantity=quantity, outcome=Outcome.NEW, limit=limit, value=point.value)
    if history is None or not history.series.points:
        return row
    segment = history.changes.segments[-1]
    members = history.series.points[segment.start : segment.stop]
    baseline = Baseline(
        level=segment.level,
        points=len(members),
        first=members[0].origin,
        last=members[-1].origin,
    )
    values = [member.value for member in members]
    if min(*values, point.value) <= 0:
        return _judge_zero(row, baseline, values)
    level = level_of(values)
    # Counts repeat, so their median is one of them; times have a mean without outliers.
    before = math.exp(level.log) if quantity is Quantity.TIME else segment.level
    size = math.log(point.value / before)
    if quantity is Quantity.TIME:
        spread = max(level.spread, _spread_of(values))
        certain = _reach(level, 1 - FALSE_ALARMS / max(cases, 1), spread)
        near = _reach(level, NEAR_LEVEL, level.spread)
    else:
        certain = near = math.log(max(values) / min(values)) + _SMALLEST_SPREAD
    outcome = decide(size, (size - certain, size + certain), (size - near, size + near), limit)
    return replace(
        row,
        outcome=outcome,
        baseline=baseline,
        before=before,
        ratio=point.value / before,
        interval=Interval(math.exp(size - certain), math.exp(size + certain)),
    )


def _reach(level: Level, confidence: float, spread: float) -> float:
    """Half of the interval of one more run around the level, on the logarithmic scale."""
    if level.points < FEWEST_POINTS:
        return quantile(confidence, _KNOWN) * math.sqrt(2) * max(spread, UNKNOWN_SPREAD)
    error = spread * math.hypot(1.0, level.error / level.spread)
    return quantile(confidence, max(level.points - 1, 2)) * error


def _spread_of(values: Sequence[float]) -> float:
    """The standard deviation with all outliers: what is called certain must lie beyond them too.

    `Level.spread` leaves most of their effect out.
    """
    return stdev(map(math.log, values)) if len(values) > 1 else 0.0


def _judge_zero(row: GateRow, baseline: Baseline, values: Sequence[float]) -> GateRow:
    """A count or a size may be zero; then only equality can be judged."""
    assert row.value is not None
    is_more = row.value > max(values)
    return replace(
        row,
        outcome=Outcome.FAIL if is_more else Outcome.FINE,
        baseline=baseline,
        before=baseline.level,
    )


def decide(
    size: float, certain: tuple[float, float], near: tuple[float, float], limit: Limit
) -> Outcome:
    """The outcome for a log ratio with two intervals.

    >>> limit = Limit(soft=0.01, hard=0.05)
    >>> decide(0.06, (0.03, 0.09), (0.05, 0.07), limit), decide(0.02, (0.01, 0.03), (0.01, 0.03),
    ...     limit), decide(0.0, (-0.03, 0.03), (-0.02, 0.02), limit)
    (<Outcome.FAIL: 'slower'>, <Outcome.WARN: 'slightly slower'>, <Outcome.NEAR: 'unclear'>)
    """
    soft, hard = math.log1p(limit.soft), math.log1p(limit.hard)
    if certain[0] > 0 and size > hard:
        return Outcome.FAIL
    if certain[0] > 0 and size > soft:
        return Outcome.WARN
    if certain[1] < 0 and size < -hard:
        return Outcome.BETTER
    # A soft limit of zero is reached by every interval, so only the hard one is of interest there.
    return Outcome.NEAR if near[1] > (soft or hard) else Outcome.FINE


def judge_time_row(row: TimeRow, limit: Limit) -> GateRow:
    """Apply the limit to the time of a comparison."""
    effect = row.effect
    certain = _logs(effect.interval)
    half = (math.log(effect.interval_95.high) - math.log(effect.interval_95.low)) / 2
    size = math.log(effect.ratio)
    return GateRow(
        case=row.case,
        quantity=Quantity.TIME,
        outcome=decide(size, certain, (size - half, size + half), limit),
        limit=limit,
        value=row.b_seconds,
        before=row.a_seconds,
        ratio=effect.ratio,
        interval=effect.interval,
        is_paired=True,
    )


def judge_count_row(row: CountRow, limit: Limit) -> GateRow:
    """Apply the limit to the counts of a comparison."""
    before, after = float(row.before), float(row.after)
    ratio = after / before if before else (math.inf if after else 1.0)
    outcome = Outcome.FINE
    if row.verdict.is_regression:
        is_over = ratio - 1 > limit.hard, ratio - 1 > limit.soft
        outcome = Outcome.FAIL if is_over[0] else Outcome.WARN if is_over[1] else outcome
    elif row.verdict.is_change and ratio < 1 / (1 + limit.hard):
        outcome = Outcome.BETTER
    return GateRow(
        case=row.case,
        quantity=Quantity.INSTRUCTIONS,
        outcome=outcome,
        limit=limit,
        value=after,
        before=before,
        ratio=ratio,
        is_paired=True,
    )


def agree(first: GateRow, again: GateRow) -> GateRow:
    """The outcome after a second measurement without the baseline's environment.

    The change must be there both times, so the smaller one counts.
    """
    if first.ratio is None or again.ratio is None:
        return again
    return min(first, again, key=lambda row: abs(math.log(row.ratio or 1.0)))


def _logs(interval: Interval) -> tuple[float, float]:
    return math.log(interval.low), math.log(interval.high)
