"""Inputs for Fourier transforms, which are fastest at sizes without large prime factors."""

from __future__ import annotations

import torch

from torchmark.define.fuzz import Fuzzer
from torchmark.op_fuzzers import _common_parameters as common
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)

__all__ = ["MAX_DIM_SIZE", "MIN_DIM_SIZE", "REGULAR_SIZES", "SpectralOpFuzzer"]

MIN_DIM_SIZE = 16
MAX_DIM_SIZE = 16 * 1024


def _is_regular(size: int) -> bool:
    for prime in (2, 3, 5):
        while size % prime == 0:
            size //= prime
    return size == 1


REGULAR_SIZES = [size for size in range(MIN_DIM_SIZE + 1, MAX_DIM_SIZE + 1) if _is_regular(size)]
"""Every product of twos, threes and fives above the smallest size, which torch also leaves out."""


class SpectralOpFuzzer(Fuzzer):
    """One tensor `x` of one to three dimensions; its sizes are regular with the given probability.

    >>> from torchmark.op_fuzzers.spectral import REGULAR_SIZES, SpectralOpFuzzer
    >>> for tensors, properties, params in SpectralOpFuzzer(seed=15).take(1):
    ...     print(all(size in REGULAR_SIZES for size in tensors["x"].shape))
    True
    """

    def __init__(
        self,
        *,
        seed: int | None,
        dtype: torch.dtype = torch.float64,
        cuda: bool = False,
        probability_regular: float = 1.0,
    ) -> None:
        super().__init__(
            parameters=[
                common.dimensionality("ndim"),
                common.any_sizes(MIN_DIM_SIZE, MAX_DIM_SIZE),
                common.special_sizes("k_regular", REGULAR_SIZES),
                common.mixed_sizes(
                    {"k_regular": probability_regular, "k_any": 1 - probability_regular}
                ),
                common.steps("step"),
            ],
            tensors=[common.strided_tensor("x", "k", "step_", dtype, cuda, dim_parameter="ndim")],
            seed=seed,
        )
