"""Encode records as JSON and decode them: one codec for files, exports, the store and the wire.

A text names its kind and version: `{"torchmark": "run", "version": 2, "record": …}`. Decoding
checks every field; an unknown field or a newer version is an error. Version 1 (torchmark 0.1) had
the fields on the same level as the heading: measurements and counts of version 1 are decoded
here, runs and results by `torchmark.store.migrations`. `json_schema` describes version 2.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from numbers import Integral
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
from torchmark.model.result import PlannedResult, Record, Result, Timing
from torchmark.model.run import Run
from torchmark_probe.loops.sampling import Sampling

VERSION = 2
"""Increased with every change that makes older versions misread a record."""

_Whole = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]

# The records of dataclasses have the same fields; some have other names in JSON.


class MeasurementRecord(Record, frozen=True, kw_only=True, rename={"task_spec": "task"}):
    """A `Measurement`."""

    task_spec: TaskSpec
    number_per_run: _Whole
    raw_times: list[_Seconds]
    metadata: dict[str, Any] | None = None
    sampling: Sampling | None = None
    replicates: tuple[MeasurementRecord, ...] = ()


class FunctionCountsRecord(
    Record, frozen=True, kw_only=True, rename={"_data": "functions", "_linewidth": "linewidth"}
):
    """A `FunctionCounts`."""

    inclusive: bool
    _data: tuple[FunctionCount, ...]
    truncate_rows: bool = True
    _linewidth: int | None = None


class StatsRecord(
    Record,
    frozen=True,
    kw_only=True,
    rename=lambda name: "task" if name == "task_spec" else name.removesuffix("_stats"),
):
    """A `CallgrindStats`."""

    task_spec: TaskSpec
    number_per_run: _Whole
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCountsRecord
    baseline_exclusive_stats: FunctionCountsRecord
    stmt_inclusive_stats: FunctionCountsRecord
    stmt_exclusive_stats: FunctionCountsRecord
    stmt_callgrind_out: str | None = None


_RECORDS: dict[type[Any], type[Record]] = {
    Measurement: MeasurementRecord,
    FunctionCounts: FunctionCountsRecord,
    CallgrindStats: StatsRecord,
}
_ORIGINALS = {record: original for original, record in _RECORDS.items()}

_DATACLASSES = (Case, ScriptedModel, TaskSpec, Sampling)
"""Parts of records that are not Structs: msgspec would ignore unknown keys in them."""

_HOLDERS = (*_DATACLASSES, Run, PlannedResult, Timing, MeasurementRecord, StatsRecord)
"""Types that are or contain one. Other parts are not searched, since functions are most of a
record."""


class _Kind(NamedTuple):
    """A kind of text."""

    record: type[Record]
    oldest: int
    """The oldest version that this module reads."""

    error: type[ValueError]
    """Raised if a text is not of this kind."""


_KINDS = {
    "run": _Kind(Run, VERSION, RecordFileError),
    "result": _Kind(Result, VERSION, RecordFileError),
    "measurement": _Kind(MeasurementRecord, 1, MeasurementFileError),
    "callgrind stats": _Kind(StatsRecord, 1, CallgrindFileError),
}
"""The kinds by the name in the heading of the text."""


class _Text(msgspec.Struct):
    """A text to encode."""

    torchmark: str
    """The kind of the record: a name in _KINDS."""

    version: int
    record: Any = None


class _Heading(msgspec.Struct):
    """A text whose record is not decoded yet. Version 1 had its fields instead of `record`."""

    torchmark: str
    version: int
    record: msgspec.Raw = msgspec.Raw(b"null")


def encode_run(run: Run) -> str:
    """JSON text; an error if settings or facts cannot be decoded without loss."""
    results = tuple(_storable(result) for result in run.results)
    return _encoded("run", msgspec.structs.replace(run, results=results), f"run {run.id!r}")


def decode_run(text: str | bytes) -> Run:
    return cast("Run", _decoded("run", text))


def encode_result(result: Result) -> str:
    """JSON text; undecodable bytes in the output of the case become escapes."""
    return _encoded("result", _storable(result), f"the result of {result.case.title!r}")


def decode_result(text: str | bytes) -> Result:
    return cast("Result", _decoded("result", text))


def encode_measurement(measurement: Measurement) -> str:
    """JSON text; an error if the metadata cannot be decoded without loss."""
    what = f"the measurement of {measurement.title!r}"
    return _encoded("measurement", _convert(measurement, _RECORDS), what)


def decode_measurement(text: str | bytes) -> Measurement:
    return cast("Measurement", _convert(_decoded("measurement", text), _ORIGINALS))


def encode_stats(stats: CallgrindStats) -> str:
    """JSON text; an error if the counts cannot be decoded without loss."""
    what = f"the counts of {stats.task_spec.title!r}"
    return _encoded("callgrind stats", _convert(stats, _RECORDS), what)


def decode_stats(text: str | bytes) -> CallgrindStats:
    return cast("CallgrindStats", _convert(_decoded("callgrind stats", text), _ORIGINALS))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of all texts that this version writes."""
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
    """The text; an error if decoding it does not give an equal record."""
    try:
        whole = _Text(torchmark=name, version=VERSION, record=record)
        text = msgspec.json.encode(whole, enc_hook=_as_number)
        returned = _decoded(name, text)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotSerialisableError(f"{what} cannot be written as JSON: {error}") from error
    changed = [
        field
        for field in record.__struct_fields__
        if getattr(record, field) != getattr(returned, field)
    ]
    if changed:
        raise NotSerialisableError(
            f"{what} cannot be written as JSON without loss: {' and '.join(changed)} would "
            "change. Use dicts with text keys, lists, text, finite numbers, booleans and None"
        )
    return text.decode()


def _as_number(value: Any) -> float:
    """Convert a number of numpy; a TypeError for any other type that msgspec does not know."""
    return int(value) if isinstance(value, Integral) else float(value)


def _decoded(name: str, text: str | bytes) -> Record:
    """Decode the record and check every field."""
    kind = _KINDS[name]
    try:
        heading = msgspec.json.decode(text, type=_Heading)
        if heading.torchmark != name:
            raise kind.error(f"expected {name!r}, got {heading.torchmark!r}")
        if heading.version > VERSION:
            raise kind.error(
                f"this {name} has version {heading.version} of a newer torchmark; this one reads "
                f"up to version {VERSION}. Update torchmark to read it"
            )
        if heading.version < kind.oldest:
            raise kind.error(
                f"this {name} has version {heading.version}; this torchmark reads versions from "
                f"{kind.oldest} to {VERSION}"
            )
        fields = heading.record
        if heading.version == 1:
            fields = msgspec.Raw(msgspec.json.encode(_without_headings(msgspec.json.decode(text))))
        record = msgspec.json.decode(fields, type=kind.record)
        _refuse_unknown_keys(fields, record, "$")
    except (msgspec.DecodeError, UnicodeError) as error:
        raise kind.error(f"this is not a {name} in JSON: {error}") from error
    return record


def _refuse_unknown_keys(content: msgspec.Raw, record: Any, path: str) -> None:
    """Reject unknown keys in the dataclasses of a record, as msgspec does for Structs."""
    if isinstance(record, tuple):
        if record and isinstance(record[0], _HOLDERS):  # all items have one type
            parts = msgspec.json.decode(content, type=list[msgspec.Raw])
            for index, (value, part) in enumerate(zip(parts, record, strict=True)):
                _refuse_unknown_keys(value, part, f"{path}[{index}]")
        return
    if not isinstance(record, _HOLDERS):
        return
    if isinstance(record, msgspec.Struct):
        names, attributes = record.__struct_encode_fields__, record.__struct_fields__
        fields = dict(zip(names, attributes, strict=True))
    else:
        fields = {field.name: field.name for field in dataclasses.fields(record)}
    for name, value in msgspec.json.decode(content, type=dict[str, msgspec.Raw]).items():
        if name in fields:
            _refuse_unknown_keys(value, getattr(record, fields[name]), f"{path}.{name}")
        elif isinstance(record, _DATACLASSES):
            raise msgspec.ValidationError(f"Object contains unknown field `{name}` - at `{path}`")


def _without_headings(content: Any) -> Any:
    """The fields of version 1; the replicates of a merged measurement have headings too."""
    if not isinstance(content, dict):
        return content
    fields = {name: content[name] for name in content if name not in {"torchmark", "version"}}
    if isinstance(fields.get("replicates"), list):
        fields["replicates"] = [_without_headings(each) for each in fields["replicates"]]
    return fields


def _storable(result: Result) -> Result:
    """The result without what JSON cannot encode: lone surrogates and a non-finite error."""
    texts = {
        name: getattr(result, name).encode("utf-8", "backslashreplace").decode()
        for name in ("reason", "stdout", "stderr")
    }
    facts, error = result.facts, result.facts.max_error
    if error is not None and not math.isfinite(error):
        facts = msgspec.structs.replace(facts, max_error=None)
    return msgspec.structs.replace(result, facts=facts, **texts)


def _convert(value: Any, kinds: Mapping[type[Any], type[Any]]) -> Any:
    """Convert a dataclass to its record or back, with its parts; return other values as is."""
    if isinstance(value, tuple) and value and type(value[0]) in kinds:
        return tuple(_convert(each, kinds) for each in value)
    kind = kinds.get(type(value))
    if kind is None:
        return value
    record = kind if issubclass(kind, Record) else type(value)
    return kind(
        **{name: _convert(getattr(value, name), kinds) for name in record.__struct_fields__}
    )
