"""A/B comparisons as JSON: all that was measured, and beside it what follows from that.

Times are in seconds, instructions are those of one run of the case, shares are numbers (0.01 is
one per cent); what would be infinite is null.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from torchmark.analyse.ab import CountRow
from torchmark.report.ab_words import judged, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import TimeRow, Understood
    from torchmark.model.ab_record import Compared, ComparedEnvironment, PairedTimes
    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.case import Case

VERSION = 2

_MOST_FUNCTIONS = 200
"""Of a case, the biggest differences; another build of torch makes thousands."""


def render(comparisons: Sequence[Understood]) -> str:
    record = {
        "torchmark": "ab comparison",
        "version": VERSION,
        "comparisons": [_comparison(each) for each in comparisons],
    }
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def _comparison(comparison: Understood) -> dict[str, Any]:
    record, control = comparison.comparison, comparison.control
    return {
        "id": record.id,
        "started": record.started,
        "is_complete": record.is_complete,
        "a": _environment(record.a),
        "b": _environment(record.b),
        "remarks": list(record.remarks),
        "settings": dict(record.settings),
        "summary": summary(comparison),
        "changed": comparison.changed,
        "got_slower": comparison.got_slower,
        "control": control and control._asdict(),
        "results": [_result(result, row) for result, row in judged(comparison)],
    }


def _environment(environment: ComparedEnvironment) -> dict[str, Any]:
    return {
        "name": environment.name,
        "command": environment.command,
        "facts": dict(environment.facts),
    }


def _result(result: Compared, row: TimeRow | CountRow | None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "case": _case(result.case),
        "other": _case(result.other) if result.other else None,
        "kind": result.kind.value,
        "outcome": result.status.value,
        "reason": result.reason,
        "seconds": result.seconds,
        "python": [{"function": each.function, "a": each.a, "b": each.b} for each in result.python],
    }
    if result.times is not None:
        record["times"] = _times(result.times)
    if result.counts is not None:
        record["counts"] = {
            "a": [_layout(stats) for stats in result.counts.a],
            "b": [_layout(stats) for stats in result.counts.b],
        }
    if row is not None:
        record["meaning"] = _count_meaning(row) if isinstance(row, CountRow) else _time_meaning(row)
    return record


def _case(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "title": case.title,
        "label": list(case.label),
        "language": case.language.name.lower(),
        "num_threads": case.num_threads,
        "stmt": case.stmt,
        "setup": case.setup,
        "global_setup": case.global_setup,
    }


def _times(times: PairedTimes) -> dict[str, Any]:
    return {
        "a_seconds": times.a_seconds,
        "pairs": times.pairs,
        "control": times.control,
        "penalty": times.penalty,
        "layout_effect": times.layout_effect,
    }


def _layout(stats: CallgrindStats) -> dict[str, int]:
    """As counted, for all runs: with the functions that only layouts move, and with the loop."""
    return {
        "instructions": stats.counts(),
        "loop": stats.baseline_exclusive_stats.sum(),
        "runs": stats.number_per_run,
    }


def _time_meaning(row: TimeRow) -> dict[str, Any]:
    effect = row.effect
    return {
        "verdict": row.verdict.value,
        "ratio": effect.ratio,
        "interval": list(effect.interval),
        "share": effect.ratio - 1,
        "p": effect.p,
        "pairs": effect.pairs,
        "smallest": effect.smallest,
    }


def _count_meaning(row: CountRow) -> dict[str, Any]:
    return {
        "verdict": row.verdict.value,
        "a": float(row.a),
        "b": float(row.b),
        "difference": float(row.difference),
        "share": row.share if math.isfinite(row.share) else None,
        "spread": float(row.spread),
        "functions": [
            {"function": each.function, "instructions": float(each.instructions)}
            for each in row.functions[:_MOST_FUNCTIONS]
        ],
        "functions_left_out": max(0, len(row.functions) - _MOST_FUNCTIONS),
    }
