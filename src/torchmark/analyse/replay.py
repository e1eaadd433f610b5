"""What a replay says: the time of every call and operator, its share, and what the time is for.

The time of a distinct call is its median times how often the trace has it. A share is one of all
that was measured: what could not be replayed is in none, and is listed. Where no times were taken,
shares are those of the instructions.
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
    """What came of one distinct call with one backend."""

    backend: Backend
    status: Status
    reason: str
    """Why it is not DONE, for a person; the first line says the most."""

    time: MeasuredTime | None
    instructions: float | None
    """Of one call; None where they were not counted."""

    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One distinct call."""

    call: TracedCall
    outcomes: tuple[Outcome, ...]
    """One for each backend that has come to it."""

    flops: int | None
    """Floating-point operations of one call; None where nobody knows."""

    bytes: int | None
    """That one call has to move; None where the record does not tell."""

    memory: int | None
    """Bytes that one call had allocated at most, over what was there before; None if not known."""

    seconds: float | None
    """Of all its calls with the first backend, in the whole trace; None where it has no time."""

    share: float | None
    """Of all time that was measured; without times, of all instructions that were counted."""

    explained: float | None
    """Part of the time that bytes or FLOPs need at the machine's best speed; at most 1."""

    nature: Nature | None
    """None where there is no time, or nothing is known of what it does."""

    recorded_on: tuple[str, ...]
    """The devices other than the CPU that it ran on when it was recorded."""

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
    """Those that take the most first."""

    count: int
    """How often the trace has them."""

    seconds: float | None
    """Of all of them with the first backend; None where none has a time."""

    share: float | None
    flops: int | None
    """Of all calls in the trace; None where one is not known. Likewise `bytes`."""

    bytes: int | None
    nature: Nature | None
    """That of most of its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAnalysis:
    """A replay as a table."""

    settings: ReplaySettings
    operators: tuple[OperatorRow, ...]
    """Those that take the most first, then those without a time."""

    seconds: float
    """Of all calls that have a time with the first backend, in the whole trace."""

    by_nature: Mapping[Nature, float]
    """Shares of the time."""

    whole_pass: MeasuredTime | None
    """In order: a whole pass on the clock, which the sum of its calls can be compared with."""

    real_step: RealStep | None
    """None where the trace has none, or where only some of its calls were meant."""

    @property
    def backend(self) -> Backend:
        """The first one: shares are of its time, and speed-ups are against it."""
        return self.settings.backends[0]

    @property
    def calls(self) -> list[CallRow]:
        return [row for operator in self.operators for row in operator.calls]

    @property
    def step_seconds(self) -> float:
        return self.seconds / max(1, self.settings.steps)

    def speedup(self, rows: Iterable[CallRow], backend: Backend) -> float | None:
        """How much faster than the first backend, over those calls that both have timed."""
        first = other = 0.0
        for row in rows:
            mine, its = row.time_by(self.backend), row.time_by(backend)
            if mine is not None and its is not None:
                first += mine.median * row.call.count
                other += its.median * row.call.count
        return first / other if other else None

    def failures(self) -> list[tuple[CallRow, Outcome]]:
        """What could not be replayed."""
        return [
            (row, outcome)
            for row in self.calls
            for outcome in row.outcomes
            if outcome.status is not Status.DONE
        ]

    def missing(self) -> int:
        """Calls and backends that nobody came to."""
        wanted = len(self.settings.calls) * len(self.settings.backends)
        return wanted - sum(len(row.outcomes) for row in self.calls)


def analyse_replay(run: Run) -> ReplayAnalysis:
    """What the results of a replay say so far; the trace is not needed."""
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
    """A count joins the time that is there; what is not DONE says why for both."""
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
    """By number of the call: of all seconds with the first backend, or of all instructions."""
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
    # Where the record does not tell, the first run did.
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
    """Over all calls in the trace; None where the figure of one is not known."""
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
