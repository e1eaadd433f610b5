"""Repeatable random benchmark inputs: describe parameters and tensors, then draw them by seed.

The interface is that of `torch.utils.benchmark`, and one seed gives the same values in both, so a
trial is the same with either library. If torch has a defect (an ignored argument, an inverted
check), this package does what the name of the argument says instead.
"""

from __future__ import annotations

from torchmark.define.fuzz.fuzzer import Fuzzer
from torchmark.define.fuzz.parameters import FuzzedParameter, ParameterAlias
from torchmark.define.fuzz.sparse import FuzzedSparseTensor
from torchmark.define.fuzz.tensors import FuzzedTensor

__all__ = [
    "FuzzedParameter",
    "FuzzedSparseTensor",
    "FuzzedTensor",
    "Fuzzer",
    "ParameterAlias",
]
