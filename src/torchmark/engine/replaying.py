"""Distinct calls of a trace, each measured by itself in a fork of a warm process.

Whoever iterates gets every call the moment that something new is known of it. A call that raises,
crashes, hangs or wants too much memory costs itself alone, and becomes a row with its reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torchmark.analyse.instructions import instructions_per_run
from torchmark.analyse.replay import computed_type, time_of
from torchmark.define.suites.recorded import call_text, definitions_of
from torchmark.engine.measuring import Effort, counted, timed
from torchmark.engine.zygote.cases import TIME_LIMIT, PythonCase
from torchmark.errors import CaseFailedError
from torchmark.model.case import Case
from torchmark.model.replay_record import (
    Backend,
    CallPlace,
    CallTime,
    MachineSpeeds,
    Replayed,
    ReplayedCall,
)
from torchmark.model.result import Metric, Status
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from torchmark.engine.replay_zygotes import ReplayZygotes
    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result
    from torchmark.model.trace import Step, Trace

    News = tuple[ReplayedCall, Result | None]

BUDGET = 0.2
"""Seconds of measured blocks for a call: a model has some hundred of them."""

PRECISION = 0.02
"""Of the median that is enough: what is asked is where the time goes."""

_SHORTEST = 0.03
"""Seconds that a call is measured at least, as far as the budget allows."""

_LARGE_SHARE = 0.03
_LONGER = 5
"""Calls with this share of the time or more whose interval is too wide are measured again, this
many times as long."""

_COUNTED = ((2e-4, 100), (2e-3, 10))
"""Calls shorter than this are counted in so many runs, longer ones in one: under callgrind they
take some fifty times as long."""

_OWN_ERROR = re.compile(r"the case (?:raised|ran out of memory): torchmark_probe\.\S+Error: (.*)")
"""What the probe's own errors look like: their sentence is the reason, and a skip."""

_FACTS = "torchmark_replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWish:
    """What is wanted of every call."""

    kinds: tuple[Metric, ...] = (Metric.TIME,)
    backends: tuple[Backend, ...] = (Backend.EAGER,)
    threads: int = 1
    seed: int = 0
    budget: float = BUDGET
    """Seconds of measured blocks for a call and a backend."""

    timeout: float = TIME_LIMIT
    """Seconds that a call may take in one process, compiling included."""

    memory: int | None = None
    """Bytes that a call may take."""


def calls_of(trace: Trace, step: Step | None = None) -> list[ReplayedCall]:
    """Every distinct call of the trace, or of one of its steps; nothing is known of them yet."""
    pairs = trace.counts if step is None else Counter(zip(step.calls, step.places, strict=True))
    places: dict[int, Counter[tuple[str, str | None]]] = {}
    for (call, at), count in pairs.items():
        place = trace.places[at]
        places.setdefault(call, Counter())[place.phase, place.module] += count
    return [
        ReplayedCall(
            number=number,
            call=trace.calls[number],
            signature=label[1],
            count=sum(places[number].values()),
            places=tuple(
                CallPlace(phase=phase, module=module, count=count)
                for (phase, module), count in places[number].items()
            ),
        )
        for number, label, _ in definitions_of(trace)
        if number in places
    ]


def case_of(call: ReplayedCall, wish: ReplayWish, backend: Backend) -> Case:
    """The call under the names that people see."""
    params = () if backend is Backend.EAGER else (("backend", backend.value),)
    return Case(
        label=(call.call.op, call.signature),
        stmt="op(*args, **kwargs)",
        num_threads=wish.threads,
        params=params,
    )


def python_case(call: ReplayedCall, backend: Backend, seed: int) -> PythonCase:
    """The call as a zygote takes it: the record travels as text, and inputs are made there."""
    given = {"record": call_text(call.call), "seed": seed, "backend": backend.value}
    if backend is Backend.EAGER:
        stmt, setup = "op(*args, **kwargs)", "op, args, kwargs = eager(record, seed)"
    else:
        stmt, setup = "run()", "run = by_backend(backend, record, seed)"
    return PythonCase(
        stmt=stmt,
        setup=f"from torchmark_probe.replay.cases import eager, by_backend\n{setup}",
        globals={name: {"kind": "json", "value": value} for name, value in given.items()},
    )


class HotReplay:
    """One replay of calls, each by itself."""

    def __init__(
        self, calls: Sequence[ReplayedCall], wish: ReplayWish, zygotes: ReplayZygotes
    ) -> None:
        self._calls = {call.number: call for call in calls}
        self._wish = wish
        self._zygotes = zygotes

    def total(self) -> int:
        """Measurements that are to be made; longer ones of the largest shares are not counted."""
        kinds = self._wish.kinds
        times = len(self._wish.backends) if Metric.TIME in kinds else 0
        return len(self._calls) * (times + (Metric.INSTRUCTIONS in kinds))

    def news(self, cores: Collection[int]) -> Iterator[News]:
        """Calls with what is new of them, and the result that it comes from if it is the first."""
        if Metric.TIME in self._wish.kinds:
            for backend in self._wish.backends:
                yield from self._timed(backend, cores)
                yield from self._timed_longer(backend, cores)
        if Metric.INSTRUCTIONS in self._wish.kinds:
            yield from self._counted()

    def _timed(self, backend: Backend, cores: Collection[int]) -> Iterator[News]:
        effort = self._effort(self._wish.budget)
        for number in self._calls:
            yield self._take(number, backend, self._time(number, backend, effort, cores))

    def _timed_longer(self, backend: Backend, cores: Collection[int]) -> Iterator[News]:
        """Those again that decide where the time goes, and are not known well enough."""
        effort = self._effort(_LONGER * self._wish.budget)
        for number in calls_to_repeat(self._calls.values(), backend):
            result = self._time(number, backend, effort, cores)
            if result.status is Status.DONE:
                yield self._take(number, backend, result)[0], None

    def _counted(self) -> Iterator[News]:
        zygote = self._zygotes.counting()
        for number, call in self._calls.items():
            time = time_of(call, Backend.EAGER)
            effort = replace(
                self._effort(self._wish.budget),
                number=runs_to_count(None if time is None else time.seconds),
                timeout=max(TIME_LIMIT, self._wish.timeout),
            )
            case = case_of(call, self._wish, Backend.EAGER)
            result = counted(
                case, python_case(call, Backend.EAGER, self._wish.seed), zygote, effort
            )
            yield self._take(number, Backend.EAGER, result)

    def _time(
        self, number: int, backend: Backend, effort: Effort, cores: Collection[int]
    ) -> Result:
        call = self._calls[number]
        case = case_of(call, self._wish, backend)
        ready = python_case(call, backend, self._wish.seed)
        return timed(case, ready, self._zygotes.of(backend), effort, cores)

    def _effort(self, budget: float) -> Effort:
        return Effort(
            limits=Limits(PRECISION, min(_SHORTEST, budget), budget),
            timeout=self._wish.timeout,
            memory=self._wish.memory,
        )

    def _take(self, number: int, backend: Backend, result: Result) -> tuple[ReplayedCall, Result]:
        """What is known of the call now, and the result as people are told of it."""
        call = with_result(self._calls[number], backend, result)
        self._calls[number] = call
        replayed = call.by_backend(backend)
        assert replayed is not None
        return call, replace(result, status=replayed.status, reason=replayed.reason)


def with_result(call: ReplayedCall, backend: Backend, result: Result) -> ReplayedCall:
    """The call with one more result; a count joins the time that is there."""
    facts = facts_in(result.stdout)
    outcome, reason = _outcome_of(result)
    before = call.by_backend(backend)
    fresh = Replayed(
        backend=backend,
        status=outcome,
        reason=reason,
        time=_time_of(result.measurement) if result.measurement is not None else None,
        instructions=(
            float(instructions_per_run(result.counts)) if result.counts is not None else None
        ),
        prepare_seconds=facts.get("prepare_seconds"),
        largest_error=facts.get("largest_error"),
        remarks=tuple(facts.get("remarks", ())),
    )
    if before is not None and result.metric is Metric.INSTRUCTIONS:
        is_worse = before.status is not Status.DONE or outcome is Status.DONE
        fresh = replace(
            before if is_worse else replace(before, status=outcome, reason=reason),
            instructions=fresh.instructions,
        )
    others = tuple(each for each in call.by if each.backend is not backend)
    flops = facts.get("flops")
    return replace(call, by=(*others, fresh), flops=call.flops if flops is None else flops)


def calls_to_repeat(calls: Iterable[ReplayedCall], backend: Backend) -> list[int]:
    """Numbers of the calls with a large share and a wide interval."""
    times = [(call, time) for call in calls if (time := time_of(call, backend)) is not None]
    whole = sum(time.seconds * call.count for call, time in times)
    return [
        call.number
        for call, time in times
        if time.seconds * call.count >= _LARGE_SHARE * whole
        and time.high - time.low > 2 * PRECISION * time.seconds
    ]


def runs_to_count(seconds: float | None) -> int:
    """
    >>> runs_to_count(1e-6), runs_to_count(1e-3), runs_to_count(0.1), runs_to_count(None)
    (100, 10, 1, 10)
    """
    if seconds is None:
        return 10
    return next((number for limit, number in _COUNTED if seconds < limit), 1)


def speeds_of(
    calls: Iterable[ReplayedCall], zygotes: ReplayZygotes, cores: Collection[int]
) -> MachineSpeeds | None:
    """The machine's best, for the types of elements that the calls have; None if it cannot be had.

    A replay is worth having without.
    """
    types = sorted({computed_type(call.call) for call in calls})
    case = PythonCase(
        stmt="pass",
        setup="from torchmark_probe.replay.machine_speed import tell\ntell(types)",
        globals={"types": {"kind": "json", "value": [each for each in types if "float" in each]}},
    )
    try:
        output = zygotes.of(Backend.EAGER).run(case, cores=cores)
    except CaseFailedError:
        return None
    told = json.loads(output.stdout.splitlines()[-1])
    return MachineSpeeds(
        small_call_seconds=told["small_call_seconds"],
        bytes_per_second={int(size): speed for size, speed in told["bytes_per_second"].items()},
        flops_per_second=told["flops_per_second"],
    )


def facts_in(stdout: str) -> dict[str, Any]:
    """What the probe printed of the call; other lines are the operator's own."""
    for line in reversed(stdout.splitlines()):
        if _FACTS in line:
            try:
                facts: dict[str, Any] = json.loads(line)[_FACTS]
            except (ValueError, KeyError, TypeError):
                continue
            return facts
    return {}


def _outcome_of(result: Result) -> tuple[Status, str]:
    """What the probe says cannot be done is skipped, with its sentence; what goes wrong, failed."""
    own = _OWN_ERROR.match(result.reason)
    if result.status is Status.FAILED and own:
        return Status.SKIPPED, own[1]
    return result.status, result.reason


def _time_of(measurement: Measurement) -> CallTime:
    low, high = measurement.median_interval
    return CallTime(
        seconds=measurement.median,
        low=max(0.0, low),
        high=high,
        samples=len(measurement.raw_times),
        doubts=tuple(doubt.kind.value for doubt in measurement.doubts),
    )
