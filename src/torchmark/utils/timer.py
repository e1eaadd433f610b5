"""`torch.utils.benchmark.utils.timer` under torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.model.case import Language as Language
from torchmark.timers import Timer as Timer
from torchmark.timers import timer as timer
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)
