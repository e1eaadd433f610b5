"""The ladders of a run as JSON; times are in seconds, null is where there is no figure."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from torchmark.report.run_json import time_figures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from torchmark.analyse.overheads import Ladder, Rung, TimeOverhead
    from torchmark.model.run import Run

VERSION = 1


def render(run: Run, ladders: Sequence[Ladder]) -> str:
    record = {
        "torchmark": "overheads",
        "version": VERSION,
        "run": run.id,
        "environment": dict(run.environment),
        "ladders": [
            {"stmt": ladder.stmt, "rungs": [_rung(rung) for rung in ladder.rungs]}
            for ladder in ladders
        ],
    }
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def _rung(rung: Rung) -> dict[str, Any]:
    return {
        "kind": rung.kind,
        "case": rung.case.id,
        "time": None if rung.measurement is None else time_figures(rung.measurement),
        "time_overhead": None if rung.time_overhead is None else _overhead(rung.time_overhead),
        "instructions": _number(rung.instructions),
        "more_instructions": _number(rung.more_instructions),
    }


def _overhead(overhead: TimeOverhead) -> dict[str, Any]:
    return {
        "seconds": overhead.seconds,
        "interval": list(overhead.interval),
        "ratio": overhead.ratio,
        # An interval of few, scattered samples may have no end.
        "ratio_interval": [
            bound if math.isfinite(bound) else None for bound in overhead.ratio_interval
        ],
    }


def _number(exact: Fraction | None) -> float | None:
    return None if exact is None else float(exact)
