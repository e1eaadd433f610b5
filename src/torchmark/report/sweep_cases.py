"""Every case of a sweep as a table of HTML whose columns can be sorted."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from torchmark.analyse.sweep import dims_in, eager_of, ratio_to, subjects_in
from torchmark.model.sweep_record import RowStatus
from torchmark.report.figures import first_line, printable, seconds_text
from torchmark.report.plot_axis import prefixed
from torchmark.report.sweep_words import short_seconds, times_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.model.sweep_record import SweepRow


_MEDIAN = "median"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    name: str
    value: Callable[[SweepRow], float | str | None]
    """What it is sorted by; text is no figure."""

    shown: Callable[[float], str] = str
    """A figure as people read it."""


def cases_table(rows: Sequence[SweepRow]) -> str:
    """What defines a case first, then its figures, or why there are none."""
    first = _defining(rows)
    figures = [
        column for column in _figures(rows) if any(column.value(row) is not None for row in rows)
    ]
    heads = "".join(_head(column, rows) for column in [*first, *figures])
    if not figures:
        heads += '<th><button type="button">what came of it</button></th>'
    lines = "\n".join(_line(row, first, figures) for row in rows)
    return f"""<div class="wide"><table class="cases">
<thead><tr>{heads}</tr></thead>
<tbody>
{lines}
</tbody>
</table></div>"""


def _defining(rows: Sequence[SweepRow]) -> list[_Column]:
    subjects = subjects_in(rows)
    columns = []
    if len({subject.model for subject in subjects}) > 1:
        columns.append(_Column(name="model", value=lambda row: row.model))
    columns += [_size_column(dim) for dim in dims_in(rows)]
    columns += [
        _Column(name="dtype", value=lambda row: row.dtype),
        _Column(name="backend", value=lambda row: row.backend),
        _Column(name="phase", value=lambda row: row.phase.value),
    ]
    if len({subject.threads for subject in subjects}) > 1:
        columns.append(_Column(name="threads", value=lambda row: row.threads))
    return columns


def _size_column(dim: str) -> _Column:
    return _Column(name=dim, value=lambda row: dict(row.dims).get(dim))


def _figures(rows: Sequence[SweepRow]) -> list[_Column]:
    eager = eager_of(rows)

    def ratio(row: SweepRow) -> float | None:
        found = ratio_to(eager, row)
        return found.value if found else None

    return [
        _Column(name=_MEDIAN, value=lambda row: row.median_s, shown=seconds_text),
        _Column(name="± %", value=_reach, shown=lambda share: f"{share * 100:.1f}"),
        _Column(name="× pt", value=ratio, shown=times_text),
        _Column(name="min", value=lambda row: row.min_s, shown=short_seconds),
        _Column(name="p95", value=lambda row: row.p95_s, shown=short_seconds),
        _Column(name="FLOP/s", value=lambda row: row.flop_per_s, shown=_short),
        _Column(name="B/s", value=lambda row: row.bytes_per_s, shown=_short),
        _Column(name="peak bytes", value=lambda row: row.peak_memory_bytes, shown=_short),
        _Column(name="max error", value=lambda row: row.max_error, shown=lambda x: f"{x:.2g}"),
        _Column(name="prepare", value=lambda row: row.prepare_s, shown=short_seconds),
        _Column(name="samples", value=lambda row: row.samples or None),
    ]


def _reach(row: SweepRow) -> float | None:
    """The longer side of the interval, as a share of the median."""
    if not row.median_s or row.low_s is None or row.high_s is None:
        return None
    return max(row.high_s - row.median_s, row.median_s - row.low_s) / row.median_s


def _short(value: float) -> str:
    return prefixed(float(f"{value:.3g}"))


def _head(column: _Column, rows: Sequence[SweepRow]) -> str:
    numeric = ' class="number"' if any(_is_figure(column.value(row)) for row in rows) else ""
    return f'<th{numeric}><button type="button">{_text(column.name)}</button></th>'


def _line(row: SweepRow, first: Sequence[_Column], figures: Sequence[_Column]) -> str:
    cells = "".join(_cell(column, row) for column in first)
    if row.status is RowStatus.MEASURED:
        return f"<tr>{cells}{''.join(_cell(column, row) for column in figures)}</tr>"
    reason = first_line(row.reason)
    told = f"{row.status.value}: {reason}" if reason else row.status.value
    kind = "bad" if row.status is RowStatus.FAILED else "quiet"
    return (
        f'<tr>{cells}<td class="reason {kind}" colspan="{max(1, len(figures))}"'
        f' title="{_text(row.reason)}">{_text(told)}</td></tr>'
    )


def _cell(column: _Column, row: SweepRow) -> str:
    value = column.value(row)
    if value is None:
        return "<td></td>"
    if isinstance(value, str):
        return f'<td data-value="{_text(value)}">{_text(value)}</td>'
    sorted_by = f"{value:.9g}".replace("inf", "Infinity")  # as JavaScript has it
    is_doubtful = column.name == _MEDIAN and row.reason
    mark = f' <abbr class="doubt" title="{_text(row.reason)}">(!)</abbr>' if is_doubtful else ""
    return f'<td class="number" data-value="{sorted_by}">{_text(column.shown(value))}{mark}</td>'


def _is_figure(value: float | str | None) -> bool:
    return value is not None and not isinstance(value, str)


def _text(text: str) -> str:
    return escape(printable(text))
