"""Traces in all their forms, packed or not: a trace or an error, and what is written is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.traces.files import HEADER, PLACE, call, end, step, tensor, text_of
from tests.capture.traces.test_damaged_files import _CHAKRA, _CNT, outcome
from tests.fuzz.mutations import fuzz, texts_like, values_like
from torchmark.capture.traces.files import TraceWriter
from torchmark.capture.traces.loading import load_trace
from torchmark.define.recorded import plan_replay
from torchmark.errors import TorchmarkError
from torchmark.model.trace import Trace

_LINES = [
    HEADER,
    call("aten.mm.default",
         tensor(4, 4, strides=[1, 4], values={"min": -1.5, "max": {"float": "inf"}}),
         {"tuple": [1, {"complex": [1.0, {"float": "nan"}]}]}, dtype={"dtype": "float16"}),
    call("aten.sum.default", {"dict": [["a", [1, 2.5, None, "x"]]]}, out={"opaque": "Process"}),
    PLACE,
    step(0, 1, repeats=3),
    {"again": 2},
    {"counts": [[0, 0, 5]]},
    {"plain_steps": {"seconds": [0.5, 0.25], "running": [0.5, 0.0], "threads": 2}},
    end(13, "something unseen"),
]  # fmt: skip
_NODES = json.loads(_CHAKRA)


def as_lines(lines: Any) -> bytes:
    """Each part of the list on its line, whatever became of it."""
    each = lines if isinstance(lines, list) else [lines]
    return b"".join(json.dumps(line).encode() + b"\n" for line in each)


def check(content: bytes, packed: bool, folder: Path) -> None:
    trace = outcome(gzip.compress(content, 1) if packed else content)
    if not isinstance(trace, Trace):
        return
    try:
        plan_replay(trace, "trace")
    except TorchmarkError:
        assert not trace.calls or not trace.counts
    again = folder / "again.jsonl"
    with TraceWriter(again) as writer:
        writer.header(source=trace.source, torch=trace.torch, command=trace.command)
        for each in trace.calls:
            writer.call(each)
        for place in trace.places:
            writer.place(place)
        for each_step in trace.steps:
            writer.step(each_step.calls, each_step.places, each_step.repeats)
        writer.end(calls=0, steps=0)
    read = load_trace(again)
    assert (read.calls, read.places, read.steps) == (trace.calls, trace.places, trace.steps)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@fuzz
@given(texts_like(text_of(_LINES).decode(), _CNT.decode(), _CHAKRA.decode()), st.booleans())
def test_text_like_a_trace(folder: Path, text: str, packed: bool) -> None:
    check(text.encode("utf-8", "surrogatepass"), packed, folder)


@fuzz
@given(values_like(_LINES), st.booleans())
def test_lines_with_parts_of_other_kinds(folder: Path, lines: Any, packed: bool) -> None:
    check(as_lines(lines), packed, folder)


@fuzz
@given(values_like(_NODES), st.booleans())
def test_nodes_with_parts_of_other_kinds(folder: Path, nodes: Any, packed: bool) -> None:
    check(json.dumps(nodes).encode(), packed, folder)


_CALLS = (
    "((T([16, 64], f16), T([2], f32, stride=(1,))), {'alpha': -1.5e3, 'b': (1+2j)})",
    "(([ST([9, 2], f16, torch.sparse_coo, False, 4)], <x>, 'cuda:0', inf), {})",
)


@fuzz
@given(texts_like(*_CALLS))
def test_arguments_in_the_cnt_form(folder: Path, text: str) -> None:
    line = "Operator: aten.add.Tensor\ncnt: 1, " + text
    check(line.encode("utf-8", "surrogatepass"), False, folder)
