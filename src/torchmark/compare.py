"""Compare: tables of many measurements.

The text has the same layout as torch's, to the character.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from torchmark.errors import InvalidArgumentError
from torchmark.model.case import TaskSpec
from torchmark.model.measurement import Measurement
from torchmark.model.units import collect, leading_digits, trim_sigfig, unit_to_english
from torchmark.report import render_view
from torchmark.report.formats.data import render_figures
from torchmark.report.formats.markdown import render_table
from torchmark.report.view import View
from torchmark.report.views.measurements import (
    Baseline,
    ResultRow,
    ResultTable,
    make_view,
    table_of_group,
    tables_of,
)

__all__ = ["Colorize", "Compare"]

_FIELDS = fields(TaskSpec)

_BEST = "\033[92m\033[1m"
_GOOD = "\033[34m\033[1m"
_BAD = "\033[2m\033[91m"
_VERY_BAD = "\033[31m\033[1m"
_PLAIN = "\033[0m\033[0m"

_SEPARATOR = "  |  "
_NOTE = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."


class Colorize(enum.Enum):
    """Which cells are compared to choose colours."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"

    def __eq__(self, other: object) -> bool:
        """Equal to torch's member of the same name too, since torch's `Table` uses its own."""
        return getattr(other, "value", None) == self.value and type(other).__name__ == "Colorize"

    __hash__ = enum.Enum.__hash__


@dataclass(frozen=True, slots=True)
class _TextStyle:
    """How the text form shows numbers, as chosen by the methods of `Compare`."""

    trim_significant_figures: bool
    highlight_warnings: bool
    colorize: Colorize
    baseline: Baseline | None


class Compare:
    """Tables of measurements, one for each label.

    >>> from torchmark import Measurement, TaskSpec
    >>> spec = TaskSpec("x + y", "pass", label="add", description="4x4")
    >>> print(Compare([Measurement(1, [2e-6, 3e-6, 4e-6], spec)]).to_markdown())
    | add   | 4x4 (us) |
    |-------|---------:|
    | x + y |    3 (!) |
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        # Private names are the same as torch's where scripts use them.
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False
        self._baseline: Baseline | None = None
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add results."""
        self._results.extend([_as_measurement(result) for result in results])

    def trim_significant_figures(self) -> None:
        """Show only significant digits."""
        self._trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the cells of the text form, compared within each column or each row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark results with a high variance in the text form."""
        self._highlight_warnings = True

    def relative_to(self, row: str, env: str | None = None) -> None:
        """Show each cell as a ratio to the named row, for the same column and threads.

        Without `env`, a cell is compared with the row of its own environment if there is one.
        """
        self._baseline = Baseline(row=row, env=env)

    def print(self) -> None:
        """Print the text form."""
        print(str(self))  # noqa: T201 - torch's method, and its purpose

    def __str__(self) -> str:
        """The text form; empty if there are no results, as in torch."""
        return "\n".join(self._render())

    def to_markdown(self) -> str:
        """Markdown tables, one for each label."""
        tables = [each.table for each in self._view().sections if each.table is not None]
        return "\n\n".join(map(render_table, tables))

    def to_csv(self) -> str:
        """CSV with a line for each cell, times in seconds."""
        return render_view(self._view(), "csv")

    def to_html(self) -> str:
        """A self-contained HTML page."""
        return render_view(self._view(), "html")

    def to_json(self) -> str:
        """JSON with an object for each cell, times in seconds."""
        baseline = self._baseline
        row = {"row": baseline.row, "env": baseline.env} if baseline else None
        return render_figures(
            self._view(), {"torchmark": "comparison", "version": 2, "baseline": row}
        )

    def _view(self) -> View:
        return make_view(tables_of(self._results), self._baseline)

    def _render(self) -> list[str]:
        """The text of each table."""
        groups = self._group_by_label(Measurement.merge(self._results))
        return [self._layout(group) for group in groups.values()]

    def _group_by_label(
        self, results: Iterable[Measurement]
    ) -> dict[str | None, list[Measurement]]:
        return collect((result.label, result) for result in results)

    def _layout(self, results: Iterable[Measurement]) -> str:
        """The text of one table."""
        style = _TextStyle(
            trim_significant_figures=self._trim_significant_figures,
            highlight_warnings=self._highlight_warnings,
            colorize=self._colorize,
            baseline=self._baseline,
        )
        return _render(table_of_group(list(results)), style)


def _as_measurement(result: Any) -> Measurement:
    """Convert a `Measurement` of `torch.utils.benchmark`, which has the same fields."""
    if isinstance(result, Measurement):
        return result
    try:
        spec = TaskSpec(**{field.name: getattr(result.task_spec, field.name) for field in _FIELDS})
        return Measurement(result.number_per_run, list(result.raw_times), spec, result.metadata)
    except (AttributeError, TypeError):
        raise InvalidArgumentError(
            f"Compare needs Measurement objects, got {type(result).__name__}"
        ) from None


def _render(table: ResultTable, style: _TextStyle) -> str:
    """The text of one table, with the unit of its times below it."""
    if style.baseline is not None:
        table.check_baseline(style.baseline)
    first = ["", *_row_titles(table)]
    body = [
        [title, *_column_texts(table, index, style)] for index, title in enumerate(table.columns)
    ]
    widths = [max(len(text) for text in texts) for texts in [first, *body]]
    header = _SEPARATOR.join(
        text.center(width) for text, width in zip(["", *table.columns], widths, strict=True)
    )
    lines = [header]
    threads = None
    for index, row in enumerate(table.rows):
        if row.num_threads != threads:
            threads = row.num_threads
            lines.append(f"{threads} threads: ".ljust(len(header), "-"))
        cells = [first[index + 1].ljust(widths[0])]
        for at, texts in enumerate(body):
            text = texts[index + 1].center(widths[at + 1])
            cells.append(_colour(text, table, row, at, style.colorize))
        lines.append(_SEPARATOR.join(cells))
    title = f" {table.label or ''} ".center(len(header) - 2, "-")
    return "\n".join([f"[{title}]", *lines, "", *_footer(table, style)]) + "\n"


def _row_titles(table: ResultTable) -> Iterator[str]:
    shows_env = table.shows_env
    width = max(len(row.env) for row in table.rows) if shows_env else 0
    before: tuple[int, str] | None = None
    for row in table.rows:
        env = f"({row.env})" if shows_env and before != (row.num_threads, row.env) else ""
        yield "  " + env.ljust(width + 4) + row.name
        before = (row.num_threads, row.env)


def _column_texts(table: ResultTable, index: int, style: _TextStyle) -> list[str]:
    """The cells of one column, all with the same number of decimals."""
    if style.baseline is not None:
        ratios = [table.ratio(row, index, style.baseline) for row in table.rows]
        return ["" if ratio is None else f"{ratio:.3f}x" for ratio in ratios]
    cells = [row.cells[index] for row in table.rows]
    present = [cell for cell in cells if cell is not None]
    digits = [leading_digits(cell.median / table.scale) for cell in present]
    decimals = 1
    if style.trim_significant_figures:
        figures = [cell.significant_figures for cell in present]
        decimals = min(max(f - d, 0) for f, d in zip(figures, digits, strict=True))
    width = max(0, max(digits) + decimals + (1 if decimals else 0))
    is_warned = style.highlight_warnings and any(cell.has_warnings for cell in present)
    note_width = 7 if is_warned else 0
    texts = []
    for cell in cells:
        if cell is None:
            texts.append(" " * len(f"{1.0:>{width}.{decimals}f}{'':>{note_width}}"))
            continue
        value, note = cell.median / table.scale, ""
        if style.trim_significant_figures:
            value = trim_sigfig(value, cell.significant_figures)
        if is_warned and cell.has_warnings:
            spread = f"{cell.iqr / cell.median * 100:.0f}" if cell.median else "∞"
            note = f" (! {spread}%)"
        texts.append(f"{value:>{width}.{decimals}f}{note:>{note_width}}")
    return texts


def _colour(text: str, table: ResultTable, row: ResultRow, column: int, colorize: Colorize) -> str:
    cell = row.cells[column]
    if cell is None or colorize is Colorize.NONE:
        return text
    if colorize is Colorize.ROWWISE:
        best = min(other.median for other in row.cells if other is not None)
    else:
        best = table.fastest(row, column)
    colour = _select_colour(cell.median, best)
    return f"{colour}{text}{_PLAIN}" if colour else text


def _select_colour(value: float, best: float) -> str:
    """The colour by torch's thresholds; differences below 100 ns count as equal."""
    if value <= best * 1.01 or value <= best + 100e-9:
        return _BEST
    if value <= best * 1.1:
        return _GOOD
    if value >= best * 5:
        return _VERY_BAD
    return _BAD if value >= best * 2 else ""


def _footer(table: ResultTable, style: _TextStyle) -> list[str]:
    if style.baseline is not None:
        env = f" in {style.baseline.env}" if style.baseline.env is not None else ""
        return [f"Times are ratios to {style.baseline.row}{env}; below 1 is faster."]
    lines = [f"Times are in {unit_to_english(table.unit)}s ({table.unit})."]
    if style.highlight_warnings and any(m.has_warnings for m in table.measurements):
        lines.append(_NOTE)
    return lines
