"""Tables as CSV: one line for each cell, times in seconds, for a spreadsheet or pandas."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.report.table import Baseline, Table

HEADER = (
    "label", "num_threads", "env", "row", "column", "median", "mean", "std", "iqr",
    "interval_low", "interval_high", "samples", "ratio",
)  # fmt: skip
"""Stable: new columns are added at the end."""


def render(tables: Sequence[Table], baseline: Baseline | None) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for table in tables:
        if baseline is not None:
            table.check_baseline(baseline)
        for row in table.rows:
            for index, cell in enumerate(row.cells):
                if cell is None:
                    continue
                ratio = table.ratio(row, index, baseline) if baseline is not None else None
                env = cell.task_spec.env or ""
                writer.writerow(
                    [table.label or "", row.num_threads, env, row.name, table.columns[index],
                     cell.median, cell.mean, cell.std, cell.iqr, *cell.median_interval,
                     len(cell.times), "" if ratio is None else ratio]
                )  # fmt: skip
    return text.getvalue()
