"""The best that this machine does with the threads it has: copies of three sizes, matrix products.

A call is held against these: what its bytes and FLOPs would take at that speed is work.
"""

import time
from typing import Any, Callable, Dict, List

import torch

from torchmark_probe.zygote.handlers import offer

COPIES = (256 * 1024, 4 * 1024 * 1024, 128 * 1024 * 1024)
"""Bytes that a copy moves, read and written: in the cache of a core, in the last one, in memory."""

_SIDES = {"float32": 1024}
_SIDE = 512
"""Of the matrices: large enough for full speed. Types that a processor does not compute in may be a
hundred times slower than float32, so theirs are smaller."""

_AT_LEAST = 0.05
"""Seconds that are spent on each."""


@offer
def machine_speeds(dtypes: List[str]) -> Dict[str, Any]:
    """The speeds as plain JSON; types that have no matrix product are left out."""
    small = _least_seconds(_small_call())
    speeds: Dict[str, Any] = {
        "small_call_seconds": small,
        "bytes_per_second": {size: _copy_speed(size, small) for size in COPIES},
        "flops_per_second": {},
    }
    for name in dtypes:
        try:
            speeds["flops_per_second"][name] = _product_speed(name)
        except (AttributeError, RuntimeError):  # no such type here, or no product of it
            continue
    return speeds


def _small_call() -> Callable[[], Any]:
    x = torch.ones(1)
    return lambda: torch.add(x, x)


def _copy_speed(size: int, small: float) -> float:
    """Of the copying alone: what any call takes is taken off, or small copies would seem slow."""
    source = torch.ones(size // 2, dtype=torch.uint8)
    target = torch.empty_like(source)
    seconds = _least_seconds(lambda: target.copy_(source))
    return size / max(seconds - small, seconds / 10)


def _product_speed(name: str) -> float:
    side = _SIDES.get(name, _SIDE)
    matrix = torch.ones(side, side, dtype=getattr(torch, name))
    out = torch.empty_like(matrix)
    return 2.0 * side**3 / _least_seconds(lambda: torch.mm(matrix, matrix, out=out))


def _least_seconds(action: Callable[[], Any]) -> float:
    """The quickest of many runs: what the machine can do, whatever disturbs it meanwhile."""
    least = float("inf")
    number, spent = 1, 0.0
    while spent < _AT_LEAST:
        start = time.perf_counter()
        for _ in range(number):
            action()
        seconds = time.perf_counter() - start
        if spent:  # not the first, in which memory and code are new
            least = min(least, seconds / number)
        spent += seconds
        if seconds < 1e-4:
            number *= 2
    if least == float("inf"):
        start = time.perf_counter()
        action()
        least = time.perf_counter() - start
    return least
