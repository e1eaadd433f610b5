"""Every record as JSON: one codec for files, exports, the store and the wire.

A text names what it holds and its version: `{"torchmark": "run", "version": 2, "record": …}`. What
is read is data and is checked field by field; an unknown field and a newer version are refused.
Version 1, that of torchmark 0.1, had the fields beside the heading: measurements and counts of it
are read here, runs and results by `torchmark.store.version_1`. `json_schema` publishes the form of
version 2.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import Annotated, Any, NamedTuple, cast

import msgspec

from torchmark.errors import (
    CallgrindFileError,
    MeasurementFileError,
    NotSerialisableError,
    RecordFileError,
)
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.case import Case, ScriptedModel, TaskSpec
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.model.measurement import Measurement
from torchmark.model.result import Record, Result
from torchmark.model.run import Run
from torchmark_probe.loops.sampling import Sampling

VERSION = 2
"""Raised with every change after which older readers would misread a record."""

_Whole = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class MeasurementRecord(Record, frozen=True, kw_only=True):
    """A `Measurement`."""

    task: TaskSpec
    number_per_run: _Whole
    raw_times: list[_Seconds]
    metadata: dict[str, Any] | None = None
    sampling: Sampling | None = None
    replicates: tuple[MeasurementRecord, ...] = ()


class FunctionCountsRecord(Record, frozen=True, kw_only=True):
    """A `FunctionCounts`."""

    inclusive: bool
    functions: tuple[FunctionCount, ...]
    truncate_rows: bool = True
    linewidth: int | None = None


class StatsRecord(Record, frozen=True, kw_only=True):
    """A `CallgrindStats`."""

    task: TaskSpec
    number_per_run: _Whole
    built_with_debug_symbols: bool
    baseline_inclusive: FunctionCountsRecord
    baseline_exclusive: FunctionCountsRecord
    stmt_inclusive: FunctionCountsRecord
    stmt_exclusive: FunctionCountsRecord
    stmt_callgrind_out: str | None = None


class _Kind(NamedTuple):
    """What a text may hold."""

    record: type[Any]
    oldest: int
    """The oldest version that is read here."""

    error: type[ValueError]
    """What is raised where the text does not hold it."""


_KINDS = {
    "run": _Kind(Run, VERSION, RecordFileError),
    "result": _Kind(Result, VERSION, RecordFileError),
    "measurement": _Kind(MeasurementRecord, 1, MeasurementFileError),
    "callgrind stats": _Kind(StatsRecord, 1, CallgrindFileError),
}
"""By the name in the heading of the text."""


_DATACLASSES = (Case, ScriptedModel, TaskSpec, Sampling)
"""Parts of records that are no Structs, so that msgspec would pass over keys they do not have."""


class _Text(msgspec.Struct):
    """What stands in a text."""

    torchmark: str
    """What the record is: a name in _KINDS."""

    version: int
    record: Any = None


def encode_run(run: Run) -> str:
    """JSON text; settings or facts that would come back changed are refused."""
    results = tuple(_storable(result) for result in run.results)
    return _encoded("run", msgspec.structs.replace(run, results=results), f"run {run.id!r}")


def decode_run(text: str | bytes) -> Run:
    return cast("Run", _decoded("run", text))


def encode_result(result: Result) -> str:
    """JSON text; bytes that are no text in what a case printed are shown as escapes."""
    return _encoded("result", _storable(result), f"the result of {result.case.title!r}")


def decode_result(text: str | bytes) -> Result:
    return cast("Result", _decoded("result", text))


def encode_measurement(measurement: Measurement) -> str:
    """JSON text; metadata that would come back changed are refused."""
    what = f"the measurement of {measurement.title!r}"
    return _encoded("measurement", _record_of_measurement(measurement), what)


def decode_measurement(text: str | bytes) -> Measurement:
    return _measurement_of(_decoded("measurement", text))


def encode_stats(stats: CallgrindStats) -> str:
    """JSON text; counts that would come back changed are refused."""
    what = f"the counts of {stats.task_spec.title!r}"
    return _encoded("callgrind stats", _record_of_stats(stats), what)


def decode_stats(text: str | bytes) -> CallgrindStats:
    return _stats_of(_decoded("callgrind stats", text))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of every text that this version writes."""
    records = [kind.record for kind in _KINDS.values()]
    references, components = msgspec.json.schema_components(records, ref_template="#/$defs/{name}")
    for each in _DATACLASSES:
        components[each.__name__]["additionalProperties"] = False
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
            for name, reference in zip(_KINDS, references, strict=True)
        ],
        "$defs": components,
    }


def _encoded(name: str, record: Any, what: str) -> str:
    """The text, after a check that it gives the record back."""
    try:
        text = msgspec.json.encode(_Text(torchmark=name, version=VERSION, record=record))
        returned = _decoded(name, text)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotSerialisableError(f"{what} cannot be kept in JSON: {error}") from error
    changed = [
        field
        for field in record.__struct_fields__
        if getattr(record, field) != getattr(returned, field)
    ]
    if changed:
        raise NotSerialisableError(
            f"{what} cannot be kept in JSON: its {' and '.join(changed)} would change. Use dicts "
            "with text keys, lists, text, finite numbers, booleans and None"
        )
    return text.decode()


def _decoded(name: str, text: str | bytes) -> Any:
    """The record in the text, checked field by field."""
    kind = _KINDS[name]
    try:
        content = msgspec.json.decode(text)
        heading = msgspec.convert(content, _Text)
        if heading.torchmark != name:
            raise kind.error(f"this holds {heading.torchmark!r}, not {name!r}")
        if heading.version > VERSION:
            raise kind.error(
                f"this {name} has version {heading.version}, written by a newer torchmark; this "
                f"one reads up to version {VERSION}. Update torchmark to read it"
            )
        if heading.version < kind.oldest:
            raise kind.error(
                f"this {name} has version {heading.version}; this torchmark reads versions from "
                f"{kind.oldest} to {VERSION}"
            )
        fields = _without_headings(content) if heading.version == 1 else heading.record
        record = msgspec.convert(fields, kind.record, str_keys=True)
        _refuse_unknown_keys(fields, record, "$")
    except (msgspec.DecodeError, UnicodeError) as error:
        raise kind.error(f"this is not a {name} in JSON: {error}") from error
    return record


def _refuse_unknown_keys(content: Any, record: Any, path: str) -> None:
    """Do for the dataclasses in a record what msgspec does for Structs."""
    if isinstance(content, list):
        for index, (value, part) in enumerate(zip(content, record, strict=True)):
            if not isinstance(value, dict):
                return  # numbers or pairs: a list holds one kind of thing
            _refuse_unknown_keys(value, part, f"{path}[{index}]")
    elif isinstance(record, _DATACLASSES):
        known = {field.name for field in dataclasses.fields(record)}
        for name in content.keys() - known:
            raise msgspec.ValidationError(f"Object contains unknown field `{name}` - at `{path}`")
    if isinstance(record, (*_DATACLASSES, msgspec.Struct)):
        for name, value in content.items():
            if isinstance(value, dict | list):
                _refuse_unknown_keys(value, getattr(record, name), f"{path}.{name}")


def _without_headings(content: Any) -> Any:
    """The fields of version 1 alone; the parts of a merged measurement had headings too."""
    if not isinstance(content, dict):
        return content
    fields = {name: content[name] for name in content if name not in {"torchmark", "version"}}
    if isinstance(fields.get("replicates"), list):
        fields["replicates"] = [_without_headings(each) for each in fields["replicates"]]
    return fields


def _storable(result: Result) -> Result:
    """The result without what JSON cannot hold: lone surrogates, and an error that is no number."""
    texts = {name: _escaped(getattr(result, name)) for name in ("reason", "stdout", "stderr")}
    facts, error = result.facts, result.facts.max_error
    if error is not None and not math.isfinite(error):
        facts = msgspec.structs.replace(facts, max_error=None)
    return msgspec.structs.replace(result, facts=facts, **texts)


def _escaped(text: str) -> str:
    """Text without lone surrogates, which stand for bytes that were no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _record_of_measurement(measurement: Measurement) -> MeasurementRecord:
    return MeasurementRecord(
        task=measurement.task_spec,
        number_per_run=int(measurement.number_per_run),
        raw_times=[float(time) for time in measurement.raw_times],
        metadata=measurement.metadata,
        sampling=measurement.sampling,
        replicates=tuple(map(_record_of_measurement, measurement.replicates)),
    )


def _measurement_of(record: MeasurementRecord) -> Measurement:
    return Measurement(
        number_per_run=record.number_per_run,
        raw_times=record.raw_times,
        task_spec=record.task,
        metadata=record.metadata,
        sampling=record.sampling,
        replicates=tuple(map(_measurement_of, record.replicates)),
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
        functions=tuple(counts),
    )


def _counts_of(record: FunctionCountsRecord) -> FunctionCounts:
    return FunctionCounts(
        record.functions, record.inclusive, record.truncate_rows, record.linewidth
    )
