"""`torch.utils.benchmark.utils.compile` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.compiling import bench_all, bench_loop, benchmark_compile
from torchmark.utils.torchs import torchs_names

__all__ = ["bench_all", "bench_loop", "benchmark_compile"]

__getattr__ = torchs_names(__name__)
