"""The rows of a sweep as CSV: a column for each field of `SweepRow`, in its order.

A row is one line, so that a file that was cut short lacks the end of its last line and nothing
else. Numbers are written so that they come back as they were; what is not known is empty.
"""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from torchmark.errors import RecordFileError
from torchmark.model.sweep_record import Phase, RowStatus, SweepRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchmark.model.sweep_record import Dims

COLUMNS = tuple(field.name for field in fields(SweepRow))
KERNEL_COLUMNS = (
    "case_id", "model", "dims", "dtype", "backend", "phase", "kernel", "calls", "seconds",
)  # fmt: skip
"""Calls and seconds are of one run; the seconds of a kernel do not have those that it calls."""

_WHOLE = ("threads", "samples", "flops", "bytes", "peak_memory_bytes")
_TEXT = ("case_id", "model", "dtype", "backend", "reason", "environment")


def line_of(values: Iterable[Any]) -> str:
    """One line of a file, with its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def values_of(row: SweepRow) -> list[str]:
    """The cells of a row."""
    return [_cell(name, getattr(row, name)) for name in COLUMNS]


def kernel_values_of(row: SweepRow, kernel: Mapping[str, Any]) -> list[str]:
    """The cells of one kernel of a case, in the order of KERNEL_COLUMNS."""
    return [
        *(_cell(name, getattr(row, name)) for name in KERNEL_COLUMNS[:6]),
        *(_cell(name, kernel[name]) for name in KERNEL_COLUMNS[6:]),
    ]


def row_of(cells: list[str]) -> SweepRow:
    """The row that a line has; a RecordFileError says which column is wrong."""
    if len(cells) != len(COLUMNS):
        raise RecordFileError(f"it has {len(cells)} cells in place of {len(COLUMNS)}")
    found: dict[str, Any] = {}
    for name, cell in zip(COLUMNS, cells, strict=True):
        try:
            found[name] = _value(name, cell)
        except ValueError as error:
            raise RecordFileError(f"its {name} is {cell!r}: {error}") from error
    return SweepRow(**found)


def dims_text(dims: Dims) -> str:
    """
    >>> dims_text((("batch", 8), ("features", 128)))
    'batch=8 features=128'
    """
    return " ".join(f"{name}={size}" for name, size in dims)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "dims":
        return dims_text(value)
    if isinstance(value, Phase | RowStatus):
        return str(value.value)
    return repr(value) if isinstance(value, float) else " ".join(str(value).split())


def _value(name: str, cell: str) -> Any:
    if name == "dims":
        pairs = [pair.partition("=") for pair in cell.split()]
        return tuple((dim, int(size)) for dim, _, size in pairs)
    if name == "phase":
        return Phase(cell)
    if name == "status":
        return RowStatus(cell)
    if name in _TEXT:
        return cell
    if not cell:
        return None
    return int(cell) if name in _WHOLE else float(cell)
