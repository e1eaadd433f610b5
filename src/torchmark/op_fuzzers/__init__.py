"""Ready-made fuzzers for five kinds of operators, with the same parameters and draws as torch's.

The modules are named as in `torch.utils.benchmark.op_fuzzers`, so that an import from there works
after the package's name is changed.
"""

from __future__ import annotations

from torchmark.op_fuzzers.binary import BinaryOpFuzzer
from torchmark.op_fuzzers.sparse_binary import BinaryOpSparseFuzzer
from torchmark.op_fuzzers.sparse_unary import UnaryOpSparseFuzzer
from torchmark.op_fuzzers.spectral import SpectralOpFuzzer
from torchmark.op_fuzzers.unary import UnaryOpFuzzer

__all__ = [
    "BinaryOpFuzzer",
    "BinaryOpSparseFuzzer",
    "SpectralOpFuzzer",
    "UnaryOpFuzzer",
    "UnaryOpSparseFuzzer",
]
