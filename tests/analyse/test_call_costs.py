"""The bytes that a call has to move, from its record."""

from __future__ import annotations

from typing import Any

import pytest

from torchmark.analyse.call_costs import bytes_moved
from torchmark.model.trace import RecordedCall


def tensor(*shape: int, storage: int | None = None, **more: Any) -> dict[str, Any]:
    body = {"shape": list(shape), "dtype": "float32", **more}
    return {"tensor": body if storage is None else body | {"storage": storage}}


def moved(op: str, schema: str, *args: Any, outputs: Any = None, **kwargs: Any) -> int | None:
    call = RecordedCall(op=op, schema=schema, args=args, kwargs=kwargs, outputs=outputs)
    return bytes_moved(call)


ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
COPY_ = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
VIEW = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"
MM_OUT = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
EMBEDDING = "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1) -> Tensor"
FOREACH = "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"


def test_inputs_are_read_and_outputs_written_once() -> None:
    x, y = tensor(10, storage=0), tensor(10, storage=1)
    assert moved("aten.add.Tensor", ADD, x, y, outputs=tensor(10, storage=2)) == 3 * 40


def test_what_is_changed_in_place_is_read_and_written() -> None:
    x, y = tensor(10, storage=0), tensor(10, storage=1)
    assert moved("aten.add_.Tensor", ADD_, x, y, outputs=tensor(10, storage=0)) == 3 * 40


def test_what_is_overwritten_is_not_read() -> None:
    x, y = tensor(10, storage=0), tensor(10, storage=1)
    assert moved("aten.copy_.default", COPY_, x, y, outputs=tensor(10, storage=0)) == 2 * 40
    out = tensor(4, 4, storage=2)
    a = tensor(4, 4)
    assert moved("aten.mm.out", MM_OUT, a, a, out=out, outputs=out) == 3 * 64


def test_a_view_and_memory_that_is_not_filled_move_nothing() -> None:
    x = tensor(10, storage=0)
    assert moved("aten.view.default", VIEW, x, [2, 5], outputs=tensor(2, 5, storage=0)) == 0
    assert moved("aten.empty.memory_format", "", [10], outputs=tensor(10)) == 0


def test_a_dimension_of_stride_0_counts_once() -> None:
    x = tensor(1000, 10, strides=[0, 1], storage=0)
    assert moved("aten.add.Tensor", ADD, x, 1, outputs=tensor(1000, 10)) == 40 + 40_000


def test_a_gather_reads_no_more_than_it_writes() -> None:
    weight, indices = tensor(100_000, 8), {"tensor": {"shape": [4], "dtype": "int64"}}
    assert moved("aten.embedding.default", EMBEDDING, weight, indices, outputs=tensor(4, 8)) == (
        2 * 4 * 8 * 4 + 4 * 8
    )


def test_tensors_in_lists_count_too() -> None:
    tensors = [tensor(2, storage=0), tensor(3, storage=1)]
    assert moved("aten._foreach_add_.Scalar", FOREACH, tensors, 1.0) == 2 * 20


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bool"])
def test_small_types_have_one_byte(dtype: str) -> None:
    x = {"tensor": {"shape": [8], "dtype": dtype}}
    assert moved("aten.clone.default", "aten::clone(Tensor self) -> Tensor", x, outputs=x) == 16


def test_what_the_record_does_not_tell_is_not_known() -> None:
    x = tensor(10)
    unknown = RecordedCall(op="aten.x.y", schema=None, args=(x,), kwargs={})
    assert bytes_moved(unknown) is None
    odd = {"tensor": {"shape": [8], "dtype": "quint2x4"}}
    assert moved("aten.clone.default", "", odd, outputs=odd) is None
