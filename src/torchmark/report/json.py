"""Tables as JSON: the same figures as the CSV, by table and row, with the doubts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.measurement import Measurement
    from torchmark.report.table import Baseline, Row, Table

VERSION = 1


def render(tables: Sequence[Table], baseline: Baseline | None) -> str:
    """JSON text; all times are in seconds."""
    record = {
        "torchmark": "comparison",
        "version": VERSION,
        "baseline": None if baseline is None else {"row": baseline.row, "env": baseline.env},
        "tables": [_table(table, baseline) for table in tables],
    }
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def _table(table: Table, baseline: Baseline | None) -> dict[str, Any]:
    if baseline is not None:
        table.check_baseline(baseline)
    return {
        "label": table.label,
        "columns": list(table.columns),
        "rows": [_row(table, row, baseline) for row in table.rows],
    }


def _row(table: Table, row: Row, baseline: Baseline | None) -> dict[str, Any]:
    return {
        "num_threads": row.num_threads,
        "env": next(cell.task_spec.env for cell in row.cells if cell is not None),
        "name": row.name,
        "cells": [
            None
            if cell is None
            else _cell(cell)
            | ({} if baseline is None else {"ratio": table.ratio(row, index, baseline)})
            for index, cell in enumerate(row.cells)
        ],
    }


def _cell(cell: Measurement) -> dict[str, Any]:
    return {
        "median": cell.median,
        "mean": cell.mean,
        "std": cell.std,
        "iqr": cell.iqr,
        "median_interval": list(cell.median_interval),
        "samples": len(cell.times),
        "doubts": [doubt.kind.value for doubt in cell.doubts],
    }
