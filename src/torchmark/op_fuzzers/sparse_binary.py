"""Inputs for an operator of two sparse tensors of one shape."""

from __future__ import annotations

import torch

from torchmark.define.fuzz import Fuzzer
from torchmark.op_fuzzers import _common_parameters as common
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)


class BinaryOpSparseFuzzer(Fuzzer):
    """Sparse tensors `x` and `y` with the same shape, density and number of sparse dimensions.

    >>> from torchmark.op_fuzzers.sparse_binary import BinaryOpSparseFuzzer
    >>> for tensors, properties, params in BinaryOpSparseFuzzer(seed=370).take(1):
    ...     print(tensors["x"].shape == tensors["y"].shape, properties["y"]["density"])
    True 0.05
    """

    def __init__(
        self, seed: int | None, dtype: torch.dtype = torch.float32, cuda: bool = False
    ) -> None:
        super().__init__(
            parameters=[
                common.dimensionality("dim_parameter"),
                common.SPARSE_DIMENSIONALITY,
                common.any_or_power_of_two_sizes(),
                common.second_sizes(share_of_ones=0.0),
                common.SPARSITY,
                common.RANDOM_VALUE,
            ],
            tensors=[
                common.sparse_tensor("x", "k", dtype, cuda),
                common.sparse_tensor("y", "y_k", dtype, cuda),
            ],
            seed=seed,
        )
