"""Inputs for an operator of one dense tensor."""

from __future__ import annotations

import torch

from torchmark.define.fuzz import Fuzzer
from torchmark.op_fuzzers import _common_parameters as common
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)


class UnaryOpFuzzer(Fuzzer):
    """One tensor `x` of one to three dimensions, sometimes strided or transposed in memory.

    >>> from torchmark.op_fuzzers.unary import UnaryOpFuzzer
    >>> for tensors, properties, params in UnaryOpFuzzer(seed=184).take(1):
    ...     print(params["dim"], tuple(tensors["x"].shape), properties["x"]["steps"])
    2 (32, 245) (1, 1)
    """

    def __init__(
        self, seed: int | None, dtype: torch.dtype = torch.float32, cuda: bool = False
    ) -> None:
        super().__init__(
            parameters=[
                common.dimensionality("dim"),
                common.any_or_power_of_two_sizes(),
                common.steps("x_step"),
                common.RANDOM_VALUE,
            ],
            tensors=[common.strided_tensor("x", "k", "x_step_", dtype, cuda)],
            seed=seed,
        )
