"""A run as CSV: one line for each result, times in seconds, for a spreadsheet or pandas."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from torchmark.analyse.instructions import instructions_per_run
from torchmark.report.figures import first_line, printable
from torchmark.report.run_table import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.result import Result
    from torchmark.model.run import Run

HEADER = (
    "run", "case", "label", "language", "runtime", "autograd", "num_threads", "params", "kind",
    "outcome", "median", "interval_low", "interval_high", "iqr", "samples", "instructions_per_run",
    "counted_runs", "compile_seconds", "seconds", "finished", "doubts", "reason",
)  # fmt: skip
"""Stable: new columns are added at the end."""


def render(run: Run, results: Sequence[Result]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADER, restval="", lineterminator="\n")
    writer.writeheader()
    for result in table_of(run, results).results:
        writer.writerow({"run": run.id} | _facts(result) | _figures(result))
    return text.getvalue()


def _facts(result: Result) -> dict[str, Any]:
    case = result.case
    return {
        "case": case.id,
        "label": printable(" / ".join(case.label)),
        "language": case.language.name.lower(),
        "runtime": case.runtime.value,
        "autograd": case.autograd.value,
        "num_threads": case.num_threads,
        "params": printable(" ".join(f"{name}={value}" for name, value in case.params)),
        "kind": result.kind.value,
        "outcome": result.status.value,
        "seconds": result.seconds,
        "finished": result.finished,
        "compile_seconds": "" if result.compile_seconds is None else result.compile_seconds,
        "reason": printable(first_line(result.reason)),
    }


def _figures(result: Result) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    measurement, counts = result.measurement, result.counts
    if measurement is not None and measurement.raw_times:
        low, high = measurement.median_interval
        figures |= {
            "median": measurement.median,
            "interval_low": low,
            "interval_high": high,
            "iqr": measurement.iqr,
            "samples": len(measurement.raw_times),
            "doubts": "; ".join(doubt.kind.value for doubt in measurement.doubts),
        }
    if counts is not None:
        figures["instructions_per_run"] = float(instructions_per_run(counts))
        figures["counted_runs"] = counts.number_per_run
    return figures
