"""Row titles and cell texts that the document formats (Markdown, HTML) share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchmark.model.measurement import Measurement
    from torchmark.report.table import Baseline, Row, Table


def row_titles(table: Table) -> list[str]:
    """The name of each row, with the environment and the threads where they differ."""
    shows_threads = len({row.num_threads for row in table.rows}) > 1
    return [_title(row, table.shows_env, shows_threads) for row in table.rows]


def cell_texts(table: Table, baseline: Baseline | None) -> list[list[str]]:
    """Medians in the table's unit, with as many figures as they carry; or ratios."""
    if baseline is not None:
        table.check_baseline(baseline)
        return [
            [_ratio(table.ratio(row, column, baseline)) for column in range(len(table.columns))]
            for row in table.rows
        ]
    return [[_time(cell, table.scale) for cell in row.cells] for row in table.rows]


def _title(row: Row, shows_env: bool, shows_threads: bool) -> str:
    parts = [row.name]
    if shows_env:
        parts.append(f"({row.env})")
    if shows_threads:
        parts.append(f"[{row.num_threads} thread{'s' if row.num_threads > 1 else ''}]")
    return " ".join(parts)


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3f}"


def _time(cell: Measurement | None, scale: float) -> str:
    if cell is None:
        return ""
    doubt = " (!)" if cell.has_warnings else ""
    return f"{cell.median / scale:.4g}{doubt}"
