"""However a file is damaged, there is a trace or an error of torchmark's; never anything else."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.capture.traces.files import HEADER, PLACE, WHOLE, call, step, tensor, text_of
from torchmark.analyse.trace_summary import summarise_trace
from torchmark.capture.traces.loading import load_trace
from torchmark.define.recorded import definitions_of
from torchmark.errors import TorchmarkError
from torchmark.model.trace import Trace
from torchmark.report.formats import text
from torchmark.report.views.trace_summary import make_record, make_view

_SAMPLES = Path(__file__).parents[2] / "data" / "operator_traces"
_CNT = (_SAMPLES / "dcgan_training.txt").read_bytes()[:1_500]
_NODE = {
    "id": 3, "name": "aten::relu", "ctrl_deps": 2,
    "inputs": {"values": [[5, 6, 0, 6, 4, "cpu"]], "shapes": [[2, 3]],
               "types": ["Tensor(float)"], "strides": [[3, 1]]},
    "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
    "attrs": [{"name": "op_schema", "type": "string", "value": "aten::relu(Tensor self) -> ()"}],
}  # fmt: skip
_CHAKRA = json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [_NODE, _NODE]}).encode()
_OWN = text_of([*WHOLE[:2], call("aten.mm.default", [tensor(4, 4)]), *WHOLE[2:]])

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_few = settings(max_examples=40)
"""Drawing JSON of any kind takes long."""


def outcome(content: bytes) -> Trace | TorchmarkError:
    """What comes of a file with this content; anything but a TorchmarkError fails the test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(content)
        try:
            trace = load_trace(path)
        except TorchmarkError as refusal:
            if str(path) not in str(refusal):
                raise AssertionError(f"which file? {refusal}") from refusal
            return refusal
    # Whatever was let in can be shown, and is a suite.
    summary = summarise_trace(trace)
    assert text.render(make_view(summary, "trace"))
    assert json.dumps(make_record(summary, "trace"))
    assert len(definitions_of(trace)) == len(trace.calls)
    return trace


_FORMS = st.sampled_from([_OWN, _CNT, _CHAKRA])


def test_the_samples_are_whole() -> None:
    for content in (_OWN, _CNT, _CHAKRA):
        assert isinstance(outcome(content), Trace)


@given(_FORMS, st.integers(0, 2_000), st.booleans())
def test_a_file_that_is_cut(content: bytes, length: int, packed: bool) -> None:
    cut = (gzip.compress(content) if packed else content)[:length]
    outcome(cut)


@given(_FORMS, st.integers(0, 2_000), st.binary(min_size=1, max_size=6), st.booleans())
def test_a_file_with_other_bytes_in_it(
    content: bytes, position: int, other: bytes, packed: bool
) -> None:
    whole = gzip.compress(content) if packed else content
    place = position % len(whole)
    outcome(whole[:place] + other + whole[place + len(other) :])


@given(_FORMS, st.integers(0, 2_000), st.integers(0, 60))
def test_a_file_with_a_piece_missing(content: bytes, position: int, length: int) -> None:
    place = position % len(content)
    outcome(content[:place] + content[place + length :])


@_few
@given(st.sampled_from(["call", "place", "step", "counts", "again", "end", "trace"]), _JSON)
def test_a_line_of_anything(kind: str, content: Any) -> None:
    lines = text_of([HEADER, call(), PLACE, step(0)])
    outcome(lines + json.dumps({kind: content}).encode() + b"\n")


@_few
@given(_JSON)
def test_an_argument_of_anything(content: Any) -> None:
    outcome(text_of([HEADER, call("aten.add.Tensor", content), PLACE, step(0)]))


@given(st.text(alphabet="()[]{},:=<>'\"\\ Tf16torch.-+0123j", max_size=60))
def test_arguments_of_the_cnt_form_of_anything(text: str) -> None:
    outcome(b"Operator: aten.add.Tensor\ncnt: 1, " + text.encode() + b"\n")


@_few
@given(_JSON, st.sampled_from(["id", "name", "ctrl_deps", "inputs", "outputs", "attrs"]))
def test_a_node_of_anything(content: Any, key: str) -> None:
    node = {**_NODE, key: content}
    outcome(json.dumps({"schema": "1.1.1", "nodes": [node]}).encode())


@_few
@given(_JSON, st.sampled_from(["values", "shapes", "types", "strides"]))
@example([[]], "shapes")
def test_inputs_of_a_node_of_anything(content: Any, key: str) -> None:
    inputs = {**_NODE["inputs"], key: content}  # type: ignore[dict-item]
    outcome(json.dumps({"schema": "1.1.1", "nodes": [{**_NODE, "inputs": inputs}]}).encode())
