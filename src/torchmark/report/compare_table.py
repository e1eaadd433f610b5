"""The table behind every format: which measurement stands in which row and column.

One table for each label; rows by threads, environment and sub_label (or the statement), columns
by description. Renderers read this and know nothing of how results are grouped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.errors import EmptyMeasurementError, UnknownRowError
from torchmark.model.measurement import Measurement
from torchmark.model.units import ordered_unique, select_unit

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The row whose cells are 1 when a table shows ratios."""

    row: str
    """Its sub_label or statement."""

    env: str | None
    """Its environment; None takes the row of the same environment as each cell, if it has one,
    and otherwise the first that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of one implementation, in one environment, with one number of threads."""

    num_threads: int
    env: str
    name: str
    cells: tuple[Measurement | None, ...]
    """One for each column of the table; None where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The results of one label."""

    label: str | None
    columns: tuple[str, ...]
    """Descriptions, in the order in which they were measured."""

    rows: tuple[Row, ...]
    """Sorted by threads, then environment; otherwise in the order of measurement."""

    unit: str
    """The unit in which the quickest result reads best."""

    scale: float
    """That unit in seconds."""

    measurements: tuple[Measurement, ...]
    """All results of the label. Of two that share a cell (the same names, another setup) the
    later one is shown, as in torch."""

    @property
    def shows_env(self) -> bool:
        return len({row.env for row in self.rows}) > 1

    def group_of(self, row: Row) -> tuple[Row, ...]:
        """The rows that may be compared with this one: those with as many threads."""
        return tuple(other for other in self.rows if other.num_threads == row.num_threads)

    def fastest(self, row: Row, column: int) -> float:
        """The least median of a column, in the row's group, in seconds."""
        cells = (other.cells[column] for other in self.group_of(row))
        return min(cell.median for cell in cells if cell is not None)

    def ratio(self, row: Row, column: int, baseline: Baseline) -> float | None:
        """A cell over the baseline's cell of the same column and threads, where there are both."""
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
            f"its rows are {known}"
        )


def tables_of(results: Sequence[Measurement]) -> list[Table]:
    """One table for each label, with replicates merged; no results are an error."""
    if not results:
        raise EmptyMeasurementError("there are no results to show; measure something first")
    by_label: dict[str | None, list[Measurement]] = {}
    for merged in Measurement.merge(results):
        by_label.setdefault(merged.label, []).append(merged)
    return [_table_of(label, group) for label, group in by_label.items()]


def _table_of(label: str | None, results: Sequence[Measurement]) -> Table:
    columns = ordered_unique(result.description for result in results)
    keys = ordered_unique((r.num_threads, r.env, r.as_row_name) for r in results)
    keys.sort(key=lambda key: key[:2])
    placed = {((r.num_threads, r.env, r.as_row_name), r.description): r for r in results}
    unit, scale = select_unit(min(result.median for result in results))
    return Table(
        label=label,
        columns=tuple(column or "" for column in columns),
        rows=tuple(
            Row(
                num_threads=key[0],
                env=key[1],
                name=key[2],
                cells=tuple(placed.get((key, column)) for column in columns),
            )
            for key in keys
        ),
        unit=unit,
        scale=scale,
        measurements=tuple(results),
    )
