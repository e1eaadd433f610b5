"""The cnt: form: every kind of argument, parsed as data, and what is wrong in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import UNSET

from tests.capture.traces.files import tensor
from torchmark.capture.traces.cnt import parse_arguments, read_cnt
from torchmark.capture.traces.loading import load_trace
from torchmark.errors import TraceFileError

if TYPE_CHECKING:
    from pathlib import Path


def value(text: str) -> Any:
    args, kwargs = parse_arguments(f"(({text},), {{}})")
    assert kwargs == {}
    return args[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T([2, 3], f32)", tensor(2, 3)),
        ("T([], f32)", tensor()),
        ("T([2, 3], f32, stride=(1, 2))", tensor(2, 3, strides=[1, 2])),
        ("T([2], f32, (4,))", tensor(2, strides=[4])),
        ("T([2], f32, stride=(4,), device='cuda:1')", tensor(2, strides=[4], device="cuda:1")),
        ("T(size=[2], dtype=torch.float32)", tensor(2)),
        ("T([0], bf16)", {"tensor": {"shape": [0], "dtype": "bfloat16"}}),
        ("T([2], b8)", {"tensor": {"shape": [2], "dtype": "bool"}}),
        ("T([2], c64)", {"tensor": {"shape": [2], "dtype": "complex64"}}),
        ("T([2], f8e4m3fn)", {"tensor": {"shape": [2], "dtype": "float8_e4m3fn"}}),
        ("T([2], 'i64')", {"tensor": {"shape": [2], "dtype": "int64"}}),
        ("[T([2], f32), None, [T([], f32)]]", [tensor(2), None, [tensor()]]),
        ("f16", {"dtype": "float16"}),
        ("torch.bool", {"dtype": "bool"}),
        ("torch.long", {"dtype": "int64"}),
        ("torch.strided", {"layout": "strided"}),
        ("torch.channels_last", {"memory_format": "channels_last"}),
        ("'cuda'", {"device": "cuda"}),
        ("device(type='cuda', index=0)", {"device": "cuda:0"}),
        ("torch.device('cpu')", {"device": "cpu"}),
        ("'mean'", "mean"),
        ("'it\\'s\\n\\x41'", "it's\nA"),
        ('"ij,jk->ik"', "ij,jk->ik"),
        ("True", True),
        ("None", None),
        ("-100", -100),
        ("1e-05", 1e-05),
        ("-3.4028234663852886e+38", -3.4028234663852886e38),
        ("inf", {"float": "inf"}),
        ("-inf", {"float": "-inf"}),
        ("nan", {"float": "nan"}),
        ("1e999", {"float": "inf"}),
        ("2j", {"complex": [0.0, 2.0]}),
        ("(1-2.5j)", {"complex": [1, -2.5]}),
        ("(1, 2)", {"tuple": [1, 2]}),
        ("(1,)", {"tuple": [1]}),
        ("(1)", 1),
        ("()", {"tuple": []}),
        ("[]", []),
        ("{'a': 1}", {"dict": [["a", 1]]}),
        ("<torch._C.Generator object at 0x7f>", {"opaque": "torch._C.Generator object at 0x7f"}),
        ("s0", {"opaque": "s0"}),
        ("os.system('rm')", {"opaque": "os.system"}),
        ("torch.load", {"opaque": "torch.load"}),
        ("T([2], f32, colour='red')", {"opaque": "T"}),
        ("ST([4, 2], f32, torch.sparse_coo, False)", {"opaque": "ST"}),
    ],
)
def test_every_kind_of_argument(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_a_sparse_tensor_is_like_a_gradient_of_rows() -> None:
    sparse = value("ST([9, 2], f16, torch.sparse_coo, True, 4)")["tensor"]
    assert (sparse["shape"], sparse["layout"], sparse["coalesced"]) == ([9, 2], "sparse_coo", True)
    assert sparse["parts"]["indices"]["shape"] == [1, 4]
    assert sparse["parts"]["indices"]["values"]["max"] == 8
    assert sparse["parts"]["values"] == {"shape": [4, 2], "dtype": "float16"}


def test_arguments_by_name() -> None:
    args, kwargs = parse_arguments("((), {'dtype': torch.bool, 'device': 'cuda', 'p': 0.5,})")
    assert args == []
    assert kwargs == {"dtype": {"dtype": "bool"}, "device": {"device": "cuda"}, "p": 0.5}


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.txt"
    path.write_text(text)
    return path


def test_counts_of_equal_calls_are_added(tmp_path: Path) -> None:
    text = (
        "Operator: aten.relu.default\ncnt: 2, ((T([2], f32),), {})\n"
        "cnt: 3, ((T([2], f32),), {})\n\nOperator: mylib.op\ncnt: 1, ((), {})\n"
    )
    trace = load_trace(written(tmp_path, text))
    assert (trace.source, trace.steps, trace.unseen) == ("cnt", (), ())
    assert [call.op for call in trace.calls] == ["aten.relu.default", "mylib.op.default"]
    assert trace.counts == {(0, 0): 5, (1, 0): 1}
    assert trace.calls[0].outputs is UNSET


def test_an_overload_that_was_merged_into_another_goes_by_its_name(tmp_path: Path) -> None:
    text = "Operator: aten.sum.SymInt\ncnt: 2, ((T([2], f32), [0], True), {})\n"
    trace = read_cnt(written(tmp_path, text))
    assert trace.calls[0].op == "aten.sum.dim_IntList"
    said = "the name aten.sum.SymInt: since torch 1.13 it is aten.sum.dim_IntList"
    assert trace.unseen[0].startswith(said)


def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    text = "Operator: aten.relu.default\ncnt: 2, ((T([2], f32),), {})\ncnt: 1, ((T([5"
    trace = read_cnt(written(tmp_path, text))
    assert trace.counts == {(0, 0): 2}
    assert "after line 2, where the file is cut off" in trace.unseen[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cnt: 1, ((T([2, -3], f32),), {})", "shape[1]: expected `int` >= 0"),
        ("cnt: 1, ((T([2, 'x'], f32),), {})", "shape[1]: expected `int`"),
        ("cnt: -1, ((), {})", "neither an Operator"),
        ("cnt: 0, ((), {})", "wrong count (expected `int` >= 1)"),
        ("cnt: 99999999999999999999, ((), {})", "neither"),
        ("print('hello')", "neither an Operator"),
        ("cnt: 1, ((", "a value is expected"),
        ("cnt: 1, ((1 2), {})", "character 5 of the arguments, near '2), {})': ')' is expected"),
        ("cnt: 1, ((), {}) + 1", "this is not a value"),
        ("cnt: 1, ((), {}), 1", "nothing more is expected"),
        ("cnt: 1, ((), {'a b': 1})", "an argument 'a b'"),
        ("cnt: 1, ((), {'__class__': 1})", "an argument '__class__'"),
        ("cnt: 1, ((), {1: 1})", "in quotes"),
        ("cnt: 1, ((`rm`), {})", "not a value"),
        (f"cnt: 1, (({'[' * 100_000}), {{}})", "nested deeper than 30"),
        (f"cnt: 1, (({'9' * 1_000},), {{}})", "too long"),
        ("Operator: __import__('os').system('true')", "names the operator"),
        ("Operator: aten.__class__.default", "names the operator"),
        ("Operator: \x1b[31maten.add.Tensor", "names the operator"),
        ("cnt: 1, ((" + "1, " * 400_000 + "), {})", "longer than 1 MiB"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(tmp_path: Path, line: str, said: str) -> None:
    path = written(tmp_path, f"Operator: aten.relu.default\n{line}\n")
    with pytest.raises(TraceFileError) as caught:
        read_cnt(path)
    message = str(caught.value)
    assert message.startswith(f"line 2 of {path} ")
    assert said in message
    assert message.isprintable()


def test_a_count_needs_an_operator(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match=r"line 1 of .* comes before the first Operator"):
        read_cnt(written(tmp_path, "cnt: 1, ((), {})\n"))
