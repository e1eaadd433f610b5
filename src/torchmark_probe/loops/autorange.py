"""Block sizes and stop rules of torch's Timer, call by call and to the bit, without torch."""

import math
import struct
from typing import Callable, List, Optional

SHORTEST_TIME = 1e-9
"""Seconds; torch's floor for a block, which also keeps divisions by it safe."""

_MOST_RUNS = 10**9
"""Runs of a block at which it stops to grow: minutes of anything but a clock that stands still."""

Callback = Callable[[int, float], object]
"""Is given the runs and the seconds of every block."""


def single(value: float) -> float:
    """`value` rounded to single precision, as `torch.tensor(value)` does."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def estimate_block_size(timeit: Callable[[int], float], min_run_time: float) -> int:
    """Runs beside which two readings of the clock are nothing, and that last long enough."""
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
    """Seconds of blocks, taken until they are steady and last for the one time, or the other."""
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
