"""Histories: the series of cases, divided where their level changed.

Each class of machines has histories of its own. A change that most cases share is probably not due
to one operator, so `shared_changes` counts them by run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torchmark.analyse.change_points import (
    SIGNIFICANCE,
    ChangePoint,
    Changes,
    Rule,
    find_changes,
)
from torchmark.model.series import Origin, Point, Quantity, Series

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
    changes = find_changes(series.values, rule, is_exact=series.quantity in EXACT)
    return History(series=series, changes=changes)


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
