"""Format the values of cells by the kind of their column, the same in every format.

Pages also draw intervals as small marks inside the cells; a column has one axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torchmark.printable import printable
from torchmark.report.figures import (
    amount_text,
    change_text,
    instructions_text,
    ratio_text,
    reach,
    seconds_text,
    share_text,
    speedup_text,
)
from torchmark.report.view import Cell, Column, Kind, Mark, Row, Table

_WORDS = (Kind.TEXT, Kind.CODE, Kind.NAME, Kind.VERDICT)
_CHANGES = (Kind.RATIO, Kind.SPEEDUP, Kind.CHANGE)
"""Kinds with a value that means "no change"."""

_LEAST_SPAN = 0.2
"""Minimum length of a logarithmic axis, for a column of equal times."""

_MOST_QUIET = 12
"""If there are more quiet rows than this, they are counted, unless all rows are quiet."""

_FIGURES: dict[Kind, Callable[[Any], str]] = {
    Kind.SECONDS: seconds_text,
    Kind.INTEGER: "{:,}".format,
    Kind.NUMBER: "{:.4g}".format,
    Kind.INSTRUCTIONS: instructions_text,
    Kind.RATIO: ratio_text,
    Kind.SPEEDUP: speedup_text,
    Kind.SHARE: share_text,
    Kind.CHANGE: change_text,
    Kind.BYTES: amount_text,
    Kind.FLOPS: amount_text,
    Kind.RATE: amount_text,
}


def is_figure(column: Column) -> bool:
    """Whether its values are numbers, which are right-aligned and never wrapped."""
    return column.kind not in _WORDS


def value_text(column: Column, cell: Cell) -> str:
    """The value without its interval.

    >>> from torchmark.report.view import Cell, Column, Kind
    >>> value_text(Column("time", Kind.SECONDS), Cell(1.2e-6))
    '1.200 us'
    """
    if cell.text is not None:
        return printable(cell.text)
    if cell.value is None:
        return ""
    if isinstance(cell.value, bool):
        return "yes" if cell.value else "no"
    if isinstance(cell.value, str):
        return printable(cell.value)
    if not math.isfinite(cell.value):
        return str(cell.value)
    return _FIGURES[column.kind](cell.value) if is_figure(column) else str(cell.value)


def interval_text(column: Column, cell: Cell) -> str:
    """The interval: as ± per cent for a value with a unit, otherwise as its ends.

    >>> from torchmark.report.view import Cell, Column, Kind
    >>> interval_text(Column("", Kind.RATIO), Cell(1, interval=(0.99, 1.02)))
    '[0.990, 1.020]'
    """
    if cell.interval is None or cell.text is not None or not isinstance(cell.value, (int, float)):
        return ""
    low, high = cell.interval
    if not math.isfinite(low + high):
        return "± large"
    if column.kind in _CHANGES:
        shown = _FIGURES[column.kind]
        return f"[{shown(low)}, {shown(high)}]"
    return f"± {reach(cell.value, cell.interval)}"


def cell_text(column: Column, cell: Cell) -> str:
    """The value, its interval, and a mark if it is doubtful."""
    is_doubtful = cell.mark is Mark.DOUBTFUL and is_figure(column)
    parts = [value_text(column, cell), interval_text(column, cell), "(!)" if is_doubtful else ""]
    return " ".join(part for part in parts if part)


def loud_rows(table: Table) -> tuple[Row, ...]:
    """The rows to show in text and Markdown: all, or those that are not quiet."""
    loud = tuple(row for row in table.rows if not row.is_quiet)
    return loud if loud and len(table.rows) - len(loud) > _MOST_QUIET else table.rows


def quiet_text(table: Table) -> str:
    """Text for the rows that `loud_rows` omits; empty if there are none."""
    left_out = len(table.rows) - len(loud_rows(table))
    return (table.quiet_text or f"{left_out} more rows") if left_out else ""


def line_up(
    cells: Sequence[str], widths: Sequence[int], is_right: Sequence[bool], between: str
) -> str:
    """The cells of a row, padded to the widths of their columns."""
    return between.join(
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, is_right, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Track:
    """Positions of an interval and its value, in per cent of the axis."""

    start: float
    end: float
    at: float
    middle: float | None
    """Position of "no change", if the axis has it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a column: logarithmic for times and ratios, linear for changes."""

    kind: Kind
    low: float
    high: float

    def track(self, cell: Cell) -> Track | None:
        ends = _ends(self.kind, cell)
        if ends is None:
            return None
        start, at, end = (self._place(each) for each in ends)
        return Track(start, end, at, self._place(0.0) if self.kind in _CHANGES else None)

    def _place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 1)


def axes_of(table: Table) -> list[Axis | None]:
    """One axis for each column; None if the column has no intervals."""
    return [
        _axis(column.kind, [row.cells[at] for row in table.rows])
        for at, column in enumerate(table.columns)
    ]


def _axis(kind: Kind, cells: list[Cell]) -> Axis | None:
    found = [ends for cell in cells if (ends := _ends(kind, cell)) is not None]
    if not found:
        return None
    if kind in _CHANGES:
        reach = _common_reach([max(abs(low), abs(high)) for low, _, high in found]) or 1.0
        return Axis(kind, -reach, reach)
    low, high = min(ends[0] for ends in found), max(ends[2] for ends in found)
    return Axis(kind, low, max(high, low + _LEAST_SPAN))


def _common_reach(reaches: list[float]) -> float:
    """The reach of nearly all cases, so that one much slower case does not flatten the others."""
    ordered = sorted(reaches)
    most, common = ordered[-1], ordered[int(0.9 * (len(ordered) - 1))]
    return most if most <= 3 * common else 1.5 * common


def _ends(kind: Kind, cell: Cell) -> tuple[float, float, float] | None:
    """Low end, value and high end on the axis; None if they cannot be shown."""
    if cell.interval is None or isinstance(cell.value, str) or cell.value is None:
        return None
    low, value, high = cell.interval[0], float(cell.value), cell.interval[1]
    if not all(map(math.isfinite, (low, value, high))):
        return None
    if kind is Kind.CHANGE:
        return low, value, high
    if value <= 0 or high <= 0:
        return None
    return math.log(max(low, value / 1e3)), math.log(value), math.log(high)
