"""Inputs for an operator of one sparse tensor."""

from __future__ import annotations

import torch

from torchmark.define.fuzz import Fuzzer
from torchmark.op_fuzzers import _common_parameters as common
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)

__all__ = ["UnaryOpSparseFuzzer"]


class UnaryOpSparseFuzzer(Fuzzer):
    """One sparse tensor `x`, hybrid if not all of its dimensions are sparse.

    >>> from torchmark.op_fuzzers.sparse_unary import UnaryOpSparseFuzzer
    >>> for tensors, properties, params in UnaryOpSparseFuzzer(seed=370).take(1):
    ...     print(tuple(tensors["x"].shape), properties["x"]["density"])
    (256, 18) 0.05
    """

    def __init__(
        self, seed: int | None, dtype: torch.dtype | None = None, cuda: bool = False
    ) -> None:
        super().__init__(
            parameters=[
                common.dimensionality("dim_parameter"),
                common.SPARSE_DIMENSIONALITY,
                common.any_or_power_of_two_sizes(),
                common.SPARSITY,
                common.RANDOM_VALUE,
            ],
            tensors=[common.sparse_tensor("x", "k", dtype or torch.float32, cuda)],
            seed=seed,
        )
