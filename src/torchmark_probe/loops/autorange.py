"""Block sizes and stop rules of torch's Timer, bit for bit the same, but without torch."""

import math
import struct
from typing import Callable, List, Optional

SHORTEST_TIME = 1e-9
"""Seconds; torch's minimum for a block, which also avoids division by zero."""

_MOST_RUNS = 10**9
"""Maximum number of runs in a block: minutes, unless the clock does not advance."""

Callback = Callable[[int, float], object]
"""Called with the runs and the seconds of every block."""


def single(value: float) -> float:
    """Return `value` rounded to single precision, as by `torch.tensor(value)`."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def estimate_block_size(timeit: Callable[[int], float], min_run_time: float) -> int:
    """Return a number of runs that lasts long enough, and much longer than reading the clock."""
    overhead = single(sorted(timeit(0) for _ in range(5))[2])
    number = 1
    while True:
        taken = timeit(number)
        is_fine = overhead / taken <= 1e-4 and taken >= min_run_time / 1000
        if is_fine or taken > min_run_time or number >= _MOST_RUNS:
            return number
        number *= 10


def repeat_block(
    timeit: Callable[[int], float],
    number: int,
    callback: Optional[Callback],
    min_run_time: float,
    max_run_time: float = math.inf,
    is_steady: Callable[[List[float]], bool] = lambda _: True,
) -> List[float]:
    """Run blocks until they are steady and the minimum time has passed, or until the maximum has.

    Returns the seconds of each block.
    """
    times: List[float] = []
    total = 0.0
    is_enough = False
    while not is_enough:
        times.append(timeit(number))
        total += times[-1]
        if callback is not None:
            callback(number, times[-1])
        is_long = total >= min_run_time
        is_enough = total > max_run_time or (is_long and is_steady(times))
    return times
