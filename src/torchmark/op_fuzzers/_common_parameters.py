"""Parts that the ready-made fuzzers share: distributions of sizes, steps and sparsity, and limits.

Names, order and probabilities are those of torch.utils.benchmark. A seed draws the parameters one
after another, so a change of any name, position or probability would change every trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torchmark.define.fuzz import FuzzedParameter, FuzzedSparseTensor, FuzzedTensor, ParameterAlias

if TYPE_CHECKING:
    import torch

_AXES = range(3)
"""All ready-made fuzzers draw tensors of one to three dimensions."""

_MIN_SIZE = 16
_MAX_SIZE = 16 * 1024**2
_POWERS_OF_TWO = tuple(2**exponent for exponent in range(4, 25))
"""Every power of two from `_MIN_SIZE` to `_MAX_SIZE`."""

_MIN_ELEMENTS = 4 * 1024
_MAX_ELEMENTS = 32 * 1024**2
_MAX_ALLOCATION_BYTES = 2 * 1024**3


SPARSE_DIMENSIONALITY = FuzzedParameter(
    "sparse_dim", distribution={1: 0.4, 2: 0.4, 3: 0.2}, strict=True
)
SPARSITY = (
    FuzzedParameter("density", distribution={0.1: 0.4, 0.05: 0.3, 0.01: 0.3}),
    FuzzedParameter("coalesced", distribution={True: 0.5, False: 0.5}),
)
RANDOM_VALUE = FuzzedParameter("random_value", 0, 2**32 - 1, "uniform")
"""A repeatable random number for the user of the sample."""


def dimensionality(name: str) -> FuzzedParameter:
    return FuzzedParameter(name, distribution={1: 0.3, 2: 0.4, 3: 0.3}, strict=True)


def any_sizes(minval: int, maxval: int) -> list[FuzzedParameter]:
    return [FuzzedParameter(f"k_any_{i}", minval, maxval, "loguniform") for i in _AXES]


def special_sizes(prefix: str, sizes: Sequence[int]) -> list[FuzzedParameter]:
    """Sizes at which kernels switch to another code path, all equally likely."""
    evenly = {size: 1.0 / len(sizes) for size in sizes}
    return [FuzzedParameter(f"{prefix}_{i}", distribution=evenly) for i in _AXES]


def mixed_sizes(shares: Mapping[str, float]) -> list[FuzzedParameter]:
    """The sizes `k0`, `k1`, `k2`, each drawn from one of these families, with these shares."""
    return [
        FuzzedParameter(
            f"k{i}",
            distribution={
                ParameterAlias(f"{prefix}_{i}"): share for prefix, share in shares.items()
            },
            strict=True,
        )
        for i in _AXES
    ]


def any_or_power_of_two_sizes() -> list[FuzzedParameter]:
    """Sizes of every kind; one in five is a power of two, which would otherwise be rare."""
    return [
        *any_sizes(_MIN_SIZE, _MAX_SIZE),
        *special_sizes("k_pow2", _POWERS_OF_TWO),
        *mixed_sizes({"k_any": 0.8, "k_pow2": 0.2}),
    ]


def second_sizes(share_of_ones: float) -> list[FuzzedParameter]:
    """Sizes of a second operand: those of the first, or one for broadcasting."""
    ones = {1: share_of_ones} if share_of_ones else {}
    return [
        FuzzedParameter(
            f"y_k{i}",
            distribution={ParameterAlias(f"k{i}"): 1 - share_of_ones, **ones},
            strict=True,
        )
        for i in _AXES
    ]


def steps(*prefixes: str) -> list[FuzzedParameter]:
    """Steps of strided access; one in five is greater than one."""
    distribution = {1: 0.8, 2: 0.06, 4: 0.06, 8: 0.04, 16: 0.04}
    return [
        FuzzedParameter(f"{prefix}_{i}", distribution=distribution)
        for i in _AXES
        for prefix in prefixes
    ]


def strided_tensor(
    name: str,
    sizes: str,
    steps: str,
    dtype: torch.dtype,
    cuda: bool,
    *,
    dim_parameter: str = "dim",
    min_elements: int | None = _MIN_ELEMENTS,
) -> FuzzedTensor:
    return FuzzedTensor(
        name,
        size=_of_every_axis(sizes),
        steps=_of_every_axis(steps),
        probability_contiguous=0.75,
        min_elements=min_elements,
        max_elements=_MAX_ELEMENTS,
        max_allocation_bytes=_MAX_ALLOCATION_BYTES,
        dim_parameter=dim_parameter,
        dtype=dtype,
        cuda=cuda,
    )


def sparse_tensor(name: str, sizes: str, dtype: torch.dtype, cuda: bool) -> FuzzedSparseTensor:
    return FuzzedSparseTensor(
        name,
        size=_of_every_axis(sizes),
        min_elements=_MIN_ELEMENTS,
        max_elements=_MAX_ELEMENTS,
        dim_parameter="dim_parameter",
        sparse_dim="sparse_dim",
        density="density",
        coalesced="coalesced",
        dtype=dtype,
        cuda=cuda,
    )


def _of_every_axis(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in _AXES)
