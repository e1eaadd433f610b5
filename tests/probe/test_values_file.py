"""Files of recorded values: what safetensors writes is read, and nothing else is believed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from safetensors.torch import save_file

from tests.fuzz.mutations import fuzz, values_like
from tests.probe.test_replay_calls import tensor, text
from torchmark_probe.replay import contents
from torchmark_probe.replay.calls import rebuild
from torchmark_probe.replay.contents import read_contents
from torchmark_probe.replay.records import CannotRebuildError
from torchmark_probe.replay.values_file import (
    DTYPES,
    LONGEST_HEADER,
    WrongValuesError,
    find_entry,
    read_entries,
)

if TYPE_CHECKING:
    from pathlib import Path

HEADER: dict[str, Any] = {
    "__metadata__": {"format": "pt"},
    "0.0": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "0.1": {"dtype": "U8", "shape": [8], "data_offsets": [24, 32]},
}


def written(folder: Path, header: Any, *, data: int = 32, length: int | None = None) -> str:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(content) if length is None else length
    path = folder / "t.safetensors"
    path.write_bytes(size.to_bytes(8, "little") + content + bytes(data))
    return str(path)


@pytest.mark.parametrize("name", DTYPES)
def test_what_safetensors_writes_is_read_for_every_type(name: str, tmp_path: Path) -> None:
    dtype = getattr(torch, name)
    tensors = {
        "0.0": torch.randint(0, 2, (3, 5)).to(dtype),
        "0.1": torch.tensor(1).to(dtype),
        "0.2": torch.empty(0, 4, dtype=dtype),
    }
    path = tmp_path / "t.safetensors"
    save_file(tensors, path)
    for key, expected in tensors.items():
        read = read_contents(str(path), key, dtype, expected.shape)
        assert read.dtype is dtype
        assert torch.equal(read, expected)


def changed(name: str, **more: Any) -> dict[str, Any]:
    return {**HEADER, name: {**HEADER[name], **more}}


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(changed("0.1", data_offsets=[20, 28]), id="overlapping"),
        pytest.param(changed("0.1", data_offsets=[28, 36]), id="behind the end"),
        pytest.param(changed("0.1", data_offsets=[-8, 0]), id="negative"),
        pytest.param(changed("0.1", data_offsets=[32, 24], shape=[-8]), id="backwards"),
        pytest.param(changed("0.1", data_offsets=[24, 32, 40]), id="three ends"),
        pytest.param(changed("0.1", data_offsets=[24.0, 32.0]), id="floats"),
        pytest.param(changed("0.0", shape=[2, 4]), id="more elements than bytes"),
        pytest.param(changed("0.0", shape=[2**62, 2**62, 2**62]), id="huge"),
        pytest.param(changed("0.0", shape="23"), id="text for a shape"),
        pytest.param(changed("0.0", dtype=None), id="no type"),
        pytest.param({"0.0": {"dtype": "F32"}}, id="no offsets"),
        pytest.param({"0.0": 5}, id="number"),
        pytest.param([1, 2], id="list"),
        pytest.param(b'{"0.0": ', id="half"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[" * 100_000, id="nested"),
    ],
)
def test_a_hostile_header_is_refused(header: Any, tmp_path: Path) -> None:
    with pytest.raises(WrongValuesError, match=r"header of t\.safetensors"):
        read_entries(written(tmp_path, header))


def test_what_is_no_file_of_values_is_refused_without_waiting_or_much_memory(
    tmp_path: Path,
) -> None:
    assert len(read_entries(written(tmp_path, HEADER))) == 2
    for length in (2**63, 10**6, LONGEST_HEADER + 1):
        with pytest.raises(WrongValuesError, match="truncated"):
            read_entries(written(tmp_path, HEADER, length=length))
    with open(tmp_path / "t.safetensors", "r+b") as file:  # a hole, so that all of it is there
        file.truncate(2 * LONGEST_HEADER)
    with pytest.raises(WrongValuesError, match="truncated"):
        read_entries(str(tmp_path / "t.safetensors"))
    (tmp_path / "t.safetensors").write_bytes(b"\x02\x00")
    with pytest.raises(WrongValuesError, match="truncated"):
        read_entries(str(tmp_path / "t.safetensors"))
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(WrongValuesError, match="is not a file"):
        read_entries(str(tmp_path / "pipe.safetensors"))
    with pytest.raises(WrongValuesError, match="there is no file"):
        read_entries(str(tmp_path / "none.safetensors"))


@fuzz
@given(values_like(HEADER))
def test_a_damaged_header_gives_entries_inside_of_the_file_or_an_error(
    folder: Path, header: Any
) -> None:
    path = written(folder, header)
    try:
        entries = read_entries(path)
    except WrongValuesError:
        return
    assert all(0 <= each.size <= os.path.getsize(path) - each.start for each in entries.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("values")


def test_a_record_of_another_type_or_shape_has_no_values(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER)
    entries = read_entries(path)
    assert find_entry(entries, "0.0", "float32", [2, 3]).size == 24
    assert find_entry(entries, "0.1", "complex64", [1]).size == 8
    for name, dtype, shape in (
        ("0.0", "float32", [3, 2]),
        ("0.0", "int32", [2, 3]),
        ("0.1", "complex64", [2]),
        ("0.1", "uint8", [4]),
        ("0.2", "float32", [2, 3]),
    ):
        with pytest.raises(WrongValuesError, match="the file"):
            find_entry(entries, name, dtype, shape)
        record = text("aten.clone.default", tensor(*shape, dtype=dtype, exact=name))
        with pytest.raises(CannotRebuildError, match="its recorded values cannot be used"):
            rebuild(record, 0, path)
        assert rebuild(record)[1][0].shape == tuple(shape), "without the file they are drawn"


def test_values_at_any_byte_of_the_file_are_read(tmp_path: Path) -> None:
    header = {"0.0": {"dtype": "F64", "shape": [1000], "data_offsets": [0, 8000]}}
    path = tmp_path / "t.safetensors"
    expected = torch.randn(1000, dtype=torch.float64)
    raw = bytes(expected.view(torch.uint8).tolist())
    for spaces in range(9):
        content = json.dumps(header).encode() + b" " * spaces
        path.write_bytes(len(content).to_bytes(8, "little") + content + raw)
        read_entries_again()
        assert torch.equal(read_contents(str(path), "0.0", torch.float64, [1000]), expected)


def read_entries_again() -> None:
    """A process knows one file, which does not change while it lives."""
    contents._entries.cache_clear()
