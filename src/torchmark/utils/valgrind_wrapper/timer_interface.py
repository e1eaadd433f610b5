"""`timer_interface` of `torch.utils.benchmark` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.engine.user_code import CopyIfCallgrind
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.utils.torchs import torchs_names

__all__ = ["CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"]

__getattr__ = torchs_names(__name__)
