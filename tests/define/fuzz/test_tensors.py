from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from torchmark.define.fuzz import FuzzedParameter, FuzzedTensor, Fuzzer
from torchmark.errors import FuzzerDefinitionError


def _made(
    tensor: FuzzedTensor, seed: int = 0, **params: Any
) -> tuple[torch.Tensor, dict[str, Any]]:
    return tensor.make_tensor(params, np.random.RandomState(seed))


def test_roll_parameter_moves_size_and_steps_together_where_torch_ignores_it() -> None:
    tensor = FuzzedTensor(
        "x", (2, 3, 5), steps=(1, 4), roll_parameter="roll", probability_contiguous=1.0
    )
    shapes_and_strides = [
        (tuple(made.shape), made.stride())
        for made, _ in (_made(tensor, roll=roll) for roll in (0, 1, 2, 3, -1))
    ]
    assert shapes_and_strides == [
        ((2, 3, 5), (60, 20, 1)),
        ((5, 2, 3), (24, 12, 4)),
        ((3, 5, 2), (40, 2, 1)),
        ((2, 3, 5), (60, 20, 1)),
        ((3, 5, 2), (40, 2, 1)),
    ]


@given(
    sizes=st.lists(st.integers(1, 3), max_size=4),
    steps=st.lists(st.integers(1, 3), max_size=4),
    dim=st.integers(0, 5),
    roll=st.integers(-7, 7),
)
@settings(deadline=None)
def test_a_roll_is_that_of_torch_roll_after_cutting_and_filling_up(
    sizes: list[int], steps: list[int], dim: int, roll: int
) -> None:
    tensor = FuzzedTensor("x", sizes, steps=steps, dim_parameter="dim", roll_parameter="roll")
    made, properties = _made(tensor, dim=dim, roll=roll)
    padded_sizes = (sizes + [1] * 5)[:dim]
    padded_steps = (steps + [1] * 5)[:dim]
    assert list(made.shape) == torch.tensor(padded_sizes, dtype=torch.long).roll(roll).tolist()
    assert list(properties["steps"]) == (
        torch.tensor(padded_steps, dtype=torch.long).roll(roll).tolist()
    )
    assert len(properties["order"]) == dim


def test_a_roll_reads_the_parameter_that_is_drawn() -> None:
    fuzzer = Fuzzer(
        [FuzzedParameter("turn", 0, 2, "uniform")],
        [FuzzedTensor("x", (4, 5, 6), roll_parameter="turn")],
        seed=0,
    )
    shapes = {params["turn"]: tuple(tensors["x"].shape) for tensors, _, params in fuzzer.take(20)}
    assert shapes == {0: (4, 5, 6), 1: (6, 4, 5), 2: (5, 6, 4)}


def test_steps_leave_gaps_in_memory() -> None:
    made, properties = _made(FuzzedTensor("x", (4, 8), steps=(1, 4), probability_contiguous=1.0))
    assert made.shape == (4, 8)
    assert made.stride() == (32, 4)
    assert properties["steps"] == (1, 4)
    assert properties["is_contiguous"] is False


@pytest.mark.parametrize(("probability", "contiguous"), [(0.0, False), (1.0, True)])
def test_probability_contiguous_decides_the_order_in_memory(
    probability: float, contiguous: bool
) -> None:
    tensor = FuzzedTensor("x", (4, 5, 6), probability_contiguous=probability)
    for seed in range(20):
        made, properties = _made(tensor, seed=seed)
        assert made.is_contiguous() is properties["is_contiguous"] is contiguous
        assert (list(properties["order"]) == [0, 1, 2]) is contiguous


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64])
def test_whole_numbers_are_drawn_from_1_to_126(dtype: torch.dtype) -> None:
    made = FuzzedTensor.default_tensor_constructor(size=(5000,), dtype=dtype, anything="else")
    assert made.dtype == dtype
    assert (made.min().item(), made.max().item()) == (1, 126)


def test_booleans_are_drawn_too() -> None:
    made, properties = _made(FuzzedTensor("x", (64,), dtype=torch.bool))
    assert set(made.tolist()) == {True, False}
    assert properties["dtype"] == "torch.bool"


def test_a_constructor_replaces_the_default_one() -> None:
    def full_of(size: tuple[int, ...], dtype: torch.dtype, *, k: int, fill: float) -> torch.Tensor:
        return torch.full(size, fill, dtype=dtype)

    tensor = FuzzedTensor("x", ("k",), steps=(2,), tensor_constructor=full_of)
    made, _ = _made(tensor, k=3, fill=7.0)
    assert made.tolist() == [7.0, 7.0, 7.0]


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        ({"min_elements": 12}, True),
        ({"min_elements": 13}, False),
        ({"max_elements": 12}, True),
        ({"max_elements": 11}, False),
        ({"max_allocation_bytes": 12 * 5 * 8}, True),
        ({"max_allocation_bytes": 12 * 5 * 8 - 1}, False),
        ({}, True),
    ],
)
def test_a_limit_includes_its_own_value(limits: dict[str, Any], fits: bool) -> None:
    tensor = FuzzedTensor("x", (3, "k"), steps=(5,), dtype=torch.float64, **limits)
    assert tensor.satisfies_constraints({"k": 4}) is fits


def test_an_enormous_size_is_counted_without_overflow() -> None:
    tensor = FuzzedTensor("x", (2**62, 2**62), max_elements=10, max_allocation_bytes=10)
    assert not tensor.satisfies_constraints({})


def test_a_tensor_is_moved_to_its_device() -> None:
    made, _ = _made(FuzzedTensor("x", (2, 3), device="meta"))
    assert made.device.type == "meta"


def test_a_tensor_is_drawn_on_the_cpu_whatever_the_default_device() -> None:
    with torch.device("meta"):
        made, _ = _made(FuzzedTensor("x", (2, 3)))
    assert made.device.type == "cpu"


def test_cuda_means_the_device_cuda() -> None:
    moved_to = []

    class Raw(torch.Tensor):
        def to(self, device: Any) -> Any:  # type: ignore[override]  # the one call that matters
            moved_to.append(device)
            return torch.rand(3)

    def constructor(**_: Any) -> Any:
        return torch.rand(3).as_subclass(Raw)

    _made(FuzzedTensor("x", (3,), cuda=True, tensor_constructor=constructor))
    _made(FuzzedTensor("x", (3,), cuda=True, device="cuda:1", tensor_constructor=constructor))
    _made(FuzzedTensor("x", (3,), tensor_constructor=constructor))
    assert moved_to == [torch.device("cuda"), torch.device("cuda:1")]


def test_cuda_and_another_device_contradict_each_other() -> None:
    with pytest.raises(FuzzerDefinitionError, match=r"tensor 'x': cuda=True contradicts .*'cpu'"):
        FuzzedTensor("x", (3,), cuda=True, device="cpu")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(FuzzerDefinitionError, match="tensor 'x': 'abacus' is not a device"):
        FuzzedTensor("x", (3,), device="abacus")


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan, "half"])
def test_a_probability_outside_zero_to_one_is_refused(probability: Any) -> None:
    with pytest.raises(FuzzerDefinitionError, match="tensor 'x': probability_contiguous"):
        FuzzedTensor("x", (3,), probability_contiguous=probability)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"size": "k0"}, "size must be a tuple"),
        ({"size": 4}, "size must be a tuple"),
        ({"size": (2.5,)}, "size 2.5, which is not a whole number"),
        ({"size": (-1,)}, "size -1, which is less than 0"),
        ({"size": (2,), "steps": (0,)}, "steps 0, which is less than 1"),
        ({"size": (2,), "steps": "s"}, "steps must be a tuple"),
        ({"size": (2,), "dim_parameter": 1}, "dim_parameter must be the name"),
        ({"size": (2,), "roll_parameter": 1}, "roll_parameter must be the name"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_at_once(
    arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(FuzzerDefinitionError, match=f"tensor 'x': {complaint}"):
        FuzzedTensor("x", **arguments)


def test_a_tensors_name_must_be_a_string() -> None:
    nameless: Any = 3
    with pytest.raises(FuzzerDefinitionError, match="must be a string, not 3"):
        FuzzedTensor(nameless, (2,))


@pytest.mark.parametrize(
    ("arguments", "role"),
    [
        ({"size": ("z",)}, "size"),
        ({"size": (2,), "steps": ("z",)}, "steps"),
        ({"size": (2,), "dim_parameter": "z"}, "dim_parameter"),
        ({"size": (2,), "roll_parameter": "z"}, "roll_parameter"),
    ],
)
def test_a_name_that_is_no_parameter_is_refused_before_the_first_draw(
    arguments: dict[str, Any], role: str
) -> None:
    tensor = FuzzedTensor("x", **arguments)
    with pytest.raises(FuzzerDefinitionError, match=f"tensor 'x': {role} 'z' is not the name"):
        Fuzzer([FuzzedParameter("k", 1, 4, "uniform")], [tensor])
    with pytest.raises(FuzzerDefinitionError, match=f"tensor 'x': {role} 'z' is not the name"):
        tensor.satisfies_constraints({"k": 4})


@pytest.mark.parametrize("name", ["size", "dtype"])
def test_a_parameter_cannot_hide_an_argument_of_the_constructor(name: str) -> None:
    parameter = FuzzedParameter(name, 1, 4, "uniform")
    with pytest.raises(FuzzerDefinitionError, match=f"tensor 'x': a parameter named '{name}'"):
        Fuzzer([parameter], [FuzzedTensor("x", (2,))])
    assert len(list(Fuzzer([parameter], []).take(2))) == 2


@pytest.mark.parametrize(
    ("arguments", "value", "complaint"),
    [
        ({"size": ("k",)}, 2.5, "size 'k' is 2.5, which is not a whole number"),
        ({"size": ("k",)}, -2, "size 'k' is -2, which is less than 0"),
        ({"size": (2,), "steps": ("k",)}, 0, "steps 'k' is 0, which is less than 1"),
        ({"size": (2,), "dim_parameter": "k"}, -1, "dim_parameter 'k' is -1"),
        ({"size": (2,), "roll_parameter": "k"}, 0.5, "roll_parameter 'k' is 0.5"),
    ],
)
def test_a_drawn_value_that_makes_no_tensor_is_named(
    arguments: dict[str, Any], value: Any, complaint: str
) -> None:
    fuzzer = Fuzzer(
        [FuzzedParameter("k", distribution={value: 1.0})], [FuzzedTensor("x", **arguments)]
    )
    with pytest.raises(FuzzerDefinitionError, match=f"tensor 'x': {complaint}"):
        next(fuzzer.take(1))
