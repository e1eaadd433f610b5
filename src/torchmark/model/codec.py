"""Every record as JSON: one codec for files, exports, the store and the wire.

A text names what it holds and its version: `{"torchmark": "run", "version": 2, "record": …}`. What
is read is data and is checked field by field; an unknown newer version is refused. Version 1, that
of torchmark 0.1, had the fields beside the heading: measurements and counts of it are read here,
runs and results by `torchmark.store.version_1`. `json_schema` publishes the form of version 2.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypeVar

import msgspec

from torchmark.errors import (
    CallgrindFileError,
    MeasurementFileError,
    NotSerialisableError,
    RecordFileError,
)
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.model.measurement import Measurement
from torchmark.model.result import Result
from torchmark.model.run import Run
from torchmark.model.task_spec import TaskSpec  # noqa: TC001 - msgspec reads the annotations
from torchmark_probe.loops.sampling import Sampling  # noqa: TC001 - msgspec reads the annotations

T = TypeVar("T")

VERSION = 2
"""Raised with every change after which older readers would misread a record."""

_Whole = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class MeasurementRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A `Measurement`."""

    task: TaskSpec
    number_per_run: _Whole
    raw_times: list[_Seconds]
    metadata: dict[str, Any] | None = None
    sampling: Sampling | None = None
    replicates: list[MeasurementRecord] = []


class FunctionCountsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A `FunctionCounts`."""

    inclusive: bool
    functions: list[tuple[int, str]]
    truncate_rows: bool = True
    linewidth: int | None = None


class StatsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A `CallgrindStats`."""

    task: TaskSpec
    number_per_run: _Whole
    built_with_debug_symbols: bool
    baseline_inclusive: FunctionCountsRecord
    baseline_exclusive: FunctionCountsRecord
    stmt_inclusive: FunctionCountsRecord
    stmt_exclusive: FunctionCountsRecord
    stmt_callgrind_out: str | None = None


class _Heading(msgspec.Struct):
    torchmark: str
    """What the text holds: "run", "result", "measurement" or "callgrind stats"."""

    version: int
    record: msgspec.Raw = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    torchmark: str
    version: int
    record: Any


KINDS: dict[str, type[Any]] = {
    "run": Run,
    "result": Result,
    "measurement": MeasurementRecord,
    "callgrind stats": StatsRecord,
}
"""What a text may hold, by the name in its heading."""

_FILE_ERRORS: dict[str, type[ValueError]] = {
    "measurement": MeasurementFileError,
    "callgrind stats": CallgrindFileError,
}


def encode_run(run: Run) -> str:
    """JSON text; settings or facts that would come back changed are refused."""
    _check_plain(f"the settings of run {run.id!r}", run.settings)
    for environment in run.environments:
        _check_plain(f"the facts of run {run.id!r}", environment.facts)
    return _encoded("run", run, f"run {run.id!r}")


def decode_run(text: str | bytes) -> Run:
    return _decoded("run", text, Run)


def encode_result(result: Result) -> str:
    """JSON text; bytes that are no text in what a case printed are shown as escapes."""
    texts = {name: _valid(getattr(result, name)) for name in ("reason", "stdout", "stderr")}
    what = f"the result of {result.case.title!r}"
    return _encoded("result", msgspec.structs.replace(result, **texts), what)


def decode_result(text: str | bytes) -> Result:
    return _decoded("result", text, Result)


def encode_measurement(measurement: Measurement) -> str:
    """JSON text; a payload that would come back changed is refused."""
    what = f"the measurement of {measurement.title!r}"
    text = _encoded("measurement", _record_of_measurement(measurement), what)
    for each in (measurement, *measurement.replicates):
        _check_plain(f"{what}: its metadata", each.metadata)
    return text


def decode_measurement(text: str | bytes) -> Measurement:
    return _measurement_of(_decoded("measurement", text, MeasurementRecord))


def encode_stats(stats: CallgrindStats) -> str:
    """JSON text; counts that would come back changed are refused."""
    what = f"the counts of {stats.task_spec.title!r}"
    text = _encoded("callgrind stats", _record_of_stats(stats), what)
    try:
        is_alike = decode_stats(text) == stats
    except CallgrindFileError:
        is_alike = False
    if not is_alike:
        raise NotSerialisableError(f"{what} cannot be kept in JSON: counts are whole numbers")
    return text


def decode_stats(text: str | bytes) -> CallgrindStats:
    return _stats_of(_decoded("callgrind stats", text, StatsRecord))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of every text that this version writes."""
    kinds = list(KINDS.values())
    references, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"torchmark records, version {VERSION}",
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "torchmark": {"const": name},
                    "version": {"const": VERSION},
                    "record": reference,
                },
                "required": ["torchmark", "version", "record"],
            }
            for name, reference in zip(KINDS, references, strict=True)
        ],
        "$defs": components,
    }


def _encoded(kind: str, record: Any, what: str) -> str:
    try:
        envelope = _Envelope(torchmark=kind, version=VERSION, record=record)
        return msgspec.json.encode(envelope).decode()
    except (TypeError, ValueError, OverflowError, UnicodeError) as error:
        raise NotSerialisableError(f"{what} cannot be kept in JSON: {error}") from error


def _decoded(kind: str, text: str | bytes, expected: type[T]) -> T:
    failure = _FILE_ERRORS.get(kind, RecordFileError)
    try:
        heading = msgspec.json.decode(text, type=_Heading)
        if heading.torchmark != kind:
            raise failure(f"this holds {heading.torchmark!r}, not {kind!r}")
        if heading.version > VERSION:
            raise failure(
                f"this {kind} has version {heading.version}, written by a newer torchmark; this "
                f"one reads up to version {VERSION}. Update torchmark to read it"
            )
        record = bytes(heading.record) if heading.version == VERSION else text
        return msgspec.json.decode(record, type=expected)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise failure(f"this is not a {kind} in JSON: {error}") from error


def _check_plain(what: str, content: Any) -> None:
    """An error unless JSON holds it as it is; anything else would come back changed."""
    try:
        returned = msgspec.json.decode(msgspec.json.encode(content))
    except (TypeError, ValueError, OverflowError) as error:
        raise NotSerialisableError(f"{what} cannot be kept in JSON: {error}") from error
    if returned != content:
        raise NotSerialisableError(
            f"{what} cannot be kept in JSON: tuples, sets, NaN and keys that are no text would "
            "change; use dicts with text keys, lists, text, numbers, booleans and None"
        )


def _valid(text: str) -> str:
    """Text without lone surrogates, which stand for bytes that were no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _record_of_measurement(measurement: Measurement) -> MeasurementRecord:
    return MeasurementRecord(
        task=measurement.task_spec,
        number_per_run=int(measurement.number_per_run),
        raw_times=[float(time) for time in measurement.raw_times],
        metadata=measurement.metadata,
        sampling=measurement.sampling,
        replicates=[_record_of_measurement(each) for each in measurement.replicates],
    )


def _measurement_of(record: MeasurementRecord) -> Measurement:
    return Measurement(
        number_per_run=record.number_per_run,
        raw_times=record.raw_times,
        task_spec=record.task,
        metadata=record.metadata,
        sampling=record.sampling,
        replicates=tuple(_measurement_of(each) for each in record.replicates),
    )


def _record_of_stats(stats: CallgrindStats) -> StatsRecord:
    return StatsRecord(
        task=stats.task_spec,
        number_per_run=stats.number_per_run,
        built_with_debug_symbols=stats.built_with_debug_symbols,
        baseline_inclusive=_record_of_counts(stats.baseline_inclusive_stats),
        baseline_exclusive=_record_of_counts(stats.baseline_exclusive_stats),
        stmt_inclusive=_record_of_counts(stats.stmt_inclusive_stats),
        stmt_exclusive=_record_of_counts(stats.stmt_exclusive_stats),
        stmt_callgrind_out=stats.stmt_callgrind_out,
    )


def _stats_of(record: StatsRecord) -> CallgrindStats:
    return CallgrindStats(
        task_spec=record.task,
        number_per_run=record.number_per_run,
        built_with_debug_symbols=record.built_with_debug_symbols,
        baseline_inclusive_stats=_counts_of(record.baseline_inclusive),
        baseline_exclusive_stats=_counts_of(record.baseline_exclusive),
        stmt_inclusive_stats=_counts_of(record.stmt_inclusive),
        stmt_exclusive_stats=_counts_of(record.stmt_exclusive),
        stmt_callgrind_out=record.stmt_callgrind_out,
    )


def _record_of_counts(counts: FunctionCounts) -> FunctionCountsRecord:
    return FunctionCountsRecord(
        inclusive=counts.inclusive,
        truncate_rows=counts.truncate_rows,
        linewidth=counts._linewidth,  # noqa: SLF001 - a field of torch's constructor, by its name
        functions=[(count, name) for count, name in counts],
    )


def _counts_of(record: FunctionCountsRecord) -> FunctionCounts:
    data = tuple(FunctionCount(*entry) for entry in record.functions)
    return FunctionCounts(data, record.inclusive, record.truncate_rows, record.linewidth)
