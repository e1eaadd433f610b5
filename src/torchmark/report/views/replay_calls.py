"""The calls of a replay in tables and text: columns, data, and short texts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torchmark.analyse.estimates import MeasuredTime
from torchmark.analyse.replay import CallRow, OperatorRow, Outcome, ReplayAnalysis
from torchmark.model.result import Facts, Status
from torchmark.model.run_settings import Backend, TracedCall
from torchmark.model.units import collect, first_line
from torchmark.report.figures import (
    number_text,
    reach,
    seconds_text,
    short_seconds_text,
    speedup_text,
)
from torchmark.report.names import name_some
from torchmark.report.view import Cell, Field, Kind, Table, Value, data_table, field
from torchmark.report.views.common import NOT_MEASURED, measured_cell, reason_cell, time_values

SHARE = (
    "Share of the time of all measured calls, with the first backend; without times, share of the "
    "instructions"
)
_FLOPS = "Floating-point operations by torch's formulas; empty if torch has no formula"
_BYTES = "The least memory traffic: each input is read once, each output is written once"
_MEMORY = (
    "Peak memory that torch allocates during the call: outputs and workspace; none for views and "
    "in-place calls"
)
_WHAT = (
    "work: the bytes or FLOPs need at least half of the time at this machine's best speed; "
    "overhead: they need less, and the call is short (dispatch, checks, allocation); slow: they "
    "need less, and the call is long"
)
NATURES = (
    "work: at the best speed of this machine, the bytes or FLOPs need at least half of the time. "
    "overhead: they need less, and the call is short. slow: they need less, and the call is long."
)
"""The words of the column `what`, for the text, which has no hints."""

_SOURCE = "The line that makes the call; for a backward call, the line of its forward call"
_EXPLAINED = "Part of the time that bytes or FLOPs need at this machine's best speed"
_TIME = "One call: the median with its 95 % interval"
_OTHER_TIME = "One call: the median with the speed-up over the first backend"

COLUMNS = (
    "call", "op", "arguments", "phases", "modules", "calls", "backend", "status", "seconds",
    "interval_low", "interval_high", "samples", "total_seconds", "share", "flops", "bytes",
    "explained", "nature", "speedup", "instructions", "prepare_seconds", "max_error", "warnings",
    "remarks", "reason", "memory_bytes", "functions", "sources", "recorded_on",
)  # fmt: skip
"""Columns of the data. The order is stable; new columns are added at the end."""


def call_fields(analysis: ReplayAnalysis) -> list[Field[CallRow]]:
    """The columns for calls, below an operator and in the table of all calls.

    With several backends, text shows their times instead of FLOPs, bytes and memory.
    """
    outcomes = [outcome for row in analysis.calls for outcome in row.outcomes]
    has_times = any(outcome.time is not None for outcome in outcomes)
    has_counts = any(outcome.instructions is not None for outcome in outcomes)
    backends = analysis.settings.backends
    has_several = len(backends) > 1

    fields: list[Field[CallRow]] = [
        field("calls", lambda row: row.call.count, Kind.INTEGER, is_wide_only=has_several)
    ]
    for backend in backends:
        name = backend.value if has_several else "each"
        hint = _TIME if backend is backends[0] else _OTHER_TIME
        is_wide_only = has_counts and not has_times
        fields.append(
            field(
                name,
                partial(_time_cell, analysis, backend),
                Kind.SECONDS,
                hint,
                is_wide_only=is_wide_only,
            )
        )
    if has_counts:
        hint = "Instructions of one call, with eager"
        fields.append(
            field("instructions", _count, Kind.INSTRUCTIONS, hint, is_wide_only=has_times)
        )
    explained: Field[CallRow] = field(
        "explained", lambda row: row.explained, Kind.SHARE, _EXPLAINED, is_wide_only=True
    )
    memory: Field[CallRow] = field(
        "memory", lambda row: row.memory, Kind.BYTES, _MEMORY, is_wide_only=has_several
    )
    source: Field[CallRow] = field("source", _source_cell, hint=_SOURCE, is_wide_only=True)
    return [
        *([source] if any(row.call.sources for row in analysis.calls) else []),
        *fields,
        *work_fields(is_wide_only=has_several),
        memory,
        what_field(is_wide_only=has_several),
        explained,
    ]


def work_fields(*, is_wide_only: bool) -> list[Field[CallRow | OperatorRow]]:
    """The share of the time, FLOPs and bytes; text may omit all but the share."""
    return [
        field("share", lambda row: row.share, Kind.SHARE, SHARE),
        field("FLOPs", lambda row: row.flops, Kind.FLOPS, _FLOPS, is_wide_only=is_wide_only),
        field("bytes", lambda row: row.bytes, Kind.BYTES, _BYTES, is_wide_only=is_wide_only),
    ]


def what_field(*, is_wide_only: bool) -> Field[CallRow | OperatorRow]:
    """What the time is spent on."""
    return field(
        "what",
        lambda row: row.nature.value if row.nature else None,
        hint=_WHAT,
        is_wide_only=is_wide_only,
    )


def _count(row: CallRow) -> Value:
    return next((each.instructions for each in row.outcomes if each.instructions is not None), None)


def _time_cell(analysis: ReplayAnalysis, backend: Backend, row: CallRow) -> Cell:
    """The time of one call, or its status if there is no time."""
    outcome = row.by_backend(backend)
    if outcome is None:
        return NOT_MEASURED
    if outcome.time is None:
        is_done = outcome.status is Status.DONE
        return Cell() if is_done else reason_cell(outcome.status, outcome.reason, "not-replayed")
    text = short_time_text(outcome.time)
    speedup = analysis.speedup([row], backend)
    if backend is not analysis.backend and speedup is not None:
        text = f"{short_seconds_text(outcome.time.median)} {speedup_text(speedup)}"
    return measured_cell(outcome.time, text, *_hints(outcome.facts))


def _hints(facts: Facts) -> Iterator[str]:
    """Facts about the call, for the hint of its time."""
    if facts.prepare_seconds is not None:
        yield f"prepared in {seconds_text(facts.prepare_seconds)}"
    if facts.max_error is not None:
        yield f"largest error {facts.max_error:.3g}"
    yield from facts.remarks


def call_text(row: CallRow) -> str:
    """The operator with its arguments in short form."""
    return f"{operator_text(row.call.op)}({row.call.signature})"


def _source_cell(row: CallRow) -> Cell:
    sources = row.call.sources
    names = [source.rpartition("/")[2] for source in sources]
    return Cell(name_some(names, 1), hint=" ".join(sources)) if sources else Cell()


def places_text(row: CallRow) -> str:
    """The places that make the call, in one line."""
    call = row.call
    return "; ".join([*call.sources[:3], *call.functions[:3], *call.phases, *call.modules[:3]])


def place_lines(call: TracedCall, most: int = 3) -> tuple[str, ...]:
    """The lines of the program that make the call, the most frequent first.

    Each line has the function that is called there, the phase and the module.
    """
    by_line = collect(
        (" ".join(filter(None, (place.source, place.function))), place) for place in call.places
    )
    in_order = sorted(by_line.items(), key=lambda item: -sum(each.count for each in item[1]))
    lines = []
    for line, places in in_order[:most]:
        phases = dict.fromkeys(place.phase for place in places if place.phase != "unknown")
        modules = [*dict.fromkeys(place.module for place in places if place.module)]
        inside = [*phases, *([name_some(modules, 1)] if modules else [])]
        lines.append(f"{line} ({', '.join(inside)})" if line and inside else line)
    left = len(by_line) - most
    return (*filter(None, lines), *([f"and {number_text(left, 'more line')}"] if left > 0 else []))


def operator_text(op: str) -> str:
    """
    >>> operator_text("aten.add.Tensor"), operator_text("aten.mm.default"), operator_text("my.op.x")
    ('add.Tensor', 'mm', 'my.op.x')
    """
    return op.removeprefix("aten.").removesuffix(".default")


def short_time_text(time: MeasuredTime) -> str:
    """A time with three digits and its interval, short enough for several in a line."""
    return f"{short_seconds_text(time.median)} ±{_short_reach(time)}"


def _short_reach(time: MeasuredTime) -> str:
    text = reach(time.median, time.interval)
    share = text.removesuffix(" %")
    return text if share == text else f"{float(share):.0f} %" if float(share) >= 1 else "<1 %"


def data_of(analysis: ReplayAnalysis) -> Table:
    """The data, in the order of the trace; whole pass and real step are rows without a number."""
    lines = []
    for row in sorted(analysis.calls, key=lambda row: row.call.number):
        for backend in analysis.settings.backends:
            outcome = row.by_backend(backend)
            line = _facts(row) | {"backend": backend.value, "status": "not measured"}
            lines.append(line if outcome is None else line | _figures(analysis, row, outcome))
    real = analysis.real_step
    wholes = {"(whole pass)": analysis.whole_pass, "(real step)": real.time if real else None}
    for name, time in wholes.items():
        if time is not None:
            facts: dict[str, Value] = {"op": name, "calls": 1, "status": "done"}
            facts["backend"] = analysis.backend.value
            lines.append(facts | time_values(time, "seconds", "interval"))
    return data_table(COLUMNS, lines)


def _facts(row: CallRow) -> dict[str, Value]:
    call = row.call
    return {
        "call": call.number,
        "op": call.op,
        "arguments": call.signature,
        "phases": " ".join(call.phases),
        "modules": " ".join(call.modules),
        "calls": call.count,
        "flops": row.flops,
        "bytes": row.bytes,
        "memory_bytes": row.memory,
        "functions": " ".join(call.functions),
        "sources": " ".join(call.sources),
        "recorded_on": " ".join(row.recorded_on),
    }


def _figures(analysis: ReplayAnalysis, row: CallRow, outcome: Outcome) -> dict[str, Value]:
    figures: dict[str, Value] = {
        "status": outcome.status.value,
        "instructions": outcome.instructions,
        "prepare_seconds": outcome.facts.prepare_seconds,
        "max_error": outcome.facts.max_error,
        "remarks": "; ".join(outcome.facts.remarks),
        "reason": first_line(outcome.reason),
    }
    if outcome.time is not None:
        total = outcome.time.median * row.call.count
        figures |= time_values(outcome.time, "seconds", "interval") | {"total_seconds": total}
    if outcome.backend is analysis.backend:
        nature = row.nature.value if row.nature else None
        return figures | {"share": row.share, "explained": row.explained, "nature": nature}
    return figures | {"speedup": analysis.speedup([row], outcome.backend)}
