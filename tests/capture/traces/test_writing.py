"""The lines of a trace, as docs/reference/trace-format.md has them."""

from __future__ import annotations

import contextlib
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from torchmark.capture.traces import files
from torchmark.capture.traces.files import TraceWriter
from torchmark.errors import TraceWriteError
from torchmark.model.trace import Place, RecordedCall

if TYPE_CHECKING:
    from pathlib import Path

CALL = RecordedCall(op="aten.add.Tensor", schema=None, args=(1, 2.0), kwargs={}, outputs=3.0)


def lines_of(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    if path.name.endswith(".gz"):
        content = gzip.decompress(content)
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_trace_is_one_object_a_line(tmp_path: Path, name: str) -> None:
    with TraceWriter(tmp_path / name) as writer:
        writer.header(source="cnt", torch="2.13.0", command=["train.py"])
        writer.call(CALL)
        writer.call(CALL)
        writer.place(Place(phase="forward", module="a.b", source="train.py:4", compiled=True))
        writer.step([0, 1], [0, 0])
        writer.again(2)
        writer.end(calls=6, steps=3, unseen=["something"])
    header, call, _, place, *rest = lines_of(tmp_path / name)
    assert header == {
        "trace": {
            "version": 1,
            "source": "cnt",
            "torch": "2.13.0",
            "python": None,
            "command": ["train.py"],
        }
    }
    assert call == {
        "call": {
            "op": "aten.add.Tensor",
            "schema": None,
            "args": [1, 2.0],
            "kwargs": {},
            "outputs": 3.0,
        }
    }
    assert place == {
        "place": {
            "phase": "forward",
            "module": "a.b",
            "function": None,
            "source": "train.py:4",
            "thread": 0,
            "compiled": True,
        }
    }
    assert rest == [
        {"step": {"calls": [0, 1], "places": [0, 0], "repeats": 1}},
        {"again": 2},
        {"end": {"calls": 6, "steps": 3, "unseen": ["something"]}},
    ]


def test_the_same_calls_make_the_same_file(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with TraceWriter(tmp_path / name) as writer:
            writer.header(source="capture")
            writer.call(CALL)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5])
def test_a_long_step_is_several_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(files, "LONGEST_STEP_LINE", 2)
    with TraceWriter(tmp_path / "t.jsonl") as writer:
        writer.step(range(length), [0] * length)
    steps = [line["step"] for line in lines_of(tmp_path / "t.jsonl")]
    assert [call for step in steps for call in step["calls"]] == list(range(length))
    assert [step.get("more", False) for step in steps] == [True] * (len(steps) - 1) + [False]
    assert len(steps) == max(1, (length + 1) // 2)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_what_was_flushed_is_there_though_nothing_is_closed(tmp_path: Path, name: str) -> None:
    with TraceWriter(tmp_path / name) as writer:
        writer.header(source="capture")
        writer.flush()
        found = (tmp_path / name).read_bytes()
        if name.endswith(".gz"):
            found = zlib.decompressobj(31).decompress(found)
        assert found.endswith(b"\n")
        assert json.loads(found)["trace"]["source"] == "capture"


def test_a_full_disk_is_a_clear_error() -> None:
    writer = TraceWriter("/dev/full")
    with pytest.raises(TraceWriteError, match=r"/dev/full cannot be written: No space left"):
        writer.step(range(10_000), [0] * 10_000)
    with contextlib.suppress(TraceWriteError):
        writer.close()


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TraceWriteError, match="No such file or directory"):
        TraceWriter(tmp_path / "nowhere" / "t.jsonl")
