"""A replay as CSV: one line for each distinct call and backend, for a spreadsheet or pandas."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from torchmark.report.figures import first_line, printable

if TYPE_CHECKING:
    from torchmark.analyse.replay import CallRow, UnderstoodReplay
    from torchmark.model.replay_record import Replayed

HEADER = (
    "call", "op", "arguments", "phases", "modules", "calls", "backend", "outcome", "seconds",
    "interval_low", "interval_high", "samples", "total_seconds", "share", "flops", "bytes",
    "explained", "nature", "speedup", "instructions", "prepare_seconds", "largest_error", "doubts",
    "remarks", "reason",
)  # fmt: skip
"""Stable: new columns are added at the end."""


def render(table: UnderstoodReplay) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADER, restval="", lineterminator="\n")
    writer.writeheader()
    rows = [row for operator in table.operators for row in operator.calls]
    for row in sorted(rows, key=lambda row: row.replayed.number):
        for backend in table.replay.backends:
            result = row.replayed.by_backend(backend)
            line = _facts(row) | {"backend": backend.value, "outcome": "not measured"}
            if result is not None:
                line |= _figures(table, row, result)
            writer.writerow({name: "" if value is None else value for name, value in line.items()})
    return text.getvalue()


def _facts(row: CallRow) -> dict[str, Any]:
    call = row.replayed
    return {
        "call": call.number,
        "op": call.call.op,
        "arguments": printable(call.signature),
        "phases": " ".join(call.phases),
        "modules": printable(" ".join(call.modules)),
        "calls": call.count,
        "flops": call.flops,
        "bytes": row.bytes,
    }


def _figures(table: UnderstoodReplay, row: CallRow, result: Replayed) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "outcome": result.status.value,
        "instructions": result.instructions,
        "prepare_seconds": result.prepare_seconds,
        "largest_error": result.largest_error,
        "remarks": printable("; ".join(result.remarks)),
        "reason": printable(first_line(result.reason)),
    }
    time = result.time
    if time is not None:
        figures |= {
            "seconds": time.seconds,
            "interval_low": time.low,
            "interval_high": time.high,
            "samples": time.samples,
            "total_seconds": time.seconds * row.replayed.count,
            "doubts": "; ".join(time.doubts),
        }
    if result.backend is table.backend:
        nature = row.nature.value if row.nature else None
        return figures | {"share": row.share, "explained": row.explained, "nature": nature}
    return figures | {"speedup": table.speedup([row], result.backend)}
