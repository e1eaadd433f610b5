"""Recorded values: what a capture kept is what a call gets when it is made again."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import torchmark
from torchmark.capture.traces.exact_values import has_exact_values, values_file
from torchmark.capture.traces.loading import load_trace
from torchmark.define.recorded import call_text, plan_replay
from torchmark.define.suites.loading import cases_of, load_suite
from torchmark_probe.replay import contents
from torchmark_probe.replay.calls import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torchmark.model.trace import Trace


@pytest.fixture(autouse=True)
def other_files() -> Iterator[None]:
    """A process under test knows one file of values."""
    yield
    contents._entries.cache_clear()


def captured(folder: Path, run: Callable[[], Any]) -> Trace:
    with torchmark.Capture(folder / "t.jsonl", values=True):
        run()
    return load_trace(folder / "t.jsonl")


def arguments_of(trace: Trace, op: str) -> list[Any]:
    (call,) = [each for each in trace.calls if each.op == op]
    return list(rebuild(call_text(call), 0, trace.values)[1])


@pytest.mark.parametrize(
    "name",
    [
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
        "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "uint16",
    ],
)  # fmt: skip
def test_every_type_comes_back_to_the_bit(name: str, tmp_path: Path) -> None:
    whole = (10 * torch.randn(7, 30)).abs().to(getattr(torch, name))
    for x in (whole, whole.t(), whole[1::2, 3:20:3], whole[2].expand(4, 30), whole[:0]):
        trace = captured(tmp_path, partial(torch.ops.aten.clone, x))
        (made,) = arguments_of(trace, "aten.clone.default")
        assert (made.dtype, made.stride(), made.storage_offset()) == (
            x.dtype, x.stride(), x.storage_offset(),
        )  # fmt: skip
        assert made.contiguous().view(torch.uint8).equal(x.contiguous().view(torch.uint8))
        contents._entries.cache_clear()


def test_tensors_that_share_memory_still_do(tmp_path: Path) -> None:
    x = torch.randn(100)
    windows = x.as_strided((19, 10), (5, 1))
    trace = captured(tmp_path, lambda: torch.ops.aten.mul(windows, x[5:15]))
    one, two = arguments_of(trace, "aten.mul.Tensor")
    assert one.equal(windows)
    assert two.equal(x[5:15])
    one.zero_()
    assert not two.any()


def test_bits_that_negate_or_conjugate_stay_with_the_values(tmp_path: Path) -> None:
    z = torch.randn(5, 20, dtype=torch.complex64)
    imaginary = z.conj().imag
    assert imaginary.is_neg()
    for x in (imaginary, z.conj()):
        trace = captured(tmp_path, x.t)
        (made,) = arguments_of(trace, "aten.t.default")
        assert (made.is_neg(), made.is_conj()) == (x.is_neg(), x.is_conj())
        assert made.resolve_neg().resolve_conj().equal(x.resolve_neg().resolve_conj())
        contents._entries.cache_clear()


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_have_their_indices_and_values(layout: str, tmp_path: Path) -> None:
    dense = torch.randn(30, 20).relu()
    sparse = dense.to_sparse() if layout == "sparse_coo" else dense.to_sparse_csr()
    trace = captured(tmp_path, lambda: torch.mm(sparse, torch.ones(20, 2)))
    made, _ = arguments_of(trace, "aten.mm.default")
    assert made.to_dense().equal(dense)


def test_values_decide_how_many_rows_come_back(tmp_path: Path) -> None:
    """Where contents are drawn they are fitted to the recorded output; here none is fitted."""
    x = torch.randn(300).relu()
    trace = captured(tmp_path, lambda: torch.nonzero(x))
    (made,) = arguments_of(trace, "aten.nonzero.default")
    assert made.equal(x)


def lacks(trace: Trace) -> list[str]:
    """What it lacks, except threads that another test has left in this process."""
    threads = "the calls of threads that started"
    return [each for each in trace.unseen if not each.startswith(threads)]


def test_a_trace_without_its_file_says_so_once_and_is_like_one_without_values(
    tmp_path: Path,
) -> None:
    x = torch.randn(100, 100)

    def run() -> None:
        torch.mm(torch.relu(x), x)

    with_values = captured(tmp_path, run)
    assert with_values.values == str(tmp_path / "t.safetensors")
    assert lacks(with_values) == []
    settings, _ = plan_replay(with_values, "t")
    assert [call.has_values for call in settings.calls] == [True, True]
    (tmp_path / "t.safetensors").unlink()
    moved = load_trace(tmp_path / "t.jsonl")
    assert moved.values == ""
    (sentence,) = lacks(moved)
    assert sentence == (
        "the recorded values of 2 distinct calls, for which random values are used "
        "(there is no file t.safetensors)"
    )
    with torchmark.Capture() as capture:
        run()
    assert moved.calls == capture.trace().calls
    notes = load_suite(str(tmp_path / "t.jsonl")).notes
    assert f"{tmp_path / 't.jsonl'} lacks: {sentence}" in notes


def test_only_calls_whose_values_are_wrong_draw_theirs(tmp_path: Path) -> None:
    x = torch.randn(100, 100)
    captured(tmp_path, lambda: (torch.relu(x), torch.mm(x, x)))
    file = values_file(tmp_path / "t.jsonl")
    save_file({**load_file(file), "0.0": torch.zeros(7)}, file)
    trace = load_trace(tmp_path / "t.jsonl")
    assert [has_exact_values(call) for call in trace.calls] == [False, True]
    (sentence,) = lacks(trace)
    assert "the recorded values of 1 distinct call, for which random values are used" in sentence
    assert "other dtypes or shapes: t.safetensors" in sentence
    setups = [case.setup for case in cases_of([load_suite(str(tmp_path / "t.jsonl"))])]
    assert [json.dumps(str(file))[1:-1] in setup for setup in setups] == [False, True]


def test_a_capture_that_is_killed_has_no_values_of_an_older_one(tmp_path: Path) -> None:
    captured(tmp_path, lambda: torch.relu(torch.randn(9)))
    capture = torchmark.Capture(tmp_path / "t.jsonl", values=True)
    with capture:
        assert not values_file(tmp_path / "t.jsonl").exists()
