"""A/B comparisons as CSV: one line for each environment B, case and kind of measurement.

The columns, and what they hold for times (T) and counts (C); empty where there is nothing to say:

    comparison, environment  the id, and the name of environment B
    case, title, other       the id and name of the case; the id of what B runs, if it is another
    kind, outcome, verdict   time or count; done, failed or skipped; slower, same, more, …
    a, b                     one run: T seconds, C instructions
    ratio                    T B's time over A's, from the pairs
    difference               C instructions that B takes more
    low, high                T the 95 % interval of the ratio
    share                    the change as a share of A: 0.01 is one per cent
    pairs, smallest          T pairs of fresh processes; the smallest change that could be seen
    spread                   C how far the layouts of one environment lie apart
    reason                   why it failed or was skipped: the first line
"""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from torchmark.analyse.ab import CountRow
from torchmark.report.ab_names import full_name
from torchmark.report.ab_words import judged
from torchmark.report.figures import first_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import TimeRow, Understood
    from torchmark.model.ab_record import Compared

HEADER = (
    "comparison", "environment", "case", "title", "other", "kind", "outcome", "verdict", "a", "b",
    "ratio", "difference", "low", "high", "share", "pairs", "smallest", "spread", "reason",
)  # fmt: skip
"""Stable: new columns are added at the end."""


def render(comparisons: Sequence[Understood]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADER, restval="", lineterminator="\n")
    writer.writeheader()
    for comparison in comparisons:
        writer.writerows(_rows(comparison))
    return text.getvalue()


def _rows(comparison: Understood) -> list[dict[str, Any]]:
    record = comparison.comparison
    where = {"comparison": printable(record.id), "environment": printable(record.b.name)}
    return [where | _facts(result) | _figures(row) for result, row in judged(comparison)]


def _facts(result: Compared) -> dict[str, Any]:
    return {
        "case": result.case.id,
        "title": printable(full_name(result)),
        "other": result.other.id if result.other else "",
        "kind": result.kind.value,
        "outcome": result.status.value,
        "reason": printable(first_line(result.reason)),
    }


def _figures(row: TimeRow | CountRow | None) -> dict[str, Any]:
    if row is None:
        return {}
    if isinstance(row, CountRow):
        return {
            "verdict": row.verdict.value,
            "a": float(row.a),
            "b": float(row.b),
            "difference": float(row.difference),
            "share": row.share if math.isfinite(row.share) else "",
            "spread": float(row.spread),
        }
    return {
        "verdict": row.verdict.value,
        "a": row.a_seconds,
        "b": row.b_seconds,
        "ratio": row.effect.ratio,
        "low": row.effect.interval.low,
        "high": row.effect.interval.high,
        "share": row.effect.ratio - 1,
        "pairs": row.effect.pairs,
        "smallest": row.effect.smallest,
    }
