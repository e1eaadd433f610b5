"""The text of a cell: what the kind of its column makes of its value, alike in every format."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torchmark.report.figures import (
    amount_text,
    change_text,
    instructions_text,
    printable,
    ratio_text,
    reach,
    seconds_text,
    share_text,
    speedup_text,
)
from torchmark.report.view import ColumnKind, Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchmark.report.view import Cell, Column, Row, Table

_WORDS = (ColumnKind.TEXT, ColumnKind.CODE, ColumnKind.VERDICT)
_MOST_QUIET = 12
"""Quiet rows that are shown one by one; more are counted, unless there are no others."""

_FIGURES: dict[ColumnKind, Callable[[Any], str]] = {
    ColumnKind.SECONDS: seconds_text,
    ColumnKind.INTEGER: "{:,}".format,
    ColumnKind.NUMBER: "{:.4g}".format,
    ColumnKind.INSTRUCTIONS: instructions_text,
    ColumnKind.RATIO: ratio_text,
    ColumnKind.SPEEDUP: speedup_text,
    ColumnKind.SHARE: share_text,
    ColumnKind.CHANGE: change_text,
    ColumnKind.BYTES: amount_text,
    ColumnKind.FLOPS: amount_text,
    ColumnKind.RATE: amount_text,
}


def is_figure(column: Column) -> bool:
    """Whether its values are numbers, which stand at the right and are never broken."""
    return column.kind not in _WORDS


def value_text(column: Column, cell: Cell) -> str:
    """The value without its interval.

    >>> from torchmark.report.view import Cell, Column, ColumnKind
    >>> value_text(Column(name="time", kind=ColumnKind.SECONDS), Cell(value=1.2e-6))
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
    """The interval: how far it reaches from a value with a unit, from where to where otherwise.

    >>> from torchmark.report.view import Cell, Column, ColumnKind
    >>> interval_text(Column(name="", kind=ColumnKind.RATIO), Cell(value=1, interval=(0.99, 1.02)))
    '[0.990, 1.020]'
    """
    if cell.interval is None or cell.text is not None or not isinstance(cell.value, (int, float)):
        return ""
    low, high = cell.interval
    if not math.isfinite(low + high):
        return "± large"
    if column.kind in (ColumnKind.RATIO, ColumnKind.SPEEDUP, ColumnKind.CHANGE):
        shown = _FIGURES[column.kind]
        return f"[{shown(low)}, {shown(high)}]"
    return f"± {reach(cell.value, cell.interval)}"


def cell_text(column: Column, cell: Cell) -> str:
    """The value, its interval, and a mark where it is doubtful."""
    is_doubtful = cell.mark is Mark.DOUBTFUL and is_figure(column)
    parts = [value_text(column, cell), interval_text(column, cell), "(!)" if is_doubtful else ""]
    return " ".join(part for part in parts if part)


def loud_rows(table: Table) -> tuple[Row, ...]:
    """The rows to show where space is short: all, or those that are not quiet."""
    loud = tuple(row for row in table.rows if not row.is_quiet)
    return loud if loud and len(table.rows) - len(loud) > _MOST_QUIET else table.rows


def quiet_text(table: Table) -> str:
    """What stands for the rows that `loud_rows` leaves out; empty if it leaves out none."""
    left_out = len(table.rows) - len(loud_rows(table))
    return (table.quiet_text or f"{left_out} more rows") if left_out else ""
