"""Intervals as small marks inside the cells of a table, all of a column on one axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.report.view import ColumnKind

if TYPE_CHECKING:
    from torchmark.report.view import Cell, Table

_LEAST_SPAN = 0.2
"""Of a logarithmic axis: a column of equal times still needs one."""

_RATIOS = (ColumnKind.RATIO, ColumnKind.SPEEDUP)


@dataclass(frozen=True, slots=True)
class Track:
    """Where an interval and its value lie, in per cent of the axis."""

    start: float
    end: float
    at: float
    middle: float | None
    """Where "no change" lies, on an axis that has it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Logarithmic for times and ratios; changes are on a linear one."""

    kind: ColumnKind
    low: float
    high: float

    def track(self, cell: Cell) -> Track | None:
        ends = _ends(self.kind, cell)
        if ends is None:
            return None
        start, at, end = (self._place(each) for each in ends)
        has_middle = self.kind in (*_RATIOS, ColumnKind.CHANGE)
        return Track(start, end, at, self._place(0.0) if has_middle else None)

    def _place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 1)


def axes_of(table: Table) -> list[Axis | None]:
    """One for each column; None where nothing has an interval."""
    return [
        _axis(column.kind, [row.cells[at] for row in table.rows])
        for at, column in enumerate(table.columns)
    ]


def _axis(kind: ColumnKind, cells: list[Cell]) -> Axis | None:
    found = [ends for cell in cells if (ends := _ends(kind, cell)) is not None]
    if not found:
        return None
    if kind in (*_RATIOS, ColumnKind.CHANGE):
        reach = _common_reach([max(abs(low), abs(high)) for low, _, high in found]) or 1.0
        return Axis(kind, -reach, reach)
    low, high = min(ends[0] for ends in found), max(ends[2] for ends in found)
    return Axis(kind, low, max(high, low + _LEAST_SPAN))


def _common_reach(reaches: list[float]) -> float:
    """That of nearly all: one case that is ten times slower must not flatten the others."""
    ordered = sorted(reaches)
    most, common = ordered[-1], ordered[int(0.9 * (len(ordered) - 1))]
    return most if most <= 3 * common else 1.5 * common


def _ends(kind: ColumnKind, cell: Cell) -> tuple[float, float, float] | None:
    """The low end, the value and the high end on the axis; None if it cannot have them."""
    if cell.interval is None or isinstance(cell.value, str) or cell.value is None:
        return None
    low, value, high = cell.interval[0], float(cell.value), cell.interval[1]
    if not all(map(math.isfinite, (low, value, high))):
        return None
    if kind is ColumnKind.CHANGE:
        return low, value, high
    if value <= 0 or high <= 0:
        return None
    return math.log(max(low, value / 1e3)), math.log(value), math.log(high)
