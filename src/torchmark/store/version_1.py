"""Runs and results as torchmark 0.1 kept them, read as the records of today.

0.1 knew times and instructions, one environment for each run, and a row of figures for each case of
a sweep. The records below are its own, field by field; nothing here writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from torchmark.model.case import Autograd, Case, Language, Runtime, ScriptedModel
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


class _Case(msgspec.Struct):
    label: tuple[str, ...]
    stmt: str
    setup: str
    global_setup: str
    language: Literal["PYTHON", "CPP"]
    runtime: Runtime
    autograd: Autograd
    num_threads: int
    params: tuple[tuple[str, str], ...]
    model: str | None
    skip: str | None


class _Run(msgspec.Struct, tag_field="torchmark", tag="run"):
    id: str
    started: str
    cases: list[_Case]
    plan: list[tuple[Annotated[int, msgspec.Meta(ge=0)], Literal["time", "count"]]]
    """Indices into the cases, and what was measured of them."""

    settings: dict[str, Any]
    environment: dict[str, Any]


class _SweepRow(msgspec.Struct):
    """What a sweep knew of a case beside its samples; dimensions and the like are in the case."""

    samples: int = 0
    median_s: float | None = None
    mean_s: float | None = None
    min_s: float | None = None
    p95_s: float | None = None
    std_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    flops: int | None = None
    bytes: int | None = None
    peak_memory_bytes: int | None = None
    max_error: float | None = None
    prepare_s: float | None = None
    reason: str = ""
    """Of a case that was measured: how its output differs from eager's."""


class _Result(msgspec.Struct, tag_field="torchmark", tag="case result"):
    case: _Case
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
    sweep: _SweepRow | None = None


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


def _case_of(record: _Case) -> Case:
    fields = msgspec.structs.asdict(record)
    fields["language"] = Language[record.language]
    fields["model"] = None if record.model is None else ScriptedModel(source=record.model)
    return Case(**fields)


def _payload_of(record: _Result) -> Timing | TimeSummary | Counts | None:
    if record.counts != _NOTHING:
        return counts_of_stats(decode_stats(bytes(record.counts)))
    if record.measurement != _NOTHING:
        return _times_of(decode_measurement(bytes(record.measurement)))
    row = record.sweep
    if row is None or row.median_s is None or row.low_s is None or row.high_s is None:
        return None
    return TimeSummary(
        samples=row.samples,
        median=row.median_s,
        low=row.low_s,
        high=row.high_s,
        mean=row.mean_s,
        least=row.min_s,
        p95=row.p95_s,
        deviation=row.std_s,
    )


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
    is_remark = record.outcome is Status.DONE and row.reason
    return Facts(
        flops=row.flops,
        bytes=row.bytes,
        peak_memory_bytes=row.peak_memory_bytes,
        max_error=row.max_error,
        prepare_seconds=row.prepare_s,
        remarks=(row.reason,) if is_remark else (),
    )
