"""Runs and results as torchmark 0.1 kept them, read as the records of today.

0.1 knew times and instructions, one environment for each run, and a row of figures for each case of
a sweep. The records below are its own; nothing here writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from torchmark.model.case import Case, Language
from torchmark.model.codec import decode_measurement, decode_stats
from torchmark.model.result import (
    Counts,
    Facts,
    Metric,
    PlannedResult,
    Result,
    Status,
    TimeSummary,
    Timing,
    counts_of_stats,
)
from torchmark.model.run import Environment, Run, RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.measurement import Measurement

METRICS = {"time": Metric.TIME, "count": Metric.INSTRUCTIONS}
"""By what 0.1 called them."""

_NOTHING = msgspec.Raw(b"null")

_SUMMARY = {
    "samples": "samples",
    "median": "median_s",
    "low": "low_s",
    "high": "high_s",
    "mean": "mean_s",
    "least": "min_s",
    "p95": "p95_s",
    "deviation": "std_s",
}
"""What the columns of a sweep's row are today in a TimeSummary."""

_FACTS = {
    "flops": "flops",
    "bytes": "bytes",
    "peak_memory_bytes": "peak_memory_bytes",
    "max_error": "max_error",
    "prepare_seconds": "prepare_s",
}
"""What they are in Facts."""


class _Run(msgspec.Struct, tag_field="torchmark", tag="run"):
    id: str
    started: str
    cases: list[dict[str, Any]]
    plan: list[tuple[Annotated[int, msgspec.Meta(ge=0)], Literal["time", "count"]]]
    """Indices into the cases, and what was measured of them."""

    settings: dict[str, Any]
    environment: dict[str, Any]


class _Result(msgspec.Struct, tag_field="torchmark", tag="case result"):
    case: dict[str, Any]
    kind: Literal["time", "count"]
    outcome: Status
    finished: str
    seconds: float
    reason: str
    stdout: str
    stderr: str
    measurement: msgspec.Raw = _NOTHING
    counts: msgspec.Raw = _NOTHING
    compile_seconds: float | None = None
    sweep: dict[str, Any] | None = None
    """What a sweep knew of a case beside its samples, by column."""


def read_run(text: bytes) -> Run:
    """The run, without its state and tags, which have columns of their own."""
    record = msgspec.json.decode(text, type=_Run)
    cases = [_case_of(case) for case in record.cases]
    return Run(
        id=record.id,
        kind=RunKind.SWEEP if "sweep" in record.settings else RunKind.RUN,
        started=record.started,
        state=RunState.RUNNING,
        plan=tuple(
            PlannedResult(case=cases[index], metric=METRICS[kind]) for index, kind in record.plan
        ),
        environments=(Environment(facts=record.environment),),
        settings=_settings_of(record, cases),
    )


def _settings_of(record: _Run, cases: Sequence[Case]) -> dict[str, Any]:
    """Of a sweep: the sizes of every case, which 0.1 had in the rows and in the names of cases."""
    if "sweep" not in record.settings:
        return record.settings
    sizes = {case.id: dict(pair.split("=") for pair in case.label[1].split()) for case in cases}
    return {
        "csv": record.settings["sweep"].get("csv"),
        "dims": list(next(iter(sizes.values()), {})),
        "sizes": {case_id: [int(size) for size in of.values()] for case_id, of in sizes.items()},
    }


def read_result(text: bytes) -> Result:
    record = msgspec.json.decode(text, type=_Result)
    return Result(
        case=_case_of(record.case),
        metric=METRICS[record.kind],
        status=record.outcome,
        finished=record.finished,
        seconds=record.seconds,
        reason=record.reason,
        stdout=record.stdout,
        stderr=record.stderr,
        payload=_payload_of(record),
        facts=_facts_of(record),
    )


def _case_of(record: dict[str, Any]) -> Case:
    language, model = Language[record["language"]].value, record["model"]
    model = None if model is None else {"source": model}
    return msgspec.convert({**record, "language": language, "model": model}, Case)


def _payload_of(record: _Result) -> Timing | TimeSummary | Counts | None:
    if record.counts != _NOTHING:
        return counts_of_stats(decode_stats(bytes(record.counts)))
    if record.measurement != _NOTHING:
        return _times_of(decode_measurement(bytes(record.measurement)))
    row = record.sweep or {}
    figures = {name: row.get(column) for name, column in _SUMMARY.items()}
    if None in (figures["median"], figures["low"], figures["high"]):
        return None
    return msgspec.convert(figures, TimeSummary)


def _times_of(measurement: Measurement) -> Timing | TimeSummary | None:
    """Samples as they were taken; statistics of a measurement that kept nothing but its times."""
    parts = measurement.replicates or (measurement,)
    samplings = tuple(each.sampling for each in parts if each.sampling is not None)
    if len(samplings) == len(parts):
        return Timing(processes=samplings)
    if not measurement.raw_times:
        return None
    low, high = measurement.median_interval
    return TimeSummary(
        samples=len(measurement.raw_times),
        median=measurement.median,
        low=low,
        high=high,
        mean=measurement.mean,
        least=min(measurement.times),
        p95=measurement.percentile(95),
        deviation=measurement.std,
    )


def _facts_of(record: _Result) -> Facts:
    row = record.sweep
    if row is None:
        return Facts(prepare_seconds=record.compile_seconds)
    facts = {name: row.get(column) for name, column in _FACTS.items()}
    # The reason of a case that was measured: how its output differs from eager's.
    is_remark = record.outcome is Status.DONE and row.get("reason")
    return msgspec.convert({**facts, "remarks": [row["reason"]] if is_remark else []}, Facts)
