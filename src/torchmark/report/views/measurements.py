"""The tables of `Compare`, and their view.

There is one table for each label, with rows by threads, environment and sub_label (or statement),
and columns by description. `Compare` makes its text, which has torch's layout, from these tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torchmark.analyse.estimates import time_of_measurement
from torchmark.errors import EmptyMeasurementError, UnknownRowError
from torchmark.model.measurement import Measurement
from torchmark.model.units import collect, ordered_unique, select_unit
from torchmark.report.figures import number_text
from torchmark.report.view import (
    Cell,
    Field,
    Kind,
    Mark,
    Section,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.common import time_values

_DATA = (
    "label", "num_threads", "env", "row", "column", "median", "mean", "std", "iqr",
    "interval_low", "interval_high", "samples", "ratio", "warnings",
)  # fmt: skip
"""Columns of the data. The order is stable; new columns are added at the end."""

_AS_FAST = 1.01
"""Times within 1 % of the fastest count as equally fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The row that the cells of a table are compared with."""

    row: str
    """Its sub_label or statement."""

    env: str | None
    """Its environment. None is the environment of each cell if it has this row, otherwise the
    first one that has it."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The results of one implementation, in one environment, with one number of threads."""

    num_threads: int
    env: str
    name: str
    cells: tuple[Measurement | None, ...]
    """One for each column of the table; None if nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """The results of one label."""

    label: str | None
    columns: tuple[str, ...]
    """Descriptions, in the order of measurement."""

    rows: tuple[ResultRow, ...]
    """Sorted by threads, then environment; otherwise in the order of measurement."""

    unit: str
    """The best unit for the fastest result."""

    scale: float
    """That unit in seconds."""

    measurements: tuple[Measurement, ...]
    """All results of the label. If two have the same cell (the same names, another setup), the
    later one is shown, as in torch."""

    @property
    def shows_env(self) -> bool:
        return len({row.env for row in self.rows}) > 1

    def group_of(self, row: ResultRow) -> tuple[ResultRow, ...]:
        """The rows that can be compared with this one: those with the same number of threads."""
        return tuple(other for other in self.rows if other.num_threads == row.num_threads)

    def fastest(self, row: ResultRow, column: int) -> float:
        """The smallest median of a column in the row's group, in seconds."""
        cells = (other.cells[column] for other in self.group_of(row))
        return min(cell.median for cell in cells if cell is not None)

    def ratio(self, row: ResultRow, column: int, baseline: Baseline) -> float | None:
        """A cell over the baseline's cell of the same column and threads, if both exist."""
        cell = row.cells[column]
        candidates = [other for other in self.group_of(row) if other.name == baseline.row]
        if baseline.env is not None:
            candidates = [other for other in candidates if other.env == baseline.env]
        same_env = [other for other in candidates if other.env == row.env]
        for other in same_env or candidates:
            against = other.cells[column]
            if cell is not None and against is not None and against.median > 0:
                return cell.median / against.median
        return None

    def check_baseline(self, baseline: Baseline) -> None:
        names = ordered_unique((row.name, row.env) for row in self.rows)
        if any(baseline.row == name and baseline.env in (None, env) for name, env in names):
            return
        where = f" in env {baseline.env!r}" if baseline.env is not None else ""
        known = ", ".join(ordered_unique(repr(name) for name, _ in names))
        raise UnknownRowError(
            f"table {self.label!r} has no row {baseline.row!r}{where} to compare with; "
            f"choose from: {known}"
        )


def tables_of(results: Sequence[Measurement]) -> list[ResultTable]:
    """One table for each label, with replicates merged; an error if there are no results."""
    if not results:
        raise EmptyMeasurementError("no results to show; measure something first")
    by_label = collect((merged.label, merged) for merged in Measurement.merge(results))
    return [table_of_group(group) for group in by_label.values()]


def table_of_group(results: Sequence[Measurement]) -> ResultTable:
    """The table of results with the same label, one for each task."""
    columns = ordered_unique(result.description for result in results)
    keys = ordered_unique((r.num_threads, r.env, r.as_row_name) for r in results)
    keys.sort(key=lambda key: key[:2])
    placed = {((r.num_threads, r.env, r.as_row_name), r.description): r for r in results}
    unit, scale = select_unit(min(result.median for result in results))
    return ResultTable(
        label=results[0].label,
        columns=tuple(column or "" for column in columns),
        rows=tuple(
            ResultRow(*key, cells=tuple(placed.get((key, column)) for column in columns))
            for key in keys
        ),
        unit=unit,
        scale=scale,
        measurements=tuple(results),
    )


def make_view(tables: Sequence[ResultTable], baseline: Baseline | None) -> View:
    if baseline is not None:
        for table in tables:
            table.check_baseline(baseline)
    labels = ", ".join(table.label for table in tables if table.label)
    number = sum(len(table.measurements) for table in tables)
    return View(
        title=labels or "torchmark",
        summary=number_text(number, "measurement"),
        sections=tuple(_section(at, table, baseline) for at, table in enumerate(tables)),
        data=data_table(_DATA, (each for table in tables for each in _data(table, baseline))),
    )


def _section(at: int, table: ResultTable, baseline: Baseline | None) -> Section:
    unit = f"× {baseline.row}" if baseline else table.unit
    legend = (
        f"Ratios of medians to {baseline.row}; below 1 is faster."
        if baseline
        else f"Medians in {table.unit}. (!): high variance."
    )
    shows_threads = len({row.num_threads for row in table.rows}) > 1

    fields: list[Field[ResultRow]] = [
        field(table.label or "", lambda row: _title(row, table.shows_env, shows_threads)),
        *(
            field(
                f"{title or 'time'} ({unit})", partial(_cell, table, baseline, column), Kind.NUMBER
            )
            for column, title in enumerate(table.columns)
        ),
    ]
    return Section(
        f"table-{at}",
        table.label or "Results",
        table=make_table(table.rows, fields),
        footnotes=(f"{legend} Green: within 1 % of the fastest.",),
    )


def _title(row: ResultRow, shows_env: bool, shows_threads: bool) -> str:
    """The name of the row, with environment and number of threads if they differ."""
    env = f" ({row.env})" if shows_env else ""
    threads = f" [{number_text(row.num_threads, 'thread')}]"
    return f"{row.name}{env}{threads if shows_threads else ''}"


def _cell(table: ResultTable, baseline: Baseline | None, column: int, row: ResultRow) -> Cell:
    measurement = row.cells[column]
    if measurement is None:
        return Cell()
    is_best = measurement.median <= table.fastest(row, column) * _AS_FAST
    mark = Mark.GOOD if is_best else Mark.PLAIN
    if baseline is not None:
        ratio = table.ratio(row, column, baseline)
        return Cell(ratio, text=None if ratio is None else f"{ratio:.3f}", mark=mark)
    if measurement.has_warnings:
        mark = Mark.DOUBTFUL
    return Cell(measurement.median / table.scale, mark=mark)


def _data(table: ResultTable, baseline: Baseline | None) -> Iterator[dict[str, Value]]:
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
