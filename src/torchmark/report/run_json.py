"""A run as JSON: the figures of every result, and with `samples` all that they follow from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchmark.analyse.instructions import instructions_per_run
from torchmark.model.run_json import encode_result
from torchmark.report.run_table import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result
    from torchmark.model.run import Run

VERSION = 1


def render(run: Run, results: Sequence[Result], *, samples: bool = False) -> str:
    """JSON text; times are in seconds.

    With `samples` every result has its record as the store holds it, under "record": each sample,
    the counts of each function, and what the case printed. `torchmark.model.run_json` reads it.
    """
    table = table_of(run, results)
    record = {
        "torchmark": "run report",
        "version": VERSION,
        "run": {
            "id": run.id,
            "started": run.started,
            "state": run.state.value,
            "tags": list(run.tags),
            "planned": len(run.plan),
            "settings": dict(run.settings),
            "environment": dict(run.environment),
        },
        "results": [_result(result, samples=samples) for result in table.results],
    }
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def _result(result: Result, *, samples: bool) -> dict[str, Any]:
    case = result.case
    record: dict[str, Any] = {
        "case": case.id,
        "title": case.title,
        "label": list(case.label),
        "kind": result.kind.value,
        "outcome": result.status.value,
        "reason": result.reason,
        "finished": result.finished,
        "seconds": result.seconds,
        "compile_seconds": result.compile_seconds,
    }
    if result.measurement is not None and result.measurement.raw_times:
        record["time"] = time_figures(result.measurement)
    if result.counts is not None:
        record["count"] = {
            "instructions_per_run": float(instructions_per_run(result.counts)),
            "runs": result.counts.number_per_run,
        }
    if samples:
        record["record"] = json.loads(encode_result(result))
    return record


def time_figures(measurement: Measurement) -> dict[str, Any]:
    return {
        "median": measurement.median,
        "median_interval": list(measurement.median_interval),
        "iqr": measurement.iqr,
        "samples": len(measurement.raw_times),
        "doubts": [str(doubt) for doubt in measurement.doubts],
    }
