"""`torch.utils.benchmark.utils._stubs` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)
