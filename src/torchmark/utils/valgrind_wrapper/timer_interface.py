"""`torch.utils.benchmark.utils.valgrind_wrapper.timer_interface` under torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.engine.user_code import CopyIfCallgrind as CopyIfCallgrind
from torchmark.model.callgrind_stats import CallgrindStats as CallgrindStats
from torchmark.model.function_counts import FunctionCount as FunctionCount
from torchmark.model.function_counts import FunctionCounts as FunctionCounts
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)
