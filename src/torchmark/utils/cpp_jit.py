"""`torch.utils.benchmark.utils.cpp_jit` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)
