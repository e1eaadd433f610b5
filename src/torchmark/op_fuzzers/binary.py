"""Inputs for an operator of two dense tensors that broadcast."""

from __future__ import annotations

import torch

from torchmark.define.fuzz import Fuzzer
from torchmark.op_fuzzers import _common_parameters as common
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)


class BinaryOpFuzzer(Fuzzer):
    """Tensors `x` and `y` of the same shape, except that dimensions of `y` may be one.

    >>> from torchmark.op_fuzzers.binary import BinaryOpFuzzer
    >>> for tensors, properties, params in BinaryOpFuzzer(seed=17).take(1):
    ...     print(tuple(tensors["x"].shape), tuple(tensors["y"].shape))
    (227, 41) (227, 1)
    """

    def __init__(
        self, seed: int | None, dtype: torch.dtype = torch.float32, cuda: bool = False
    ) -> None:
        super().__init__(
            parameters=[
                common.dimensionality("dim"),
                common.any_or_power_of_two_sizes(),
                common.second_sizes(share_of_ones=0.2),
                common.steps("x_step", "y_step"),
                common.RANDOM_VALUE,
            ],
            tensors=[
                common.strided_tensor("x", "k", "x_step_", dtype, cuda),
                # y uses the steps of x, as in torch, although steps for y are drawn: with its own
                # steps, the same seed would give another tensor than in torch.
                common.strided_tensor("y", "y_k", "x_step_", dtype, cuda, min_elements=None),
            ],
            seed=seed,
        )
