"""Traces read back: what a line must be, what is cut off, and what is refused."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from tests.capture.traces.files import (
    HEADER,
    PLACE,
    WHOLE,
    call,
    end,
    step,
    tensor,
    text_of,
    written,
)
from torchmark.capture.traces import files, loading
from torchmark.capture.traces.files import TraceWriter
from torchmark.capture.traces.loading import load_trace, read_trace
from torchmark.define.recorded import plan_replay
from torchmark.errors import NewerTraceError, TraceFileError, TraceNotFoundError
from torchmark.model.trace import Place, RecordedCall, Step

if TYPE_CHECKING:
    from pathlib import Path


def refusal(folder: Path, *lines: Any) -> str:
    path = written(folder, list(lines))
    with pytest.raises(TraceFileError) as caught:
        read_trace(path)
    return str(caught.value).replace(str(path), "the file")


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_what_the_writer_wrote_is_read_back(tmp_path: Path, name: str) -> None:
    first = RecordedCall(
        op="aten.add.Tensor",
        schema="aten::add.Tensor(Tensor self, Tensor other) -> Tensor",
        args=(tensor(2, 3, strides=[1, 2], values={"min": -1.5, "max": 2.0}), 2),
        kwargs={"alpha": {"float": "nan"}},
        outputs=tensor(2, 3, storage=0),
    )
    second = RecordedCall(op="aten.__and__.Scalar", args=(), kwargs={})
    place = Place(
        phase="backward", module="", function="f", source="train.py:41", thread=2, compiled=True
    )
    with TraceWriter(tmp_path / name) as writer:
        writer.header(source="capture", torch="2.13.0", command=["train.py", "--fast"])
        writer.call(first)
        writer.call(second)
        writer.place(place)
        writer.step([0, 1, 1], [0, 0, 0], repeats=2)
        writer.again(3)
        writer.step([1], [0])
        writer.end(calls=16, steps=6, unseen=["a worker"])
    trace = load_trace(tmp_path / name)
    assert trace.calls == (first, second)
    assert trace.places == (place,)
    assert trace.steps == (
        Step(calls=(0, 1, 1), places=(0, 0, 0), repeats=5),
        Step(calls=(1,), places=(0,)),
    )
    assert trace.counts == {(0, 0): 5, (1, 0): 11}
    assert (trace.source, trace.torch, trace.python) == ("capture", "2.13.0", None)
    assert (trace.command, trace.unseen) == (("train.py", "--fast"), ("a worker",))


def test_a_place_of_an_older_trace_has_no_source(tmp_path: Path) -> None:
    assert "source" not in PLACE["place"]
    assert [place.source for place in read_trace(written(tmp_path, WHOLE)).places] == [None]


def test_a_step_in_parts_is_one_step_and_counts_stand_for_themselves(tmp_path: Path) -> None:
    lines = [HEADER, call(), PLACE, step(0, 0, more=True), step(0, repeats=2),
             {"counts": [[0, 0, 4]]}, end(10)]  # fmt: skip
    trace = read_trace(written(tmp_path, lines))
    assert trace.steps == (Step(calls=(0, 0, 0), places=(0, 0, 0), repeats=2),)
    assert trace.counts == {(0, 0): 10}
    assert trace.unseen == ()


def test_a_trace_without_its_end_is_read_and_says_so(tmp_path: Path) -> None:
    whole = text_of(WHOLE)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(text_of(WHOLE[:-1]))
    assert "the end of the file" in read_trace(path).unseen[0]
    path.write_bytes(whole[: whole.rindex(b'"unseen"')])
    trace = read_trace(path)
    assert trace.counts == {(0, 0): 2}
    assert "after line 4, where the file is cut off" in trace.unseen[0]
    path.write_bytes(text_of([*WHOLE[:3], step(0, 0, more=True)]))
    assert read_trace(path).steps == (Step(calls=(0, 0), places=(0, 0)),)


def test_every_cut_of_a_packed_trace_is_read_up_to_there(tmp_path: Path) -> None:
    lines = [HEADER, PLACE, *(call("aten.add.Tensor", n) for n in range(20)), step(0), end(1)]
    packed = gzip.compress(text_of(lines))
    path = tmp_path / "trace.jsonl.gz"
    read = []
    for length in range(2, len(packed), 7):
        path.write_bytes(packed[:length])
        try:
            trace = read_trace(path)
        except TraceFileError as error:
            assert "empty, or cut off" in str(error)  # noqa: PT017 - some cuts leave a trace
        else:
            read.append(len(trace.calls))
            assert trace.unseen or trace.counts == {(0, 0): 1}
    assert read == sorted(read)
    assert read[-1] == 20


def test_a_file_that_disagrees_with_its_end_says_so(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, [*WHOLE[:-1], end(7)]))
    assert trace.unseen == ("the right number of calls: its last line says 7, and it has 2",)


def test_a_newer_form_is_refused_whatever_else_it_has(tmp_path: Path) -> None:
    newer = {"trace": {"version": 2, "source": "telepathy", "mood": 1}}
    with pytest.raises(NewerTraceError, match=r"version 2.*newer torchmark"):
        read_trace(written(tmp_path, [newer, {"thought": 1}]))


def test_what_is_no_trace_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    packed = gzip.compress(text_of(WHOLE))
    for content, said in (
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"hello\n", "not a trace"),
        (bytes(range(256)) * 9, "not a trace"),
        (b"\x1f\x8b garbage", "cannot be read"),
        (gzip.compress(b"hello"), "not a trace"),
        (packed[:-8] + bytes(4) + packed[-4:], "cannot be read: CRC"),
        (b'{"trace": 5}\n', "line 1"),
        (b'{"trace": ', "line 1"),
    ):
        path.write_bytes(content)
        with pytest.raises(TraceFileError, match=said) as caught:
            load_trace(path)
        assert str(path) in str(caught.value)
    with pytest.raises(TraceFileError, match="folder"):
        load_trace(tmp_path)
    with pytest.raises(TraceNotFoundError, match="no file"):
        load_trace(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (tensor(2, -3), "shape[1]: expected `int` >= 0"),
        (tensor(2**63), "shape[0]: expected `int` <= 9223372036854775807"),
        (tensor(True), "shape[0]: expected `int`, got `bool`"),
        (tensor(2, strides=[-1]), "strides[0]: expected `int` >= 0"),
        (tensor(2, strides=[1, 1]), "1 sizes and 2 strides"),
        (tensor(2, offset=-1), "offset: expected `int` >= 0"),
        (tensor(2, storage_bytes="big"), "storage_bytes: expected `int`, got `str`"),
        (tensor(2, dtype="float32; import os"), "dtype: expected"),
        (tensor(2, dtype="__class__"), "dtype: expected"),
        (tensor(2, device="cuda:../../x"), "device: expected"),
        (tensor(2, colour="red"), "unknown field `colour`"),
        (tensor(2, exact="../../etc/passwd"), "exact: expected"),
        (tensor(2, values={"list": [0] * 65}), "values.list: expected `array` of length <= 64"),
        (tensor(2, values={"order": "random"}), "values.order: invalid enum value"),
        (tensor(2, values={"min": "low"}), "values.min: expected"),
        (tensor(2, values={"min": {}}), "values.min: expected a float or a complex"),
        (tensor(2, parts={"indices": 5}), "parts[...]: expected `object`"),
        (tensor(2, parts={"indices": tensor(-1)}), "wrong part (shape[0]: expected `int` >= 0)"),
        (tensor(2, parts={"indices": {"shape": []}}), "missing required field `dtype`"),
        ({"tensor": {"dtype": "float32"}}, "missing required field `shape`"),
        ({"tensor": 5}, "expected `object`, got `int`"),
        ({"pickle": "gASV"}, "unknown kind 'pickle'"),
        ({"float": "1e5"}, "wrong float"),
        ({"complex": [1]}, "wrong complex"),
        ({"tuple": 5}, "wrong tuple"),
        ({"dict": [[1, 2, 3]]}, "wrong dict"),
        ({"generator": "os.environ"}, "wrong generator"),
        ({"opaque": 1}, "wrong opaque"),
        ({}, "not an object with one key"),
    ],
)
def test_a_value_that_the_form_does_not_have_is_refused(
    tmp_path: Path, value: Any, said: str
) -> None:
    message = refusal(tmp_path, HEADER, call("aten.add.Tensor", [value]))
    assert message.startswith("line 2 of the file ")
    assert said in message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (step(0, 5), "names call 5; there are 1 so far"),
        (step(-1), "names call -1"),
        ({"step": {"calls": [0], "places": [9]}}, "names place 9"),
        ({"step": {"calls": [0, 0], "places": [0]}}, "2 calls and 1 places"),
        (step(0, repeats=0), "repeats: expected `int` >= 1"),
        (step(0, mode="x"), "unknown field `mode`"),
        ({"again": 1}, "no step has ended before it"),
        ({"counts": [[0, 0]]}, "[0]: expected `array` of length 3"),
        ({"counts": [[0, 0, -4]]}, "[0][2]: expected `int` >= 1"),
        ({"place": {"phase": "sideways"}}, "phase: invalid enum value"),
        ({"end": {"calls": 1}}, "missing required field `steps`"),
        ({"feel": 1}, "unknown kind 'feel'"),
        (HEADER, "second trace"),
        ([1], "not an object with one key"),
        ({"call": {"op": "aten.add.Tensor"}}, "missing required field `args`"),
        ({"call": {"op": "x.y.z", "args": {}, "kwargs": {}}}, "args: expected `array`"),
        ({"call": {"op": 5, "args": [], "kwargs": {}}}, "op: expected `str`, got `int`"),
        (call("aten.add.Tensor", 1, **{"a b": 1}), "an argument 'a b'"),
    ],
)
def test_a_line_that_the_form_does_not_have_is_refused(
    tmp_path: Path, line: Any, said: str
) -> None:
    message = refusal(tmp_path, HEADER, call(), PLACE, line)
    assert message.startswith("line 4 of the file ")
    assert said in message


def test_nothing_follows_the_end(tmp_path: Path) -> None:
    assert "after the end" in refusal(tmp_path, *WHOLE, call())


def test_text_that_is_no_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    for content, said in (
        (b'{"call": {"op": 1, "op": 2}}\n', "same key twice"),
        (b'{"call": ' + b"[" * 100_000 + b"\n", "nested too deeply"),
        (b'{"call": ' + b"9" * 5_000 + b"}\n", "not JSON"),
        (b'{"call": "\xff"}\n', "not JSON"),
        (b'{"call": "\\ud800"}\n', "incomplete character"),
        (b"\n", "not JSON"),
    ):
        path.write_bytes(text_of([HEADER]) + content)
        with pytest.raises(TraceFileError, match=f"line 2 of .*{said}"):
            read_trace(path)


@pytest.mark.parametrize(
    "op",
    [
        "os.system", "aten.add", "aten.add.Tensor.more", "aten.__class__.default",
        "__builtins__.eval.default", "aten.add.__globals__", "../aten.add.Tensor",
        "aten.add.Tensor\n", "aten.add\x1b[31m.Tensor", "aten.\u0430dd.Tensor", "aten..Tensor",
        f"aten.{'a' * 500}.default", 'torch.ops.load_library("x.so")', "",
    ],
)  # fmt: skip
def test_a_hostile_operator_is_refused_and_its_name_shown_harmlessly(
    tmp_path: Path, op: Any
) -> None:
    message = refusal(tmp_path, HEADER, call(op, 1))
    assert "an operator" in message
    assert len(message) < 300
    assert message.isprintable()


def test_hostile_text_is_made_harmless(tmp_path: Path) -> None:
    hostile = "a\x1b]0;title\x07\n\u202eb\ud800" + "x" * 10_000
    header = {"trace": {**HEADER["trace"], "command": [hostile], "torch": hostile}}
    place = {"place": {"phase": "forward", "module": hostile, "function": hostile}}
    lines = [header, {"call": {**call()["call"], "schema": hostile}}, place, step(0),
             end(1, hostile)]  # fmt: skip
    trace = read_trace(written(tmp_path, lines))
    texts = [trace.torch, *(trace.command or ()), trace.places[0].module, *trace.unseen,
             trace.places[0].function, trace.calls[0].schema]  # fmt: skip
    for text in texts:
        assert text is not None
        assert text.isprintable()
        assert len(text) <= 2_000


def test_a_tensor_of_a_terabyte_is_data(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, [HEADER, call("aten.neg.default", tensor(2**40, 2**20))]))
    assert trace.calls[0].args[0]["tensor"]["shape"] == [2**40, 2**20]


def test_a_bomb_is_refused_before_it_fills_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(text_of([HEADER]))
        for _ in range(200):
            file.write(b" " * 2**20)
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(TraceFileError, match=r"line 2 of .* is longer than 16 MiB"):
        read_trace(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * files.LONGEST_LINE


def test_a_file_that_unpacks_to_more_than_any_trace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST_TEXT", 1_000)
    lines = [HEADER, call(), PLACE, *[step(0) for _ in range(50)]]
    with pytest.raises(TraceFileError, match="unpacks to more than"):
        read_trace(written(tmp_path, lines))


def test_an_order_that_is_too_long_is_counted_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "LONGEST_ORDER", 5)
    lines = [HEADER, call(), PLACE, step(0, 0, 0), step(0, 0, 0), {"again": 2}, step(0), end(13)]
    trace = read_trace(written(tmp_path, lines))
    assert trace.steps == (Step(calls=(0, 0, 0), places=(0, 0, 0)),)
    assert trace.counts == {(0, 0): 13}
    assert "order of calls" in trace.unseen[0]


@pytest.mark.parametrize(
    ("written_so", "said"),
    [("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf"), ("1e999", "inf")],
)
def test_infinities_of_other_programs_are_read_shown_and_kept(
    tmp_path: Path, written_so: str, said: str
) -> None:
    path = tmp_path / "trace.jsonl"
    line = (
        '{"call": {"op": "aten.full.default", "args": [[2], %s], "kwargs": {"x": [%s]}, '
        '"outputs": {"tensor": {"shape": [2], "dtype": "float32", "values": {"max": %s}}}}}\n'
    )
    path.write_bytes(
        text_of([HEADER])
        + (line % ((written_so,) * 3)).encode()
        + text_of([PLACE, step(0), end(1)])
    )
    trace = load_trace(path)
    assert trace.calls[0].args[1] == {"float": said}
    (settings, _) = plan_replay(trace, "trace")
    assert settings.calls[0].signature == f"[2], {said}, x=[{said}]"
    assert {"float": said} == strict_json(settings.calls[0].record)["args"][1]


def strict_json(text: str) -> Any:
    """As RFC 8259 has it, which knows no Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
