"""Replays made up for tests: figures that a person can follow."""

from __future__ import annotations

from typing import Any

from torchmark.model.replay_record import (
    Backend,
    CallPlace,
    CallTime,
    MachineSpeeds,
    Replay,
    Replayed,
    ReplayedCall,
    ReplayMode,
)
from torchmark.model.result import Status
from torchmark.model.trace import RecordedCall

MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
RELU = "aten::relu(Tensor self) -> Tensor"


def tensor(*shape: int) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": "float32"}}


def time(seconds: float, *doubts: str) -> CallTime:
    return CallTime(
        seconds=seconds, low=seconds * 0.98, high=seconds * 1.01, samples=40, doubts=doubts
    )


def done(seconds: float, backend: Backend = Backend.EAGER, **more: Any) -> Replayed:
    return Replayed(backend=backend, status=Status.DONE, time=time(seconds), **more)


def not_done(status: Status, reason: str, backend: Backend = Backend.EAGER) -> Replayed:
    return Replayed(backend=backend, status=outcome, reason=reason)


def call(
    number: int, op: str, *by: Replayed, shape: tuple[int, ...] = (4, 4), **more: Any
) -> ReplayedCall:
    schema = MM if ".mm." in op else RELU
    x = tensor(*shape)
    given: dict[str, Any] = {
        "signature": f"float32{list(shape)}",
        "count": 10,
        "places": (CallPlace(phase="forward", module="encoder.0", count=10),),
        **more,
    }
    record = RecordedCall(op=op, schema=schema, args=(x,), kwargs={}, outputs=x)
    return ReplayedCall(number=number, call=record, by=by, **given)


SPEEDS = MachineSpeeds(
    small_call_seconds=1e-6,
    bytes_per_second={256 * 1024: 100e9, 4 * 1024**2: 50e9, 128 * 1024**2: 10e9},
    flops_per_second={"float32": 50e9},
)


def replay(*calls: ReplayedCall, **more: Any) -> Replay:
    given: dict[str, Any] = {
        "mode": ReplayMode.HOT,
        "backends": (Backend.EAGER,),
        "steps": 10,
        "speeds": SPEEDS,
        "environment": {"torch": {"version": "2.13.0"}, "python": "3.11.7"},
        **more,
    }
    return Replay(trace="step.jsonl.gz", started="2026-11-16T09:00:00+00:00", calls=calls, **given)
