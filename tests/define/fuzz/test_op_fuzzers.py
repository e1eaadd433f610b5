from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest
import torch

import torchmark.op_fuzzers
from torchmark.errors import FuzzerDefinitionError

from .comparison import assert_same_sample, first_parameters, torch_accepting_dicts

MODULES = {
    "UnaryOpFuzzer": "unary",
    "BinaryOpFuzzer": "binary",
    "SpectralOpFuzzer": "spectral",
    "UnaryOpSparseFuzzer": "sparse_unary",
    "BinaryOpSparseFuzzer": "sparse_binary",
}
"""The five classes and the module of each, the same in both libraries."""

# Seeds whose first tensors have at most 300,000 elements: for each number of dimensions one
# without and one with steps, and of two operands one that broadcasts.
SMALL_DENSE_SAMPLES = [
    *[("UnaryOpFuzzer", seed) for seed in (11, 15, 32, 17, 74, 576)],
    *[("BinaryOpFuzzer", seed) for seed in (57, 367, 4, 614, 249, 539, 1357)],
    *[("SpectralOpFuzzer", seed) for seed in (11, 86, 33, 452, 440, 1324)],
]

# One of every number of dimensions, hybrid or not, coalesced or not.
SMALL_SPARSE_SAMPLES = [
    *[("UnaryOpSparseFuzzer", seed) for seed in (21, 15, 77, 84, 9, 45, 296, 263, 465, 276)],
    *[("BinaryOpSparseFuzzer", seed) for seed in (2, 50, 9, 45, 18, 28, 465, 7, 376, 319)],
]


def _ours(name: str) -> Any:
    return getattr(importlib.import_module(f"torchmark.op_fuzzers.{MODULES[name]}"), name)


def _theirs(name: str) -> Any:
    module = importlib.import_module(f"torch.utils.benchmark.op_fuzzers.{MODULES[name]}")
    return getattr(module, name)


@pytest.mark.parametrize("name", MODULES)
def test_a_ready_made_fuzzer_can_be_made_where_torchs_own_raises(name: str) -> None:
    with pytest.raises(AssertionError):
        _theirs(name)(seed=0)
    assert _ours(name)(seed=0).rejection_rate == 0.0
    assert getattr(torchmark.op_fuzzers, name) is _ours(name)


@pytest.mark.parametrize("name", MODULES)
def test_a_ready_made_fuzzer_has_torchs_signature(name: str) -> None:
    ours, theirs = (
        [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in inspect.signature(library(name)).parameters.values()
        ]
        for library in (_ours, _theirs)
    )
    assert ours == theirs


@pytest.mark.parametrize("name", MODULES)
def test_a_ready_made_fuzzer_draws_torchs_parameters(name: str) -> None:
    for seed in range(60):
        with torch_accepting_dicts():
            theirs = _theirs(name)(seed=seed)
        ours = _ours(name)(seed=seed)
        drawn = first_parameters(ours, seed, "_draw_parameters")
        assert list(drawn.items()) == list(first_parameters(theirs, seed, "_generate").items())
        assert ours.rejection_rate == theirs.rejection_rate


@pytest.mark.parametrize(("name", "seed"), SMALL_DENSE_SAMPLES + SMALL_SPARSE_SAMPLES)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # torch's own call
def test_a_ready_made_fuzzer_makes_torchs_tensors(name: str, seed: int) -> None:
    with torch_accepting_dicts():
        expected = next(iter(_theirs(name)(seed=seed, dtype=torch.float32).take(1)))
    drawn = next(iter(_ours(name)(seed=seed, dtype=torch.float32).take(1)))
    assert_same_sample(drawn, expected)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("UnaryOpFuzzer", torch.float32),
        ("BinaryOpFuzzer", torch.float32),
        ("SpectralOpFuzzer", torch.float64),
        ("UnaryOpSparseFuzzer", torch.float32),
        ("BinaryOpSparseFuzzer", torch.float32),
    ],
)
def test_a_ready_made_fuzzer_passes_its_dtype_on(name: str, default: torch.dtype) -> None:
    seed = next(seed for each, seed in SMALL_DENSE_SAMPLES + SMALL_SPARSE_SAMPLES if each == name)
    for arguments, dtype in (({}, default), ({"dtype": torch.int32}, torch.int32)):
        ((tensors, _, _),) = _ours(name)(seed=seed, **arguments).take(1)
        assert {tensor.dtype for tensor in tensors.values()} == {dtype}


@pytest.mark.parametrize("name", MODULES)
def test_a_ready_made_fuzzer_passes_cuda_on(name: str) -> None:
    devices = {tensor._device for tensor in _ours(name)(seed=0, cuda=True)._tensors}
    assert devices == {torch.device("cuda")}


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
def test_spectral_sizes_are_regular_as_often_as_asked_for(probability: float) -> None:
    fuzzer = _ours("SpectralOpFuzzer")(seed=0, probability_regular=probability)
    state = np.random.RandomState(0)
    regular = [
        params[f"k{i}"] == params[f"k_regular_{i}"]
        for params in (fuzzer._draw_parameters(state) for _ in range(100))
        for i in range(3)
    ]
    assert abs(sum(regular) / len(regular) - probability) < 0.1


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_spectral_parameters_are_torchs_whatever_the_share_of_regular_sizes(
    probability: float,
) -> None:
    for seed in range(20):
        with torch_accepting_dicts():
            theirs = _theirs("SpectralOpFuzzer")(seed=seed, probability_regular=probability)
        ours = _ours("SpectralOpFuzzer")(seed=seed, probability_regular=probability)
        assert first_parameters(ours, seed, "_draw_parameters") == first_parameters(
            theirs, seed, "_generate"
        )


def test_a_share_of_regular_sizes_above_one_is_refused() -> None:
    with pytest.raises(FuzzerDefinitionError, match="parameter 'k0'"):
        _ours("SpectralOpFuzzer")(seed=0, probability_regular=1.5)


def test_regular_sizes_are_torchs() -> None:
    ours, theirs = (
        importlib.import_module(f"{package}.op_fuzzers.spectral")
        for package in ("torchmark", "torch.utils.benchmark")
    )
    assert ours.REGULAR_SIZES == theirs.REGULAR_SIZES
    assert (ours.MIN_DIM_SIZE, ours.MAX_DIM_SIZE) == (theirs.MIN_DIM_SIZE, theirs.MAX_DIM_SIZE)
