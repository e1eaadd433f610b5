"""Instruction counts as JSON, one versioned schema, the same in files and on the wire.

What is read is data and is checked field by field, as in `measurement_json`.
"""

from __future__ import annotations

import msgspec

from torchmark.errors import CallgrindFileError, NotSerialisableError
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.model.task_spec import TaskSpec

VERSION = 1


class _CountsRecord(msgspec.Struct, forbid_unknown_fields=True):
    inclusive: bool
    truncate_rows: bool
    linewidth: int | None
    functions: list[tuple[int, str]]


class _StatsRecord(msgspec.Struct, forbid_unknown_fields=True):
    torchmark: str
    """What the text is: "callgrind stats"."""

    version: int
    task: TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive: _CountsRecord
    baseline_exclusive: _CountsRecord
    stmt_inclusive: _CountsRecord
    stmt_exclusive: _CountsRecord
    stmt_callgrind_out: str | None


def encode(stats: CallgrindStats) -> str:
    """JSON text; counts that would come back changed are refused."""
    try:
        text = msgspec.json.encode(_record_of(stats)).decode()
        returned = decode(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise _cannot_hold(stats, str(error)) from error
    if returned != stats:
        raise _cannot_hold(stats, "a count that is no integer would change")
    return text


def decode(text: str | bytes) -> CallgrindStats:
    try:
        record = msgspec.json.decode(text, type=_StatsRecord)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise CallgrindFileError(f"these are no instruction counts in JSON: {error}") from error
    if record.torchmark != "callgrind stats" or record.version != VERSION:
        raise CallgrindFileError(
            f"this is {record.torchmark!r} version {record.version}; this torchmark reads "
            f"'callgrind stats' version {VERSION}"
        )
    if record.number_per_run < 1:
        raise CallgrindFileError(
            f"these are no instruction counts: number_per_run is {record.number_per_run}"
        )
    return _stats_of(record)


def _cannot_hold(stats: CallgrindStats, reason: str) -> NotSerialisableError:
    return NotSerialisableError(
        f"the counts of {stats.task_spec.title!r} cannot be kept in JSON: {reason}; "
        "counts are integers and names are valid text"
    )


def _record_of(stats: CallgrindStats) -> _StatsRecord:
    return _StatsRecord(
        torchmark="callgrind stats",
        version=VERSION,
        task=stats.task_spec,
        number_per_run=stats.number_per_run,
        built_with_debug_symbols=stats.built_with_debug_symbols,
        baseline_inclusive=_counts_record_of(stats.baseline_inclusive_stats),
        baseline_exclusive=_counts_record_of(stats.baseline_exclusive_stats),
        stmt_inclusive=_counts_record_of(stats.stmt_inclusive_stats),
        stmt_exclusive=_counts_record_of(stats.stmt_exclusive_stats),
        stmt_callgrind_out=stats.stmt_callgrind_out,
    )


def _counts_record_of(counts: FunctionCounts) -> _CountsRecord:
    return _CountsRecord(
        inclusive=counts.inclusive,
        truncate_rows=counts.truncate_rows,
        linewidth=counts._linewidth,  # noqa: SLF001 - a field of torch's constructor, by its name
        functions=[(count, name) for count, name in counts],
    )


def _stats_of(record: _StatsRecord) -> CallgrindStats:
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


def _counts_of(record: _CountsRecord) -> FunctionCounts:
    data = tuple(FunctionCount(count, name) for count, name in record.functions)
    return FunctionCounts(data, record.inclusive, record.truncate_rows, record.linewidth)
