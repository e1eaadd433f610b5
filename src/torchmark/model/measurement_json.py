"""A measurement as JSON, one versioned schema, the same in files and on the wire.

What is read is data and is checked field by field: a wrong type, a NaN or an unknown version is
an error that names the place.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import msgspec

from torchmark.errors import InvalidMeasurementError, MeasurementFileError, NotSerialisableError
from torchmark.model.measurement import Measurement
from torchmark.model.task_spec import TaskSpec
from torchmark_probe.loops.sampling import Sampling

VERSION = 1


_Seconds = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class _SamplingRecord(msgspec.Struct, forbid_unknown_fields=True):
    number: Annotated[int, msgspec.Meta(ge=1)]
    wall: list[_Seconds]
    cpu: list[_Seconds]
    pace: list[_Seconds]
    quiet_pace: _Seconds
    clock_resolution: _Seconds


class _TaskRecord(msgspec.Struct, forbid_unknown_fields=True):
    stmt: str
    setup: str
    global_setup: str
    label: str | None
    sub_label: str | None
    description: str | None
    env: str | None
    num_threads: Annotated[int, msgspec.Meta(ge=1)]


class _MeasurementRecord(msgspec.Struct, forbid_unknown_fields=True):
    torchmark: str
    """What the text is: "measurement"."""

    version: int
    task: _TaskRecord
    number_per_run: int
    raw_times: list[float]
    metadata: dict[str, Any] | None
    sampling: _SamplingRecord | None
    replicates: list[_MeasurementRecord]


def encode(measurement: Measurement) -> str:
    """JSON text; a payload that would come back changed is refused."""
    record = _record_of(measurement)
    try:
        text = msgspec.json.encode(record)
    except (TypeError, ValueError, OverflowError) as error:
        raise _cannot_hold(measurement, str(error)) from error
    returned = msgspec.json.decode(text, type=_MeasurementRecord)
    if _payloads(returned) != _payloads(record):
        raise _cannot_hold(measurement, "tuples, sets, NaN and keys that are no text would change")
    return text.decode()


def decode(text: str | bytes) -> Measurement:
    try:
        record = msgspec.json.decode(text, type=_MeasurementRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MeasurementFileError(f"this is not a measurement in JSON: {error}") from error
    return _measurement_of(record)


def _cannot_hold(measurement: Measurement, reason: str) -> NotSerialisableError:
    return NotSerialisableError(
        f"the measurement of {measurement.title!r} cannot be kept in JSON: {reason}; "
        "its metadata may have dicts with text keys, lists, text, numbers, booleans and None"
    )


def _payloads(record: _MeasurementRecord) -> list[Any]:
    return [record.metadata, *(_payloads(replicate) for replicate in record.replicates)]


def _record_of(measurement: Measurement) -> _MeasurementRecord:
    sampling = measurement.sampling
    return _MeasurementRecord(
        torchmark="measurement",
        version=VERSION,
        task=_TaskRecord(**asdict(measurement.task_spec)),
        number_per_run=int(measurement.number_per_run),
        raw_times=[float(time) for time in measurement.raw_times],
        metadata=measurement.metadata,
        sampling=msgspec.convert(sampling._asdict(), _SamplingRecord) if sampling else None,
        replicates=[_record_of(replicate) for replicate in measurement.replicates],
    )


def _measurement_of(record: _MeasurementRecord) -> Measurement:
    if record.torchmark != "measurement" or record.version != VERSION:
        raise MeasurementFileError(
            f"this is {record.torchmark!r} version {record.version}; this torchmark reads "
            f"'measurement' version {VERSION}"
        )
    try:
        return Measurement(
            number_per_run=record.number_per_run,
            raw_times=record.raw_times,
            task_spec=TaskSpec(**msgspec.structs.asdict(record.task)),
            metadata=record.metadata,
            sampling=_sampling_of(record.sampling) if record.sampling else None,
            replicates=tuple(_measurement_of(replicate) for replicate in record.replicates),
        )
    except InvalidMeasurementError as error:
        raise MeasurementFileError(f"this is not a measurement: {error}") from error


def _sampling_of(record: _SamplingRecord) -> Sampling:
    if not len(record.wall) == len(record.cpu) == len(record.pace) > 0:
        raise MeasurementFileError(
            f"the sampling has {len(record.wall)} wall times, {len(record.cpu)} CPU times and "
            f"{len(record.pace)} paces; there must be one of each per sample"
        )
    return Sampling(
        number=record.number,
        wall=tuple(record.wall),
        cpu=tuple(record.cpu),
        pace=tuple(record.pace),
        quiet_pace=record.quiet_pace,
        clock_resolution=record.clock_resolution,
    )
