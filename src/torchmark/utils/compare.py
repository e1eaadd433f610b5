"""`torch.utils.benchmark.utils.compare` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.compare import Colorize, Compare
from torchmark.utils.torchs import torchs_names

__all__ = ["Colorize", "Compare"]

__getattr__ = torchs_names(__name__)
