"""Traces for tests, written by hand: what a capture could have left."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

HEADER: dict[str, Any] = {
    "trace": {"version": 1, "source": "capture", "torch": "2.13.0", "python": "3.11.2",
              "command": ["train.py"]}
}  # fmt: skip
PLACE: dict[str, Any] = {
    "place": {"phase": "forward", "module": "encoder.0", "function": "torch.add", "thread": 0}
}


def tensor(*shape: int, **more: Any) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": "float32", **more}}


def call(op: str = "aten.add.Tensor", *args: Any, **kwargs: Any) -> dict[str, Any]:
    given = args or (tensor(2, 3), tensor(2, 3))
    return {"call": {"op": op, "schema": None, "args": list(given), "kwargs": kwargs}}


def step(*calls: int, **more: Any) -> dict[str, Any]:
    return {"step": {"calls": list(calls), "places": [0] * len(calls), **more}}


def end(calls: int, *unseen: str, steps: int = 1) -> dict[str, Any]:
    return {"end": {"calls": calls, "steps": steps, "unseen": list(unseen)}}


WHOLE = [HEADER, call(), PLACE, step(0, 0), end(2)]


def text_of(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def written(folder: Path, lines: list[Any], name: str = "trace.jsonl") -> Path:
    path = folder / name
    content = text_of(lines)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path
