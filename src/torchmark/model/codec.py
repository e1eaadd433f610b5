"""Every record as JSON: one codec for files, exports, the store and the wire.

A text names what it holds and its version: `{"torchmark": "run", "version": 2, "record": …}`. What
is read is data and is checked field by field; an unknown field and a newer version are refused.
Version 1, that of torchmark 0.1, had the fields beside the heading: measurements and counts of it
are read here, runs and results by `torchmark.store.migrations`. `json_schema` publishes the form of
version 2.
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
"""Raised with every change after which older readers would misread a record."""

_Whole = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]

# Records of dataclasses have the same fields, some under other names in JSON.


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
"""Parts of records that are no Structs, so that msgspec would pass over keys they do not have."""

_HOLDERS = (*_DATACLASSES, Run, PlannedResult, Timing, MeasurementRecord, StatsRecord)
"""What holds one or is one. Nothing else is looked through: functions are most of a record."""


class _Kind(NamedTuple):
    """What a text may hold."""

    record: type[Record]
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


class _Text(msgspec.Struct):
    """What stands in a text."""

    torchmark: str
    """What the record is: a name in _KINDS."""

    version: int
    record: Any = None


class _Heading(msgspec.Struct):
    """The same in reading: the record is still text. Version 1 had its fields in its place."""

    torchmark: str
    version: int
    record: msgspec.Raw = msgspec.Raw(b"null")


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
    return _encoded("measurement", _convert(measurement, _RECORDS), what)


def decode_measurement(text: str | bytes) -> Measurement:
    return cast("Measurement", _convert(_decoded("measurement", text), _ORIGINALS))


def encode_stats(stats: CallgrindStats) -> str:
    """JSON text; counts that would come back changed are refused."""
    what = f"the counts of {stats.task_spec.title!r}"
    return _encoded("callgrind stats", _convert(stats, _RECORDS), what)


def decode_stats(text: str | bytes) -> CallgrindStats:
    return cast("CallgrindStats", _convert(_decoded("callgrind stats", text), _ORIGINALS))


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
        whole = _Text(torchmark=name, version=VERSION, record=record)
        text = msgspec.json.encode(whole, enc_hook=_as_number)
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


def _as_number(value: Any) -> float:
    """numpy's numbers as Python's; a TypeError for all else that msgspec does not know."""
    return int(value) if isinstance(value, Integral) else float(value)


def _decoded(name: str, text: str | bytes) -> Record:
    """The record in the text, checked field by field."""
    kind = _KINDS[name]
    try:
        heading = msgspec.json.decode(text, type=_Heading)
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
        fields = heading.record
        if heading.version == 1:
            fields = msgspec.Raw(msgspec.json.encode(_without_headings(msgspec.json.decode(text))))
        record = msgspec.json.decode(fields, type=kind.record)
        _refuse_unknown_keys(fields, record, "$")
    except (msgspec.DecodeError, UnicodeError) as error:
        raise kind.error(f"this is not a {name} in JSON: {error}") from error
    return record


def _refuse_unknown_keys(content: msgspec.Raw, record: Any, path: str) -> None:
    """Do for the dataclasses in a record what msgspec does for Structs."""
    if isinstance(record, tuple):
        if record and isinstance(record[0], _HOLDERS):  # a list holds one kind of thing
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
    """The fields of version 1 alone; the parts of a merged measurement had headings too."""
    if not isinstance(content, dict):
        return content
    fields = {name: content[name] for name in content if name not in {"torchmark", "version"}}
    if isinstance(fields.get("replicates"), list):
        fields["replicates"] = [_without_headings(each) for each in fields["replicates"]]
    return fields


def _storable(result: Result) -> Result:
    """The result without what JSON cannot hold: lone surrogates, and an error that is no number."""
    texts = {
        name: getattr(result, name).encode("utf-8", "backslashreplace").decode()
        for name in ("reason", "stdout", "stderr")
    }
    facts, error = result.facts, result.facts.max_error
    if error is not None and not math.isfinite(error):
        facts = msgspec.structs.replace(facts, max_error=None)
    return msgspec.structs.replace(result, facts=facts, **texts)


def _convert(value: Any, kinds: Mapping[type[Any], type[Any]]) -> Any:
    """A dataclass as its record, or back, and so for its parts; any other value as it is."""
    if isinstance(value, tuple) and value and type(value[0]) in kinds:
        return tuple(_convert(each, kinds) for each in value)
    kind = kinds.get(type(value))
    if kind is None:
        return value
    record = kind if issubclass(kind, Record) else type(value)
    return kind(
        **{name: _convert(getattr(value, name), kinds) for name in record.__struct_fields__}
    )
