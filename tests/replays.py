"""Replays made up for tests: figures that a person can follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from tests.records import NOW, counted, timed
from torchmark.define.recorded import call_text
from torchmark.model.case import Case
from torchmark.model.result import Facts, Metric, PlannedResult, Result, Status, TimeSummary
from torchmark.model.run import Environment, MachineSpeeds, Run, RunKind, RunState
from torchmark.model.run_settings import Backend, CallPlace, ReplayMode, ReplaySettings, TracedCall
from torchmark.model.trace import RecordedCall

MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
RELU = "aten::relu(Tensor self) -> Tensor"

Came: TypeAlias = tuple[Backend, Callable[[Case], Result]]
"""What came of a call with a backend."""


@dataclass(frozen=True)
class MadeCall:
    traced: TracedCall
    came: tuple[Came, ...]


def tensor(*shape: int) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": "float32"}}


def recorded(op: str, *shape: int) -> RecordedCall:
    x = tensor(*shape)
    return RecordedCall(op=op, schema=MM if ".mm." in op else RELU, args=(x,), kwargs={}, outputs=x)


def summary(seconds: float) -> TimeSummary:
    return TimeSummary(samples=40, median=seconds, low=seconds * 0.98, high=seconds * 1.01)


def done(seconds: float, backend: Backend = Backend.EAGER, **facts: Any) -> Came:
    return backend, lambda case: Result(
        case=case,
        metric=Metric.TIME,
        status=Status.DONE,
        finished=NOW,
        payload=summary(seconds),
        facts=Facts(**facts),
    )


def sampled(seconds: float, count: int = 99) -> Came:
    """With all samples; fewer than thirty are a reason for a warning."""
    return Backend.EAGER, lambda case: Result(
        case=case,
        metric=Metric.TIME,
        status=Status.DONE,
        finished=NOW,
        payload=timed(seconds, count=count),
    )


def with_count(instructions: int) -> Came:
    return Backend.EAGER, lambda case: Result(
        case=case,
        metric=Metric.INSTRUCTIONS,
        status=Status.DONE,
        finished=NOW,
        payload=counted(instructions * 100),
    )


def not_done(
    status: Status, reason: str, backend: Backend = Backend.EAGER, metric: Metric = Metric.TIME
) -> Came:
    return backend, lambda case: Result(
        case=case, metric=metric, status=status, finished=NOW, reason=reason
    )


def case_of(number: int, op: str, signature: str, backend: Backend) -> Case:
    return Case(
        label=(op, signature), stmt=f"call_{number}()", params=(("backend", backend.value),)
    )


def call(
    number: int, op: str, *came: Came, shape: tuple[int, ...] = (4, 4), **more: Any
) -> MadeCall:
    count = more.get("count", 10)
    given: dict[str, Any] = {
        "signature": f"float32{list(shape)}",
        "count": count,
        "places": (CallPlace(phase="forward", module="encoder.0", count=count),),
        **more,
    }
    traced = TracedCall(
        number=number,
        op=op,
        record=call_text(recorded(op, *shape)),
        cases={backend: case_of(number, op, given["signature"], backend).id for backend in Backend},
        **given,
    )
    return MadeCall(traced, came)


SPEEDS = MachineSpeeds(
    small_call_seconds=1e-6,
    bytes_per_second={256 * 1024: 100e9, 4 * 1024**2: 50e9, 128 * 1024**2: 10e9},
    flops_per_second={"float32": 50e9},
)
ENVIRONMENT = Environment(facts={"torch": {"version": "2.13.0"}, "python": "3.11.7"})
WHOLE = Case(label=("whole step", "5 calls in their order"), stmt="for call in calls: call()")


def replay(
    *calls: MadeCall,
    speeds: MachineSpeeds | None = SPEEDS,
    backends: tuple[Backend, ...] = (Backend.EAGER,),
    whole: float | None = None,
    **more: Any,
) -> Run:
    """A run that is over; with `whole` its calls were replayed in order, a pass in so long."""
    given: dict[str, Any] = {
        "trace": "step.jsonl.gz",
        "mode": ReplayMode.HOT if whole is None else ReplayMode.ORDER,
        "backends": backends,
        "steps": 10,
        "threads": 1,
        "seed": 0,
        "unseen": (),
        "calls": tuple(each.traced for each in calls),
        "pass_case": "" if whole is None else WHOLE.id,
        **more,
    }
    settings = ReplaySettings(**given)
    results = [
        make(case_of(each.traced.number, each.traced.op, each.traced.signature, backend))
        for each in calls
        for backend, make in each.came
    ]
    results += [] if whole is None else [done(whole)[1](WHOLE)]
    cases = [
        case_of(each.traced.number, each.traced.op, each.traced.signature, backend)
        for backend in backends
        for each in calls
    ]
    return Run(
        id="20261116-090000-a1b2c3",
        kind=RunKind.REPLAY,
        started="2026-11-16T09:00:00+00:00",
        state=RunState.FINISHED,
        plan=tuple(PlannedResult(case=each, metric=Metric.TIME) for each in cases),
        environments=(ENVIRONMENT,),
        settings={"replay": msgspec.json.decode(msgspec.json.encode(settings))},
        speeds=speeds,
        results=tuple(results),
    )
