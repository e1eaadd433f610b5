"""Runs and results of cases as JSON, one versioned schema, the same in files and in the store.

What is read is data and is checked field by field, as in `measurement_json`. The measurement and
the counts of a result stand in it as they do in files of their own. A case that is both timed and
counted stands in the plan of a run twice and in its JSON once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from torchmark.errors import (
    CallgrindFileError,
    MeasurementFileError,
    NotSerialisableError,
    RecordFileError,
)
from torchmark.model import callgrind_stats_json, measurement_json
from torchmark.model.case_json import CaseRecord, case_of, record_of
from torchmark.model.run_record import CaseResult, Kind, Outcome, Run, RunState
from torchmark.model.sweep_record import SweepRow  # noqa: TC001 - msgspec reads it
from torchmark.model.units import ordered_unique

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

VERSION = 1

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
_NOTHING = msgspec.Raw(b"null")


class _RunRecord(msgspec.Struct, forbid_unknown_fields=True):
    torchmark: str
    """What the text is: "run"."""

    version: int
    id: str
    started: str
    state: RunState
    tags: tuple[str, ...]
    cases: list[CaseRecord]
    """Every case of the plan once."""

    plan: list[tuple[Annotated[int, msgspec.Meta(ge=0)], Kind]]
    """What is to be measured: the index of a case, and how."""

    settings: dict[str, Any]
    environment: dict[str, Any]


class _ResultRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    torchmark: str
    """What the text is: "case result"."""

    version: int
    case: CaseRecord
    kind: Kind
    outcome: Outcome
    finished: str
    seconds: _Seconds
    reason: str
    stdout: str
    stderr: str
    measurement: msgspec.Raw
    counts: msgspec.Raw
    compile_seconds: _Seconds | None
    sweep: SweepRow | None = None
    """Left out where it is None: an older torchmark reads all results but those of sweeps."""


def encode_run(run: Run) -> str:
    """JSON text; settings or an environment that would come back changed are refused."""
    places = {case: place for place, case in enumerate(ordered_unique(c for c, _ in run.plan))}
    record = _RunRecord(
        torchmark="run",
        version=VERSION,
        id=run.id,
        started=run.started,
        state=run.state,
        tags=run.tags,
        cases=[record_of(case) for case in places],
        plan=[(places[case], kind) for case, kind in run.plan],
        settings=_plain(run, "settings", run.settings),
        environment=_plain(run, "environment", run.environment),
    )
    try:
        return msgspec.json.encode(record).decode()
    except (TypeError, ValueError) as error:
        raise NotSerialisableError(
            f"run {run.id!r} cannot be kept in JSON: {error}; its fields are valid text"
        ) from error


def decode_run(text: str | bytes) -> Run:
    try:
        record = msgspec.json.decode(text, type=_RunRecord)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RecordFileError(f"this is not a run in JSON: {error}") from error
    _check_heading(record, "run")
    cases = [case_of(case) for case in record.cases]
    if any(index >= len(cases) for index, _ in record.plan):
        raise RecordFileError(f"the plan of run {record.id!r} names a case that is not in it")
    return Run(
        id=record.id,
        started=record.started,
        state=record.state,
        plan=tuple((cases[index], kind) for index, kind in record.plan),
        settings=record.settings,
        environment=record.environment,
        tags=record.tags,
    )


def encode_result(result: CaseResult) -> str:
    """JSON text; bytes that are no text in what a case printed are shown as escapes."""
    measurement, counts = result.measurement, result.counts
    record = _ResultRecord(
        torchmark="case result",
        version=VERSION,
        case=record_of(result.case),
        kind=result.kind,
        outcome=result.outcome,
        finished=result.finished,
        seconds=result.seconds,
        reason=_valid(result.reason),
        stdout=_valid(result.stdout),
        stderr=_valid(result.stderr),
        measurement=_raw(measurement_json.encode(measurement)) if measurement else _NOTHING,
        counts=_raw(callgrind_stats_json.encode(counts)) if counts else _NOTHING,
        compile_seconds=result.compile_seconds,
        sweep=result.sweep,
    )
    try:
        return msgspec.json.encode(record).decode()
    except (TypeError, ValueError) as error:
        raise NotSerialisableError(
            f"the result of {result.case.title!r} cannot be kept in JSON: {error}; "
            "its fields are valid text"
        ) from error


def decode_result(text: str | bytes) -> CaseResult:
    try:
        record = msgspec.json.decode(text, type=_ResultRecord)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RecordFileError(f"this is not the result of a case in JSON: {error}") from error
    _check_heading(record, "case result")
    case = case_of(record.case)
    try:
        return CaseResult(
            case=case,
            kind=record.kind,
            outcome=record.outcome,
            finished=record.finished,
            seconds=record.seconds,
            reason=record.reason,
            stdout=record.stdout,
            stderr=record.stderr,
            measurement=_given(record.measurement, measurement_json.decode),
            counts=_given(record.counts, callgrind_stats_json.decode),
            compile_seconds=record.compile_seconds,
            sweep=record.sweep,
        )
    except (MeasurementFileError, CallgrindFileError) as error:
        raise RecordFileError(f"in the result of case {case.title!r}: {error}") from error


def _check_heading(record: _RunRecord | _ResultRecord, expected: str) -> None:
    """An error unless the text says that it is what the reader wants, in a version it knows."""
    if record.torchmark != expected or record.version != VERSION:
        raise RecordFileError(
            f"this is {record.torchmark!r} version {record.version}; this torchmark reads "
            f"{expected!r} version {VERSION}"
        )


def _plain(run: Run, name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """A dict of what JSON holds as it is; anything else would come back changed."""
    plain = dict(content)
    try:
        returned = msgspec.json.decode(msgspec.json.encode(plain))
    except (TypeError, ValueError, OverflowError) as error:
        raise _not_plain(run, name, str(error)) from error
    if returned != plain:
        raise _not_plain(run, name, "tuples, sets, NaN and keys that are no text would change")
    return plain


def _not_plain(run: Run, name: str, reason: str) -> NotSerialisableError:
    return NotSerialisableError(
        f"the {name} of run {run.id!r} cannot be kept in JSON: {reason}; "
        "use dicts with text keys, lists, text, numbers, booleans and None"
    )


def _valid(text: str) -> str:
    """Text without lone surrogates, which stand for bytes that were no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _given(raw: msgspec.Raw, decode: Callable[[bytes], T]) -> T | None:
    content = bytes(raw)
    return None if content == b"null" else decode(content)
