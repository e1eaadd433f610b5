"""Repeatable random benchmark inputs: describe parameters and tensors, then draw them by seed.

The interface, and for one seed the values, are those of `torch.utils.benchmark`, so that a trial
run with either library is the same trial. Where torch's answer is a defect (an ignored argument,
an inverted check), this package does what the argument's name says instead.
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
