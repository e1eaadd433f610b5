"""Small traces for replays, with good calls and bad ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.replays import MM, RELU, tensor

if TYPE_CHECKING:
    from pathlib import Path


def relu(*shape: int) -> dict[str, Any]:
    x = tensor(*shape)
    return {"op": "aten.relu.default", "schema": RELU, "args": [x], "kwargs": {}, "outputs": x}


def product(side: int) -> dict[str, Any]:
    x = tensor(side, side)
    return {"op": "aten.mm.default", "schema": MM, "args": [x, x], "kwargs": {}, "outputs": x}


NOPE: dict[str, Any] = {
    "op": "aten.no_such_thing.default",
    "schema": None,
    "args": [],
    "kwargs": {},
}
OPAQUE = {**relu(2), "args": [{"opaque": "Secret"}]}
WRONG = {**product(2), "args": [tensor(2, 3), tensor(2, 3)]}


def write_trace(folder: Path, *calls: dict[str, Any], order: list[int] | None = None) -> Path:
    """A trace with these calls in an order, or counted: each twice."""
    lines: list[dict[str, Any]] = [{"trace": {"version": 1, "source": "capture"}}]
    lines += [{"call": call} for call in calls]
    lines.append({"place": {"phase": "forward", "module": "encoder"}})
    numbers = range(len(calls)) if order is None else order
    if order is None:
        lines.append({"counts": [[number, 0, 2] for number in numbers]})
    elif order:
        lines.append({"step": {"calls": order, "places": [0] * len(order)}})
    made = len(numbers) * (2 if order is None else 1)
    lines.append({"end": {"calls": made, "steps": 1, "unseen": []}})
    path = folder / "step.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
