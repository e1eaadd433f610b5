"""`torch.utils.benchmark.utils.compile` under torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.compiling import bench_all as bench_all
from torchmark.compiling import benchmark_compile as benchmark_compile
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)
