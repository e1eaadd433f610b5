"""Analyse a replay: the time of each call and operator, its share, and what the time is spent on.

The time of a distinct call is its median multiplied by how often the trace has the call. Shares
refer to all calls that were measured; calls that could not be replayed are listed separately. If
no times were measured, shares refer to instructions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torchmark.analyse.call_costs import Nature, bytes_moved, explain_time
from torchmark.analyse.devices import devices_of
from torchmark.analyse.estimates import MeasuredTime, instructions_of, time_of
from torchmark.analyse.real_step import RealStep, compare_with_real_step
from torchmark.capture.traces.checking import check_call
from torchmark.model.result import Counts, Facts, Metric, Result, Status
from torchmark.model.run import MachineSpeeds, Run
from torchmark.model.run_settings import Backend, ReplaySettings, TracedCall, settings_of
from torchmark.model.trace import RecordedCall
from torchmark.model.units import collect

Results = Mapping[tuple[str, Metric], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one distinct call with one backend."""

    backend: Backend
    status: Status
    reason: str
    """Why it is not DONE; the first line is the most important."""

    time: MeasuredTime | None
    instructions: float | None
    """Instructions of one call; None if they were not counted."""

    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One distinct call."""

    call: TracedCall
    outcomes: tuple[Outcome, ...]
    """One for each backend that has a result."""

    flops: int | None
    """Floating-point operations of one call; None if not known."""

    bytes: int | None
    """Bytes that one call must move; None if not known."""

    memory: int | None
    """Peak memory in bytes that one call allocates; None if not known."""

    seconds: float | None
    """Total time of this call in the trace with the first backend; None without a time."""

    share: float | None
    """Share of all measured time; without times, of all counted instructions."""

    explained: float | None
    """Part of the time that bytes or FLOPs need at the machine's best speed; at most 1."""

    nature: Nature | None
    """None without a time, or if neither bytes nor FLOPs are known."""

    recorded_on: tuple[str, ...]
    """Devices other than the CPU on which it was recorded."""

    def by_backend(self, backend: Backend) -> Outcome | None:
        return next((each for each in self.outcomes if each.backend is backend), None)

    def time_by(self, backend: Backend) -> MeasuredTime | None:
        outcome = self.by_backend(backend)
        return outcome.time if outcome is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """All calls of one operator."""

    op: str
    calls: tuple[CallRow, ...]
    """Longest total time first."""

    count: int
    """Number of calls in the trace."""

    seconds: float | None
    """Total time of all calls with the first backend; None if none has a time."""

    share: float | None
    flops: int | None
    """Sum over all calls in the trace; None if it is not known for one of them."""

    bytes: int | None
    """Sum over all calls in the trace; None if it is not known for one of them."""

    nature: Nature | None
    """The nature of most of its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAnalysis:
    """The figures of a replay."""

    settings: ReplaySettings
    operators: tuple[OperatorRow, ...]
    """Longest total time first, then operators without a time."""

    seconds: float
    """Total time of all calls in the trace with the first backend."""

    by_nature: Mapping[Nature, float]
    """Shares of the time."""

    whole_pass: MeasuredTime | None
    """In mode order: the time of a whole pass, to compare with the sum of its calls."""

    real_step: RealStep | None
    """None if the trace has no real step, or only some of its calls were replayed."""

    @property
    def backend(self) -> Backend:
        """The first backend: shares refer to its time, and speed-ups are relative to it."""
        return self.settings.backends[0]

    @property
    def calls(self) -> list[CallRow]:
        return [row for operator in self.operators for row in operator.calls]

    @property
    def step_seconds(self) -> float:
        return self.seconds / max(1, self.settings.steps)

    def speedup(self, rows: Iterable[CallRow], backend: Backend) -> float | None:
        """Time of the first backend over that of `backend`, for the calls that both have timed."""
        first = other = 0.0
        for row in rows:
            mine, its = row.time_by(self.backend), row.time_by(backend)
            if mine is not None and its is not None:
                first += mine.median * row.call.count
                other += its.median * row.call.count
        return first / other if other else None

    def failures(self) -> list[tuple[CallRow, Outcome]]:
        """Calls that could not be replayed."""
        return [
            (row, outcome)
            for row in self.calls
            for outcome in row.outcomes
            if outcome.status is not Status.DONE
        ]

    def missing(self) -> int:
        """The number of results (calls x backends) that are missing."""
        wanted = len(self.settings.calls) * len(self.settings.backends)
        return wanted - sum(len(row.outcomes) for row in self.calls)


def analyse_replay(run: Run) -> ReplayAnalysis:
    """Analyse the results of a replay so far; the trace is not needed."""
    settings = settings_of(run)
    results = {(each.case.id, each.metric): each for each in run.results}
    outcomes = {call.number: _outcomes(call, settings, results) for call in settings.calls}
    shares = _shares(settings, outcomes)
    rows = [
        _row(call, outcomes[call.number], shares.get(call.number), settings.backends[0], run.speeds)
        for call in settings.calls
    ]
    grouped = collect((row.call.op, row) for row in rows)
    operators = [_operator(op, each) for op, each in grouped.items()]
    whole_pass = results.get((settings.pass_case, Metric.TIME))
    seconds = sum(row.seconds or 0.0 for row in rows)
    return ReplayAnalysis(
        settings=settings,
        operators=tuple(sorted(operators, key=lambda each: _most_first(each.share))),
        seconds=seconds,
        by_nature={
            nature: sum(row.share or 0.0 for row in rows if row.nature is nature)
            for nature in Nature
        },
        whole_pass=time_of(whole_pass),
        real_step=compare_with_real_step(settings, seconds / max(1, settings.steps)),
    )


def recorded_call_of(call: TracedCall) -> RecordedCall:
    return check_call(json.loads(call.record))


def _outcomes(call: TracedCall, settings: ReplaySettings, results: Results) -> tuple[Outcome, ...]:
    found = []
    for backend in settings.backends:
        metrics = [results.get((call.cases[backend], metric)) for metric in Metric]
        there = [result for result in metrics if result is not None]
        if there:
            found.append(_outcome(backend, there))
    return tuple(found)


def _outcome(backend: Backend, results: Sequence[Result]) -> Outcome:
    """Combine the time and the count of a call; the reason is that of a result that is not DONE."""
    worst = next((each for each in results if each.status is not Status.DONE), results[0])
    times = [time for each in results if (time := time_of(each)) is not None]
    counts = [each.payload for each in results if isinstance(each.payload, Counts)]
    return Outcome(
        backend=backend,
        status=worst.status,
        reason=worst.reason if worst.status is not Status.DONE else "",
        time=times[0] if times else None,
        instructions=float(instructions_of(counts[0])) if counts else None,
        facts=next((each.facts for each in results if each.facts != Facts()), Facts()),
    )


def _shares(
    settings: ReplaySettings, outcomes: Mapping[int, Sequence[Outcome]]
) -> dict[int, float]:
    """Shares by call number: of all seconds with the first backend, or of all instructions."""
    first = settings.backends[0]
    times: dict[int, float] = {}
    counts: dict[int, float] = {}
    for call in settings.calls:
        for each in outcomes[call.number]:
            if each.backend is first and each.time is not None:
                times[call.number] = each.time.median * call.count
            if each.backend is first and each.instructions is not None:
                counts[call.number] = each.instructions * call.count
    weights = times or counts
    whole = sum(weights.values())
    return {number: weight / whole if whole else 0.0 for number, weight in weights.items()}


def _row(
    call: TracedCall,
    outcomes: tuple[Outcome, ...],
    share: float | None,
    first: Backend,
    speeds: MachineSpeeds | None,
) -> CallRow:
    record = recorded_call_of(call)
    # If the record does not have the bytes, the first run has reported them.
    known = (bytes_moved(record), *(each.facts.bytes for each in outcomes))
    moved = next((each for each in known if each is not None), None)
    flops = next((each.facts.flops for each in outcomes if each.facts.flops is not None), None)
    peaks = (each.facts.peak_memory_bytes for each in outcomes)
    time = next((each.time for each in outcomes if each.backend is first), None)
    explained: float | None = None
    nature: Nature | None = None
    if time is not None and speeds is not None:
        explained, nature = explain_time(time.median, record, moved, flops, speeds)
    return CallRow(
        call=call,
        outcomes=outcomes,
        flops=flops,
        bytes=moved,
        memory=next((peak for peak in peaks if peak is not None), None),
        seconds=time.median * call.count if time is not None else None,
        share=share,
        explained=explained,
        nature=nature,
        recorded_on=devices_of(record),
    )


def _operator(op: str, rows: Sequence[CallRow]) -> OperatorRow:
    time_by_nature = {
        nature: sum(row.seconds or 0.0 for row in rows if row.nature is nature)
        for nature in Nature
        if any(row.nature is nature for row in rows)
    }
    return OperatorRow(
        op=op,
        calls=tuple(sorted(rows, key=lambda row: _most_first(row.share))),
        count=sum(row.call.count for row in rows),
        seconds=_sum_of_known([row.seconds for row in rows]),
        share=_sum_of_known([row.share for row in rows]),
        flops=_sum_of_all(rows, [row.flops for row in rows]),
        bytes=_sum_of_all(rows, [row.bytes for row in rows]),
        nature=max(time_by_nature, key=lambda nature: time_by_nature[nature], default=None),
    )


def _sum_of_all(rows: Sequence[CallRow], figures: Sequence[int | None]) -> int | None:
    """The sum over all calls in the trace; None if one figure is not known."""
    known = [
        figure * row.call.count
        for row, figure in zip(rows, figures, strict=True)
        if figure is not None
    ]
    return sum(known) if len(known) == len(rows) else None


def _sum_of_known(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _most_first(share: float | None) -> float:
    return 1.0 if share is None else -share
