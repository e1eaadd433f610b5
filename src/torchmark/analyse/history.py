"""Histories: the series of cases, divided where their level changed.

Each class of machines has histories of its own. A change that most cases share is probably not due
to one operator, so `shared_changes` counts them by run.

Counts repeat exactly while nothing changes. So if one commit was measured with several versions of
torch, or in other environments, a count that differs has changed for certain, even if a version has
only one run. The runs of one environment are divided as any series.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torchmark.analyse.change_points import (
    SIGNIFICANCE,
    ChangePoint,
    Changes,
    Fate,
    Rule,
    Segment,
    find_changes,
)
from torchmark.model.series import Origin, Point, Quantity, Series
from torchmark_probe.loops.intervals import Interval

LEAST = {Quantity.TIME: 0.002, Quantity.INSTRUCTIONS: 0.0, Quantity.MEMORY: 0.0}
"""Smaller changes are ignored, as a share. A lasting change of a time by 0.1 % is more often a new
place of some code in memory than a change of the code."""

EXACT = frozenset({Quantity.INSTRUCTIONS, Quantity.MEMORY})
"""Quantities that repeat while nothing changes."""

_MOST_SHARE = 0.5
_MANY_CASES = 4
"""A change is shared if more than half of the cases have it, and at least so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoricChange:
    """A change, with the runs on both sides of it."""

    found: ChangePoint
    before: Origin
    """The last run before the change."""

    after: Origin
    """The first run with the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One series with its changes."""

    series: Series
    changes: Changes

    @property
    def listed(self) -> tuple[HistoricChange, ...]:
        points = self.series.points
        return tuple(
            HistoricChange(
                found=each, before=points[each.index - 1].origin, after=points[each.index].origin
            )
            for each in self.changes.points
        )

    @property
    def latest(self) -> Point:
        return self.series.points[-1]


def rule_for(
    quantity: Quantity, least: float | None = None, significance: float = SIGNIFICANCE
) -> Rule:
    """The rule for a quantity; `least` replaces its default."""
    return Rule(least=LEAST[quantity] if least is None else least, significance=significance)


def history_of(
    series: Series, *, least: float | None = None, significance: float = SIGNIFICANCE
) -> History:
    rule = rule_for(series.quantity, least, significance)
    if series.quantity not in EXACT:
        return History(series=series, changes=find_changes(series.values, rule))
    bounds = [0, *_new_environments(series), len(series.points)]
    parts = [
        _shift(find_changes(series.values[start:stop], rule, is_exact=True), start)
        for start, stop in itertools.pairwise(bounds)
    ]
    return History(series=series, changes=_join(parts, rule))


def _new_environments(series: Series) -> list[int]:
    """Indices of the points from which on one commit was measured in another environment.

    None if environments alternate: their difference is then no change.
    """
    origins = [point.origin for point in series.points]
    starts = [
        at
        for at, (before, after) in enumerate(itertools.pairwise(origins), 1)
        if before.decisive != after.decisive
    ]
    if len({each.decisive for each in origins}) <= len(starts):
        return []
    return [at for at in starts if origins[at - 1].commit == origins[at].commit]


def _shift(changes: Changes, by: int) -> Changes:
    """The changes of a part that begins at this index of the whole series."""
    return Changes(
        segments=tuple(
            replace(each, start=each.start + by, stop=each.stop + by) for each in changes.segments
        ),
        points=tuple(replace(each, index=each.index + by) for each in changes.points),
    )


def _join(parts: Sequence[Changes], rule: Rule) -> Changes:
    """The changes of all parts, and those between two of them."""
    segments: list[Segment] = []
    points: list[ChangePoint] = []
    for part in parts:
        found = list(part.segments)
        if segments and found:
            change = _between(segments[-1], found[0], rule)
            if change is None:
                found[0] = _merge(segments.pop(), found[0])
            else:
                points.append(change)
        segments += found
        points += part.points
    return Changes(segments=tuple(segments), points=tuple(points))


def _between(before: Segment, after: Segment, rule: Rule) -> ChangePoint | None:
    """The change of an exact figure with its environment; None if it is too small."""
    ratio = after.level / before.level if before.level else math.inf
    if before.level == after.level or abs(ratio - 1) < rule.least:
        return None
    return ChangePoint(
        index=after.start,
        before=before.level,
        after=after.level,
        interval=Interval(ratio, ratio),
        fate=Fate.STAYED,
    )


def _merge(before: Segment, after: Segment) -> Segment:
    return replace(after, start=before.start, points=before.points + after.points)


def shared_changes(histories: Iterable[History]) -> Mapping[str, tuple[int, int]]:
    """Runs at which most cases changed: how many changed, and how many have a point there."""
    changed: Counter[str] = Counter()
    present: Counter[str] = Counter()
    for history in histories:
        present.update(point.origin.run for point in history.series.points[1:])
        changed.update(each.after.run for each in history.listed)
    return {
        run: (count, present[run])
        for run, count in changed.items()
        if count >= _MANY_CASES and count > _MOST_SHARE * present[run]
    }
