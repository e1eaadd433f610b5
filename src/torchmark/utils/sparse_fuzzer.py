"""`torch.utils.benchmark.utils.sparse_fuzzer` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.define.fuzz import FuzzedSparseTensor
from torchmark.utils.torchs import torchs_names

__all__ = ["FuzzedSparseTensor"]

__getattr__ = torchs_names(__name__)
