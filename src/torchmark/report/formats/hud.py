"""Render a run as records of PyTorch's benchmark database, which its HUD shows (schema v3).

A list of JSON objects, one for each case and metric, with the fields `benchmark`, `model`,
`metric`, `runners` and `dependencies`. The action that uploads the file (upload-benchmark-results
in pytorch/test-infra) adds what it knows of the workflow: repository, commit, branch and job.

The HUD shows two decimals, so times are in microseconds. It stores values as 32-bit floats, so
counts above 16 million are rounded in the seventh digit. Values in `extra_info` are text, as its
schema demands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from torchmark import __version__
from torchmark.analyse.ab import CountRow, TimeRow, judge, pairs_of
from torchmark.analyse.estimates import instructions_of
from torchmark.model.case import Autograd, Case, spec_of
from torchmark.model.measurement import Measurement
from torchmark.model.result import Counts, Metric, Result, Status, TimeSummary, Timing
from torchmark.model.run import Environment, Run, RunKind
from torchmark.printable import printable_json

NAMES = {Metric.TIME: "time_us", Metric.INSTRUCTIONS: "instructions"}
"""The metrics by their names in the database."""

_MICRO = 1e6

Record: TypeAlias = dict[str, Any]


def render(run: Run) -> str:
    """JSON text. Of a comparison, the values are those of the second environment."""
    compared = _compared(run) if run.kind is RunKind.AB else _measured(run)
    text = msgspec.json.format(msgspec.json.encode(list(compared)), indent=2)
    return printable_json(f"{text.decode()}\n")


def _measured(run: Run) -> Iterator[Record]:
    for result in run.results:
        values = _values_of(result)
        if values and result.status is Status.DONE:
            yield _record(run, run.environment, result.case, result.metric, values, {})


def _values_of(result: Result) -> list[float]:
    """The median of each process in microseconds, or the instructions of one run."""
    if isinstance(result.payload, Counts):
        return [float(instructions_of(result.payload))]
    if isinstance(result.payload, TimeSummary):
        return [result.payload.median * _MICRO]
    if not isinstance(result.payload, Timing):
        return []
    spec = spec_of(result.case)
    found = (Measurement.from_sampling(spec, each) for each in result.payload.processes)
    return [each.median * _MICRO for each in found if each.raw_times]


def _compared(run: Run) -> Iterator[Record]:
    for pair in pairs_of(run):
        judged = judge(run, pair)
        for time in judged.times:
            value = time.b_seconds * _MICRO
            yield _record(run, judged.b, time.case, Metric.TIME, [value], _facts_of_time(time))
        for count in judged.counts:
            after = [float(count.after)]
            facts = _facts_of_count(count)
            yield _record(run, judged.b, count.case, Metric.INSTRUCTIONS, after, facts)


def _facts_of_time(row: TimeRow) -> dict[str, Any]:
    low, high = row.effect.interval
    return {
        "before": row.a_seconds * _MICRO,
        "ratio": row.effect.ratio,
        "ratio_low": low,
        "ratio_high": high,
        "verdict": row.verdict.value,
    }


def _facts_of_count(row: CountRow) -> dict[str, Any]:
    ratio = float(row.after / row.before) if row.before else math.inf
    return {"before": float(row.before), "ratio": ratio, "verdict": row.verdict.value}


def _record(
    run: Run,
    environment: Environment,
    case: Case,
    metric: Metric,
    values: list[float],
    facts: Mapping[str, Any],
) -> Record:
    return {
        "benchmark": {
            "name": "torchmark",
            "mode": "training" if case.autograd is Autograd.FORWARD_BACKWARD else "inference",
            "dtype": dict(case.params).get("dtype", ""),
            "extra_info": _texts({"run": run.id, "environment": environment.name}),
        },
        "model": {
            "name": case.title,
            "type": "micro-benchmark",
            "backend": case.runtime.value,
            "origins": ["torchmark"],
            "extra_info": _texts({"case": case.id, "threads": case.num_threads}),
        },
        "metric": {
            "name": NAMES[metric],
            "benchmark_values": values,
            "target_value": 0,
            "extra_info": _texts(facts),
        },
        "runners": [_runner(environment)],
        "dependencies": _dependencies(environment),
    }


def _runner(environment: Environment) -> Record:
    cores = environment.fact("machine", "cores")
    system = str(environment.fact("machine", "system") or "")
    return {
        "name": str(environment.fact("machine", "host") or ""),
        "type": system.rpartition(" ")[2],
        "cpu_info": str(environment.fact("machine", "cpu") or ""),
        "cpu_count": cores if isinstance(cores, int) else 0,
        "extra_info": _texts({"system": system}),
    }


def _dependencies(environment: Environment) -> Record:
    facts = {
        "torch": (environment.fact("torch", "version"), environment.fact("torch", "git")),
        "torchmark": (environment.fact("torchmark") or __version__, None),
        "python": (environment.fact("python"), None),
    }
    return {
        name: {"version": str(version), "sha": str(sha or ""), "extra_info": {}}
        for name, (version, sha) in facts.items()
        if version
    }


def _texts(facts: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}
