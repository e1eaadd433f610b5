"""What `Compare` shows, as a view: a table for each label, and a row of data for each cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.estimates import time_of_measurement
from torchmark.report.view import Cell, Column, ColumnKind, Mark, Row, Section, Table, View
from torchmark.report.views.common import data_table, time_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.report.compare_table import Baseline
    from torchmark.report.compare_table import Row as TableRow
    from torchmark.report.compare_table import Table as Measurements
    from torchmark.report.view import Value

DATA = (
    "label", "num_threads", "env", "row", "column", "median", "mean", "std", "iqr",
    "interval_low", "interval_high", "samples", "ratio", "warnings",
)  # fmt: skip
"""Stable: new columns are added at the end."""

_AS_FAST = 1.01
"""What is within one per cent of the fastest is as fast."""


def make_view(tables: Sequence[Measurements], baseline: Baseline | None) -> View:
    if baseline is not None:
        for table in tables:
            table.check_baseline(baseline)
    labels = ", ".join(table.label for table in tables if table.label)
    number = sum(len(table.measurements) for table in tables)
    return View(
        title=labels or "torchmark",
        summary=f"{number} measurement{'' if number == 1 else 's'}",
        sections=tuple(_section(at, table, baseline) for at, table in enumerate(tables)),
        data=data_table(
            DATA,
            (values for table in tables for values in _data(table, baseline)),
        ),
    )


def _section(at: int, table: Measurements, baseline: Baseline | None) -> Section:
    unit = f"× {baseline.row}" if baseline else table.unit
    legend = (
        f"Ratios of medians to {baseline.row}; below 1 is faster."
        if baseline
        else f"Medians in {table.unit}. (!): high variance."
    )
    names = [Column(name=table.label or "")]
    names += [
        Column(name=f"{title or 'time'} ({unit})", kind=ColumnKind.NUMBER)
        for title in table.columns
    ]
    shows_threads = len({row.num_threads for row in table.rows}) > 1
    return Section(
        id=f"table-{at}",
        title=table.label or "Results",
        table=Table(
            columns=tuple(names),
            rows=tuple(
                Row(
                    cells=(
                        Cell(value=_title(row, table.shows_env, shows_threads)),
                        *(_cell(table, row, column, baseline) for column in range(len(row.cells))),
                    )
                )
                for row in table.rows
            ),
        ),
        footnotes=(f"{legend} Green: within 1 % of the fastest.",),
    )


def _title(row: TableRow, shows_env: bool, shows_threads: bool) -> str:
    """The name of the row, with the environment and the threads where they differ."""
    env = f" ({row.env})" if shows_env else ""
    threads = f" [{row.num_threads} thread{'s' if row.num_threads > 1 else ''}]"
    return f"{row.name}{env}{threads if shows_threads else ''}"


def _cell(table: Measurements, row: TableRow, column: int, baseline: Baseline | None) -> Cell:
    measurement = row.cells[column]
    if measurement is None:
        return Cell()
    is_best = measurement.median <= table.fastest(row, column) * _AS_FAST
    mark = Mark.GOOD if is_best else Mark.PLAIN
    if baseline is not None:
        ratio = table.ratio(row, column, baseline)
        return Cell(value=ratio, text=None if ratio is None else f"{ratio:.3f}", mark=mark)
    if measurement.has_warnings:
        mark = Mark.DOUBTFUL
    return Cell(value=measurement.median / table.scale, mark=mark)


def _data(table: Measurements, baseline: Baseline | None) -> Iterator[dict[str, Value]]:
    for row in table.rows:
        for at, cell in enumerate(row.cells):
            if cell is not None:
                yield {
                    "label": table.label,
                    "num_threads": row.num_threads,
                    "env": cell.task_spec.env,
                    "row": row.name,
                    "column": table.columns[at],
                    **time_values(time_of_measurement(cell), "median", "interval"),
                    "mean": cell.mean,
                    "std": cell.std,
                    "iqr": cell.iqr,
                    "ratio": table.ratio(row, at, baseline) if baseline is not None else None,
                }
