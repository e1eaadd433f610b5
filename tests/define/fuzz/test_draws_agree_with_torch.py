"""The same seed gives torch's own values: what is drawn is compared with torch's Fuzzer itself."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from .comparison import OURS, THEIRS, assert_both_draw_the_same, torch_accepting_dicts

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("minval", "maxval", "distribution"),
    [
        (1, 7, "uniform"),
        (-3, 2**40, "uniform"),
        (5, 5, "uniform"),
        (0.25, 4, "uniform"),
        (1, 4.5, "uniform"),
        (1, 100_000, "loguniform"),
        (7, 7, "loguniform"),
        (2**55 + 12345, 2**55 + 12345, "loguniform"),
        (1.5, 90.5, "loguniform"),
        (0.1, 0.9, "loguniform"),
    ],
)
def test_a_range_gives_torchs_values(
    minval: float, maxval: float, distribution: str, seed: int
) -> None:
    ours, theirs = (
        library.FuzzedParameter("k", minval, maxval, distribution) for library in (OURS, THEIRS)
    )
    state, their_state = np.random.RandomState(seed), np.random.RandomState(seed)
    for _ in range(20):
        drawn, expected = ours.sample(state), theirs.sample(their_state)
        assert drawn == expected
        assert type(drawn) is type(expected)


@settings(deadline=None)
@given(
    seed=SEEDS,
    weights=st.lists(st.integers(0, 100), min_size=1, max_size=12).filter(
        lambda each: sum(each) > 0
    ),
)
def test_a_dict_gives_torchs_values(seed: int, weights: list[int]) -> None:
    distribution = {f"choice {i}": weight / sum(weights) for i, weight in enumerate(weights)}
    with torch_accepting_dicts():
        theirs = THEIRS.FuzzedParameter("k", distribution=distribution)
    ours = OURS.FuzzedParameter("k", distribution=distribution)
    state, their_state = np.random.RandomState(seed), np.random.RandomState(seed)
    assert [ours.sample(state) for _ in range(30)] == [
        theirs.sample(their_state) for _ in range(30)
    ]


def _everything(library: Any, seed: int, probability_contiguous: float, dtype: torch.dtype) -> Any:
    parameter, alias = library.FuzzedParameter, library.ParameterAlias
    return library.Fuzzer(
        parameters=[
            parameter("dim", distribution={0: 0.05, 1: 0.25, 2: 0.3, 3: 0.2, 4: 0.2}, strict=True),
            [parameter(f"any_{i}", 1, 9, "loguniform") for i in range(3)],
            parameter("two", 2, 2, "uniform"),
            [
                parameter(
                    f"k{i}", distribution={alias(f"any_{i}"): 0.7, alias("two"): 0.3}, strict=True
                )
                for i in range(3)
            ],
            [
                parameter(f"y_k{i}", distribution={alias(f"k{i}"): 0.8, 1: 0.2}, strict=i == 0)
                for i in range(3)
            ],
            [parameter(f"step_{i}", distribution={1: 0.5, 2: 0.3, 3: 0.2}) for i in range(3)],
            parameter("entropy", 0.0, 1.0, "uniform"),
        ],
        tensors=[
            library.FuzzedTensor(
                "x",
                size=("k0", "k1", "k2"),
                steps=("step_0", "step_1", "step_2"),
                probability_contiguous=probability_contiguous,
                min_elements=1,
                max_elements=200,
                max_allocation_bytes=6000,
                dim_parameter="dim",
                dtype=dtype,
            ),
            [
                library.FuzzedTensor("y", size=("y_k0", 3, "y_k2"), dim_parameter="dim"),
                library.FuzzedTensor("z", size=("y_k0", 4, "k1"), steps=(2, "step_1"), dtype=dtype),
            ],
        ],
        constraints=[lambda params: params["k0"] != 5, lambda params: params["entropy"] > 0.1],
        seed=seed,
    )


@settings(max_examples=150, deadline=None)
@given(
    seed=SEEDS,
    probability_contiguous=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    dtype=st.sampled_from(
        [torch.float32, torch.float64, torch.float16, torch.int32, torch.uint8, torch.complex64]
    ),
)
def test_a_whole_fuzzer_gives_torchs_tensors_properties_parameters_and_rejection_rate(
    seed: int, probability_contiguous: float, dtype: torch.dtype
) -> None:
    assert_both_draw_the_same(
        lambda library: _everything(library, seed, probability_contiguous, dtype), n=4
    )


def test_giving_up_counts_the_draws_that_torch_counts() -> None:
    def rate_after_giving_up(library: Any) -> Any:
        fuzzer = library.Fuzzer(
            parameters=[library.FuzzedParameter("k", 1, 600, "uniform")],
            tensors=[library.FuzzedTensor("x", ("k",))],
            constraints=[lambda params: params["k"] == 7],
            seed=5,
        )
        with pytest.raises(ValueError, match=r"\w"):
            list(fuzzer.take(100))
        return fuzzer.rejection_rate

    assert rate_after_giving_up(OURS) == rate_after_giving_up(THEIRS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64])
@pytest.mark.parametrize("seed", range(30))
def test_byte_limits_reject_what_torch_rejects(seed: int, dtype: torch.dtype) -> None:
    assert_both_draw_the_same(
        lambda library: library.Fuzzer(
            parameters=[
                library.FuzzedParameter("k", 1, 64, "uniform"),
                library.FuzzedParameter("step", 1, 4, "uniform"),
            ],
            tensors=[
                library.FuzzedTensor(
                    "x", ("k", 2), steps=("step", 1), max_allocation_bytes=512, dtype=dtype
                )
            ],
            seed=seed,
        ),
        n=3,
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_constructor_is_called_as_torch_calls_it(seed: int) -> None:
    def constructor(size: tuple[int, ...], dtype: torch.dtype, **params: Any) -> torch.Tensor:
        assert sorted(params) == ["k", "scale"]
        return torch.randn(size, dtype=dtype).mul_(params["scale"])

    assert_both_draw_the_same(
        lambda library: library.Fuzzer(
            parameters=[
                library.FuzzedParameter("k", 2, 9, "uniform"),
                library.FuzzedParameter("scale", 0.5, 2.0, "uniform"),
            ],
            tensors=[
                library.FuzzedTensor("x", ("k", 3), steps=(2, 1), tensor_constructor=constructor)
            ],
            seed=seed,
        ),
        n=3,
    )


@pytest.mark.parametrize("seed", [11, 15, 29])
def test_the_example_of_a_matrix_and_a_column_that_broadcasts_agrees_with_torch(seed: int) -> None:
    def describe(library: Any) -> Any:
        return library.Fuzzer(
            parameters=[
                library.FuzzedParameter("k0", 16, 16 * 1024, "loguniform"),
                library.FuzzedParameter("k1", 16, 16 * 1024, "loguniform"),
            ],
            tensors=[
                library.FuzzedTensor(name="x", size=("k0", "k1"), probability_contiguous=0.75),
                library.FuzzedTensor(name="y", size=("k0", 1), probability_contiguous=0.75),
            ],
            seed=seed,
        )

    assert_both_draw_the_same(describe, n=1)
    ((tensors, _, params),) = describe(OURS).take(1)
    assert tensors["x"].shape == (params["k0"], params["k1"])
    assert tensors["y"].shape == (params["k0"], 1)
    assert (tensors["x"] + tensors["y"]).shape == tensors["x"].shape


def test_a_rejection_rate_adds_up_over_takes_as_torchs_does() -> None:
    def rates_between_takes(library: Any) -> Any:
        fuzzer = library.Fuzzer(
            parameters=[library.FuzzedParameter("k", 1, 100, "uniform")],
            tensors=[],
            constraints=[lambda params: params["k"] > 60],
            seed=3,
        )
        rates = [fuzzer.rejection_rate]
        for n in (1, 7):
            list(fuzzer.take(n))
            rates.append(fuzzer.rejection_rate)
        return rates

    never, once, twice = rates_between_takes(OURS)
    assert never == 0.0
    assert 0 < once != twice
    assert [never, once, twice] == rates_between_takes(THEIRS)


def test_torchs_global_generator_is_left_where_torch_leaves_it() -> None:
    def number_drawn_after_a_sample(library: Any) -> Any:
        fuzzer = library.Fuzzer([], [library.FuzzedTensor("x", (3, 4))], seed=5)
        next(fuzzer.take(1))
        return torch.rand(()).item()

    assert number_drawn_after_a_sample(OURS) == number_drawn_after_a_sample(THEIRS)
