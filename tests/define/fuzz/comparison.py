"""Builds one description with torchmark and with torch, and compares what the two draw.

`torchmark.define.fuzz` and `torch.utils.benchmark` have the same names, so a description is a
function of the library.
torch's refusal of correct dict distributions is lifted, or there were little to
compare.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torch.utils.benchmark

import torchmark.define.fuzz

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS: Any = torchmark.define.fuzz
THEIRS: Any = torch.utils.benchmark


@contextlib.contextmanager
def torch_accepting_dicts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            THEIRS.FuzzedParameter, "_check_distribution", lambda self, distribution: distribution
        )
        yield


def assert_both_draw_the_same(describe: Callable[[Any], Any], n: int) -> None:
    """`describe(library)` returns a Fuzzer; the first `n` samples of both must agree."""
    with torch_accepting_dicts():
        theirs = describe(THEIRS)
        expected = list(theirs.take(n))
    ours = describe(OURS)
    drawn = list(ours.take(n))
    assert len(drawn) == len(expected)
    for sample, expected_sample in zip(drawn, expected, strict=True):
        assert_same_sample(sample, expected_sample)
    assert ours.rejection_rate == theirs.rejection_rate


def assert_same_sample(ours: Any, theirs: Any) -> None:
    tensors, properties, params = ours
    expected_tensors, expected_properties, expected_params = theirs
    assert list(params.items()) == list(expected_params.items())
    assert [type(value) for value in params.values()] == [
        type(value) for value in expected_params.values()
    ]
    assert list(tensors) == list(expected_tensors)
    for name, tensor in tensors.items():
        assert_same_tensor(tensor, expected_tensors[name])
        assert_same_properties(properties[name], expected_properties[name])


def assert_same_tensor(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert ours.device == theirs.device
    assert ours.layout == theirs.layout
    if ours.is_sparse:
        assert ours.is_coalesced() == theirs.is_coalesced()
        assert torch.equal(ours._indices(), theirs._indices())
        assert torch.equal(ours._values(), theirs._values())
        return
    assert ours.stride() == theirs.stride()
    assert torch.equal(ours, theirs)


def assert_same_properties(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert list(ours) == list(theirs)
    for key, value in ours.items():
        assert type(value) is type(theirs[key])
        assert np.array_equal(value, theirs[key]), key


def first_parameters(fuzzer: Any, seed: int, draw: str) -> dict[str, Any]:
    """The parameters of the first sample, without the cost of its tensors."""
    state = np.random.RandomState(seed)
    state.randint(low=0, high=2**63, dtype=np.int64)  # what `take` draws to seed torch
    params: dict[str, Any] = getattr(fuzzer, draw)(state)
    return params
