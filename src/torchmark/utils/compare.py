"""`torch.utils.benchmark.utils.compare` under torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.compare import Colorize as Colorize
from torchmark.compare import Compare as Compare
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)
