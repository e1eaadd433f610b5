"""`torch.utils.benchmark.utils.timer` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.model.case import Language
from torchmark.timers import Timer, timer
from torchmark.utils.torchs import torchs_names

__all__ = ["Language", "Timer", "timer"]

__getattr__ = torchs_names(__name__)
