"""Recorded calls made again, in this process: they look as the record says, or say why not."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchmark
from torchmark.analyse.call_costs import bytes_moved
from torchmark.capture.traces.checking import check_call
from torchmark.define.recorded import call_text
from torchmark_probe.replay import contents
from torchmark_probe.replay.calls import complete_record, mismatches, rebuild
from torchmark_probe.replay.records import (
    CannotRebuildError,
    DamagedRecordError,
    UnknownOperatorError,
)
from torchmark_probe.replay.tensors import TooLargeError


def tensor(*shape: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": dtype, **more}}


def text(op: str, *args: Any, outputs: Any = ..., **kwargs: Any) -> str:
    call = {"op": op, "args": list(args), "kwargs": kwargs}
    return json.dumps(call if outputs is ... else {**call, "outputs": outputs})


def arguments(op: str, *args: Any, **kwargs: Any) -> list[Any]:
    return list(rebuild(text(op, *args, **kwargs))[1])


def run(op: str, *args: Any, outputs: Any = ..., **kwargs: Any) -> Any:
    operator, made, named = rebuild(text(op, *args, outputs=outputs, **kwargs))
    return operator(*made, **named)


def drawn(*shape: int, dtype: str, **values: Any) -> torch.Tensor:
    made = arguments("aten.clone.default", tensor(*shape, dtype=dtype, values=values))[0]
    assert isinstance(made, torch.Tensor)
    return made


def test_the_same_record_and_seed_give_the_same_bytes_and_leave_torchs_own_numbers_alone() -> None:
    call = text("aten.add.Tensor", tensor(50), tensor(50, dtype="int64", values={"max": 9}))
    before = torch.get_rng_state()
    first, again, other = (rebuild(call, seed)[1] for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))


def test_strides_offset_and_shared_memory_are_kept() -> None:
    whole = tensor(4, 6, storage=0, storage_bytes=200, offset=2)
    part = tensor(6, 2, storage=0, storage_bytes=200, offset=3, strides=[1, 6])
    apart = tensor(4, 6, storage=1, storage_bytes=96)
    one, two, three = arguments("aten.addcmul.default", whole, part, apart)
    assert (two.stride(), two.storage_offset()) == ((1, 6), 3)
    one.zero_()
    assert not two.any()
    assert three.any()
    assert one.untyped_storage().nbytes() >= 200


def test_an_expanded_tensor_and_windows_that_overlap_are_filled() -> None:
    rows, windows = arguments(
        "aten.mul.Tensor",
        tensor(5, 3, strides=[0, 1], values={"min": 2.0, "max": 3.0}),
        tensor(4, 8, strides=[2, 1], values={"min": 5.0, "max": 6.0}),
    )
    assert rows.stride() == (0, 1)
    assert 2 <= rows.min() < rows.max() <= 3
    assert 5 <= windows.min() < windows.max() <= 6
    assert torch.equal(windows[0, 2:], windows[1, :-2])


@given(
    low=st.integers(-50, 50),
    width=st.integers(0, 300),
    count=st.integers(70, 300),
    order=st.sampled_from(["ascending", "descending", "none"]),
    data=st.data(),
)
def test_integers_keep_their_range_order_sum_and_number_of_different_ones(
    low: int, width: int, count: int, order: str, data: st.DataObject
) -> None:
    seen = data.draw(st.lists(st.integers(low, low + width), min_size=count, max_size=count))
    known = {"min": min(seen), "max": max(seen), "distinct": len(set(seen)), "order": order}
    made = drawn(count, dtype="int64", **known).tolist()
    assert (min(made), max(made)) == (min(seen), max(seen))
    assert len(set(made)) == len(set(seen)) or (0 not in made and min(made) < 0)
    if order != "none":
        assert made == sorted(made, reverse=order == "descending")
    repeats = [value % 4 for value in seen]
    summed = {"min": min(repeats), "max": max(repeats), "sum": sum(repeats), "order": "none"}
    assert run("aten.repeat_interleave.Tensor", tensor(
        count, dtype="int64", values={**summed, "distinct": len(set(repeats))}
    )).shape == (sum(repeats),)  # fmt: skip


LABELS = [
    pytest.param((400,), [0, 3, 9, 149], id="few and far between"),
    pytest.param((2, 12, 12), list(range(150)), id="of pixels"),
    pytest.param((2, 12, 12), [15, 70, 149], id="few of pixels"),
    pytest.param((100,), [7], id="one"),
    pytest.param((100,), [], id="none"),
    pytest.param((9,), [1, 2], id="short"),
]


@pytest.mark.parametrize("ignored", [-100, 255])
@pytest.mark.parametrize(("shape", "classes"), LABELS)
def test_a_loss_that_ignores_a_label_runs_forward_and_backward(
    shape: tuple[int, ...], classes: list[int], ignored: int
) -> None:
    drawing = random.Random(5)
    count = math.prod(shape)
    flat = [drawing.choice(classes or [ignored]) for _ in range(count)]
    flat[count // 3 :: 2] = [ignored] * len(flat[count // 3 :: 2])
    scores = torch.randn(shape[0], 150, *shape[1:], requires_grad=True)
    with torchmark.Capture() as capture:
        labels = torch.tensor(flat).reshape(shape)
        loss = torch.nn.functional.cross_entropy(scores, labels, ignore_index=ignored)
        torch.autograd.backward(loss)
    losses = [call for call in capture.trace().calls if "nll_loss" in call.op]
    assert len(losses) == 2
    for call in losses:
        for seed in range(5):
            operator, args, kwargs = rebuild(call_text(call), seed)
            operator(*args, **kwargs)
            (target,) = [
                each
                for each in args
                if isinstance(each, torch.Tensor) and each.dtype == torch.int64
            ]
            assert ignored in target
            assert set(classes) != {7} or target.flatten().tolist().count(7) == flat.count(7)


def test_a_record_from_before_labels_were_set_apart_is_repaired() -> None:
    known = {"min": -100, "max": 18, "sum": -100 * 200 + 9 * 200, "distinct": 20, "order": "none"}
    target = tensor(400, dtype="int64", values=known)
    made = arguments("aten.nll_loss_forward.default", tensor(400, 19), target, None, 1, -100)[1]
    assert set(made.tolist()) <= {-100, *range(19)}
    assert int((made == -100).sum()) == 200


def test_padding_and_classes_of_one_hot_are_indices_that_exist() -> None:
    ids = torch.randint(0, 500, (8, 40))
    ids[:, 25:] = 499
    with torchmark.Capture() as capture:
        table = torch.nn.Embedding(500, 4, padding_idx=499)
        torch.autograd.backward(table(ids).sum())
        torch.nn.functional.one_hot(ids)
        torch.nn.functional.one_hot(ids, 600)
    with torch.no_grad():
        for call in capture.trace().calls:
            record = call_text(call)
            operator, args, kwargs = rebuild(record)
            assert mismatches(record, args, kwargs, operator(*args, **kwargs)) == []


@pytest.mark.parametrize("order", ["none", "ascending"])
@pytest.mark.parametrize("ignored", [-100, 255])
def test_values_that_lie_apart_are_no_ends_of_a_range(ignored: int, order: str) -> None:
    """A label between the ignored one and the classes would be out of bounds."""
    seen = [ignored] * 100 + [each % 19 for each in range(200)]
    known = {
        "min": min(seen), "max": max(seen), "sum": sum(seen), "distinct": 20, "order": order,
        "apart": [[ignored, 100]], "rest": [0, 18],
    }  # fmt: skip
    made = drawn(300, dtype="int64", **known).tolist()
    assert made.count(ignored) == 100
    assert set(made) == {ignored, *range(19)}
    assert sum(made) == sum(seen)
    assert order == "none" or made == sorted(made)
    of_rows = {**known, "apart": [[ignored, 400]], "sum": 4 * sum(seen)}
    rows = tensor(4, 300, dtype="int64", strides=[0, 1], values=of_rows)
    assert int((arguments("aten.clone.default", rows)[0] == ignored).sum()) == 400


def test_only_values_apart_are_all_of_them() -> None:
    known = {"min": -1, "max": -1, "apart": [[-1, 70]], "rest": [0, 0]}
    assert drawn(70, dtype="int64", **known).tolist() == [-1] * 70


@pytest.mark.parametrize(
    "apart", [3, [3], [[1, -1]], [["a", 1]], [[1, 2**40]], [[2**70, 1]], [[1, 2, 3]]]
)
def test_damaged_values_apart_are_refused(apart: object) -> None:
    with pytest.raises(DamagedRecordError):
        drawn(70, dtype="int64", min=0, max=9, apart=apart, rest=[0, 9])


def test_integers_that_somebody_may_divide_by_are_not_zero_unless_they_were() -> None:
    some = {"min": -9, "max": 9, "distinct": 18, "order": "none"}
    assert drawn(500, dtype="int64", **some).all()
    assert not drawn(500, dtype="int64", **{**some, "distinct": 19}).all()


def test_short_lists_are_exact_and_as_many_booleans_are_true() -> None:
    assert drawn(2, 2, dtype="int32", list=[3, -1, 7, 7]).tolist() == [[3, -1], [7, 7]]
    assert drawn(2, dtype="bool", true=1, list=[False, True]).tolist() == [False, True]
    assert int(drawn(1000, 7, dtype="bool", true=1234).sum()) == 1234


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_floats_lie_between_the_recorded_ends(dtype: str) -> None:
    made = drawn(100, dtype=dtype, min=0.25, max=0.75).double()
    assert (float(made.min()), float(made.max())) == (0.25, 0.75)
    assert len(set(made.tolist())) > 4
    everything = torch.finfo(torch.float32).max
    assert drawn(100, dtype="float32", min=-everything, max=everything).isfinite().all()
    without_end = drawn(100, dtype=dtype, min={"float": "-inf"}, max={"float": "inf"})
    assert without_end.double().isfinite().all()


@pytest.mark.parametrize(("low", "high"), [(-2.0, 40.0), (0.0, 1.0), (3.0, 5.0)])
def test_a_symmetric_matrix_becomes_a_positive_definite_one(low: float, high: float) -> None:
    known = {"symmetric": True, "min": low, "max": high}
    made = drawn(3, 100, 100, dtype="float32", **known)
    assert low <= made.min() < made.max() <= high
    assert torch.equal(made, made.mT)
    assert not torch.linalg.cholesky_ex(made).info.any()


def test_a_symmetric_matrix_with_a_larger_negative_end_is_no_positive_definite_one() -> None:
    made = drawn(9, 9, dtype="float32", symmetric=True, min=-4.0, max=1.0)
    assert torch.equal(made, made.T)
    assert made.min() < -1


def test_bits_types_and_gradients_are_kept() -> None:
    made = arguments("aten.cat.default", [
        tensor(3, dtype="complex64", conj=True), tensor(3, neg=True), tensor(3, requires_grad=True),
        tensor(3, dtype="uint8"),
    ])[0]  # fmt: skip
    assert (made[0].is_conj(), made[1].is_neg(), made[2].requires_grad) == (True, True, True)
    assert [each.dtype for each in made] == [
        torch.complex64, torch.float32, torch.float32, torch.uint8,
    ]  # fmt: skip


def test_lists_of_tensors_with_none_among_them_and_tagged_values_arrive() -> None:
    index = tensor(2, dtype="int64", values={"list": [1, 0]})
    assert run("aten.index.Tensor", tensor(4, 3), [None, index]).shape == (4, 2)
    total = run("aten._foreach_add.List", [tensor(2), tensor(3)], [tensor(2), tensor(3)], alpha=2)
    assert [each.shape for each in total] == [(2,), (3,)]
    assert run("aten.clamp.default", tensor(2), {"float": "-inf"}, 0.5).max() <= 0.5
    converted = run(
        "aten._to_copy.default", tensor(2, 2, 2, 2, device="cuda:1"), dtype={"dtype": "float64"},
        device={"device": "cuda:0"}, memory_format={"memory_format": "channels_last"},
    )  # fmt: skip
    assert (converted.dtype, converted.device.type) == (torch.float64, "cpu")
    assert converted.is_contiguous(memory_format=torch.channels_last)
    coins = text("aten.bernoulli.default", tensor(99), generator={"generator": "cpu"})
    tosses = [operator(*args, **named) for operator, args, named in map(rebuild, [coins, coins])]
    assert torch.equal(*tosses)
    assert not run("aten.empty.memory_format", [2], pin_memory=True).is_pinned()


def test_a_sparse_tensor_is_put_together_from_its_parts() -> None:
    count = 100
    parts = {
        "indices": tensor(2, count, dtype="int64", values={"min": 0, "max": 299}),
        "values": tensor(count),
    }
    made = arguments(
        "aten._to_dense.default",
        tensor(300, 9, layout="sparse_coo", parts=parts, coalesced=True),
    )[0]
    assert (made.layout, made._nnz(), made.is_coalesced()) == (torch.sparse_coo, count, True)
    checked = torch.sparse_coo_tensor(
        made.indices(), made.values(), made.shape, check_invariants=True
    )
    assert checked.coalesce()._nnz() == count


def test_contents_that_nobody_knows_are_indices_into_the_other_tensors() -> None:
    weight, indices = tensor(50, 7, dtype="float16"), tensor(3, 4, dtype="int64")
    assert run("aten.embedding.default", weight, indices).shape == (3, 4, 7)
    offsets = tensor(20, dtype="int64")
    made = arguments("aten._embedding_bag.default", weight, tensor(90, dtype="int64"), offsets)
    assert made[2].tolist() == sorted(made[2].tolist())
    assert made[2][0] == 0


@pytest.mark.parametrize(
    ("op", "size"), [("aten.nonzero.default", [17, 2]), ("aten.unique_consecutive.default", [31])]
)
def test_an_output_that_is_as_long_as_contents_say_is_as_long_again(op: str, size: Any) -> None:
    given = tensor(9, 9, values={"min": 0.0, "max": 1.0})
    result = run(op, given, outputs=tensor(*size, dtype="int64"))
    assert list((result if op == "aten.nonzero.default" else result[0]).shape) == size


def test_an_operator_that_changes_its_arguments_shape_can_run_again_and_again() -> None:
    operator, args, kwargs = rebuild(text("aten.unsqueeze_.default", tensor(2), 0))
    assert {operator(*args, **kwargs).shape for _ in range(99)} == {(1, 2)}


def test_what_was_on_meta_is_there_and_takes_no_memory() -> None:
    huge = tensor(10**6, 10**6, device="meta")
    product = run("aten.mm.default", huge, huge, outputs=huge)
    assert (product.device.type, product.shape) == ("meta", (10**6, 10**6))
    assert run("aten.zeros.default", [10**12], device={"device": "meta"}).is_meta


@pytest.mark.parametrize(
    "call",
    [
        text("aten.neg.default", tensor(250 * 10**9)),
        text("aten.neg.default", tensor(1), outputs=tensor(250 * 10**9)),
    ],
)
def test_what_does_not_fit_is_refused_before_memory_is_taken(call: str) -> None:
    with pytest.raises(TooLargeError, match=r"the call needs [12]\.\d TB, but only [\d.]+ GB"):
        rebuild(call)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aten.nope.default", "has no operator aten.nope.default"),
        ("aten.add.nope", "has no operator aten.add.nope"),
        ("aten.add.__class__", "has no operator"),
        ("aten.__class__.default", "has no operator"),
        ("load_library.__call__.default", "torch.ops has no"),
        ("os.system.default", "torch.ops has no"),
        ("aten.add", "is not an operator name"),
        ("aten.add.Tensor; import os", "is not an operator name"),
        ("aten.from_file.default", "works on files"),
        (["aten"], "is not an operator name"),
        (None, "is not an operator name"),
    ],
)
def test_a_name_that_is_no_operator_is_said(name: Any, said: str) -> None:
    with pytest.raises(UnknownOperatorError, match=said):
        rebuild(json.dumps({"op": name, "args": [], "kwargs": {}}))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (tensor(-1), "-1 is not allowed in the shape"),
        (tensor(2, 3, strides=[-3, 1]), "-3 is not allowed in the strides"),
        (tensor(2, 3, strides=[1]), "1 strides for 2 sizes"),
        (tensor(2, 3, storage_bytes=20), "exceed the memory of 20 bytes"),
        (tensor(2, offset=1, storage_bytes=8), "exceed the memory of 8 bytes"),
        (tensor(2**62, 2**62), "too many elements"),
        (tensor(2, dtype="load"), "has no dtype 'load'"),
        (tensor(2, dtype="int64", values={"list": [1]}), "are not the 2 elements"),
        (tensor(2, dtype="int64", values={"list": ["1", "2"]}), "are not the 2 elements"),
        (tensor(2, dtype="int64", values={"min": 3, "max": 1}), "integers from 3 to 1"),
        (tensor(2, dtype="bool", values={"true": 3}), "3 of 2 booleans"),
        (tensor(2, values={"min": 2.0, "max": 1.0}), "floats from 2.0 to 1.0"),
        (tensor(2, values={"max": {"float": "nan"}}), "floats from 0.0 to nan"),
        (tensor(2, values={"max": 10**400}), "is not a float"),
        (tensor(2, layout="sparse_coo", parts={}), "without its indices and values"),
        ({"tensor": 3}, "does not describe a tensor"),
        ({"tuple": 3}, "not the content of a tuple"),
        ({"dict": [1]}, "are not pairs"),
        ({"float": "1"}, "is not a float"),
        ({"device": "cpu; x"}, "is not a device"),
        ({"memory_format": "load"}, "has no memory format"),
        ({"code": "1"}, "is not a known kind of value"),
        ({"float": "inf", "dtype": "int8"}, "does not have exactly one key"),
        ({"opaque": "Process"}, "has the type 'Process', which a trace cannot store"),
    ],
)
def test_a_value_that_means_nothing_is_said(value: Any, said: str) -> None:
    with pytest.raises(CannotRebuildError, match=said):
        rebuild(text("aten.neg.default", value))


@pytest.mark.parametrize("damaged", ["", "[", "[" * 10**5, "[]", '{"op": 1, "args": {}}', "null"])
def test_a_text_that_is_no_call_is_said(damaged: str) -> None:
    with pytest.raises(DamagedRecordError):
        rebuild(damaged)


GIVEN = torch.zeros(2, 3)


def compared(outputs: Any, result: Any) -> list[str]:
    args = [tensor(2, 3, storage=0, storage_bytes=24)]
    call = {"op": "aten.t.default", "args": args, "kwargs": {}, "outputs": outputs}
    return mismatches(json.dumps(call), [GIVEN], {}, result)


@pytest.mark.parametrize(
    ("outputs", "result", "said"),
    [
        (tensor(3), torch.zeros(4), "output 0: its shape is [4] instead of the recorded [3]"),
        (tensor(3), torch.zeros(3, dtype=torch.int8), "its dtype is torch.int8"),
        (tensor(3, 2), GIVEN.t(), "its strides are [1, 3] instead of the recorded [2, 1]"),
        (tensor(3), torch.zeros(3).to_sparse(), "its layout is torch.sparse_coo"),
        ([tensor(3), tensor(3)], [torch.zeros(3)], "1 output tensors instead of the recorded 2"),
        (tensor(6, storage=0), torch.zeros(6), "it is not a view of an argument"),
    ],
)
def test_what_differs_is_said(outputs: Any, result: Any, said: str) -> None:
    (sentence,) = compared(outputs, result)
    assert said in sentence


@pytest.mark.parametrize(
    ("outputs", "result"),
    [
        (tensor(3, 2, strides=[1, 3], storage=0), GIVEN.t()),
        ({"tuple": [tensor(3), None, 1]}, (torch.zeros(3), None, 1)),
        (tensor(1, 3, strides=[7, 1]), torch.zeros(1, 3)),
        (tensor(0, 3, strides=[9, 9]), torch.zeros(0, 3)),
        (2.5, 2.5),
    ],
)
def test_what_is_as_recorded_is_passed_over(outputs: Any, result: Any) -> None:
    assert compared(outputs, result) == []


def test_a_record_that_does_not_know_what_came_back_has_nothing_to_say() -> None:
    assert mismatches('{"op": "aten.t.default"}', [], {}, GIVEN) == []


@pytest.mark.parametrize(
    ("call", "moved"),
    [
        (text("aten.mm.default", tensor(4, 8), tensor(8, 2)), 4 * (32 + 16 + 8)),
        (text("aten.t.default", tensor(4, 8)), 0),
        (text("aten.add_.Tensor", tensor(4, 8), tensor(8)), 4 * (32 + 32 + 8)),
        (text("aten.add.Tensor", tensor(3), tensor(3), alpha=2), 4 * 9),
        (text("aten.topk.default", tensor(9), 2), 4 * 9 + 2 * (4 + 8)),
        (text("aten._foreach_mul_.Scalar", [tensor(3), tensor(5)], 2.0), 2 * 4 * 8),
        (text("aten.split.Tensor", tensor(6), 3), 0),
        (text("aten._local_scalar_dense.default", tensor()), 4),
    ],
)
def test_a_record_without_outputs_is_completed_by_what_came_back(call: str, moved: int) -> None:
    operator, args, kwargs = rebuild(call)
    completed = complete_record(call, args, kwargs, operator(*args, **kwargs))
    assert bytes_moved(check_call(json.loads(json.dumps(completed)))) == moved


def test_a_record_is_not_completed_where_it_knows_its_outputs_or_they_are_sparse() -> None:
    known = text("aten.neg.default", tensor(2), outputs=tensor(2))
    operator, args, kwargs = rebuild(known)
    assert complete_record(known, args, kwargs, operator(*args)) is None
    unknown = text("aten.to_sparse.default", tensor(2))
    operator, args, kwargs = rebuild(unknown)
    assert complete_record(unknown, args, kwargs, operator(*args)) is None


def test_a_region_that_is_repeated_is_valid_too() -> None:
    rows = torch.rand(1, 5).expand(7, 5)
    contents.make_regions(rows)
    assert (rows[:, 0] == 0).all()
    assert (rows[:, 1:3] <= rows[:, 3:]).all()


def test_regions_of_images_are_valid() -> None:
    """torchvision's `roi_align` writes outside of its memory for the index of another image."""
    library: Any = torch.library.Library("regions_of_test", "DEF")  # type: ignore[no-untyped-call]
    library.define("align(Tensor self, Tensor rois) -> Tensor")
    recorded = tensor(100, 5, values={"min": 0.0, "max": 90.0})
    _, regions = arguments("regions_of_test.align.default", tensor(2, 3, 8, 8), recorded)
    index, low, high = regions[:, 0], regions[:, 1:3], regions[:, 3:]
    assert index.tolist() == [0.0] * 100
    assert bool((low <= high).all())
    assert float(high.max()) > 80
