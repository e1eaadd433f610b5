"""The figures of a replay as a table: one row for each distinct call and backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.report.figures import first_line
from torchmark.report.views.common import data_table, time_values

if TYPE_CHECKING:
    from torchmark.analyse.replay import CallRow, Outcome, ReplayAnalysis
    from torchmark.report.view import Table, Value

COLUMNS = (
    "call", "op", "arguments", "phases", "modules", "calls", "backend", "status", "seconds",
    "interval_low", "interval_high", "samples", "total_seconds", "share", "flops", "bytes",
    "explained", "nature", "speedup", "instructions", "prepare_seconds", "max_error", "warnings",
    "remarks", "reason",
)  # fmt: skip
"""Stable: new columns are added at the end."""


def data_of(analysis: ReplayAnalysis) -> Table:
    """In the order of the trace; in order, the whole pass is a row without a number."""
    lines = []
    for row in sorted(analysis.calls, key=lambda row: row.call.number):
        for backend in analysis.settings.backends:
            outcome = row.by_backend(backend)
            line = _facts(row) | {"backend": backend.value, "status": "not measured"}
            lines.append(line if outcome is None else line | _figures(analysis, row, outcome))
    if analysis.whole_pass is not None:
        whole: dict[str, Value] = {
            "op": "(whole pass)",
            "calls": 1,
            "backend": analysis.backend.value,
            "status": "done",
        }
        lines.append(whole | time_values(analysis.whole_pass, "seconds", "interval"))
    return data_table(COLUMNS, lines)


def _facts(row: CallRow) -> dict[str, Value]:
    call = row.call
    return {
        "call": call.number,
        "op": call.op,
        "arguments": call.signature,
        "phases": " ".join(call.phases),
        "modules": " ".join(call.modules),
        "calls": call.count,
        "flops": row.flops,
        "bytes": row.bytes,
    }


def _figures(analysis: ReplayAnalysis, row: CallRow, outcome: Outcome) -> dict[str, Value]:
    figures: dict[str, Value] = {
        "status": outcome.status.value,
        "instructions": outcome.instructions,
        "prepare_seconds": outcome.facts.prepare_seconds,
        "max_error": outcome.facts.max_error,
        "remarks": "; ".join(outcome.facts.remarks),
        "reason": first_line(outcome.reason),
    }
    if outcome.time is not None:
        total = outcome.time.median * row.call.count
        figures |= time_values(outcome.time, "seconds", "interval") | {"total_seconds": total}
    if outcome.backend is analysis.backend:
        nature = row.nature.value if row.nature else None
        return figures | {"share": row.share, "explained": row.explained, "nature": nature}
    return figures | {"speedup": analysis.speedup([row], outcome.backend)}
