"""torch's arithmetic for the statistics of a measurement, to the bit, without torch.

`torch.utils.benchmark` computes some of its figures in single precision and sums in a certain
order. Numbers that were taken with either library compare only if both round alike, so these
functions do what torch's kernels do: `tests/model/test_arithmetic.py` holds the two side by side.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LANES = 4
"""Doubles in one of torch's vectors (256 bits; its portable build uses the same width)."""

_COLUMNS = 4 * _LANES
"""torch keeps four vectors of partial sums."""

_LEVELS = 4
"""Partial sums are carried to a higher level when full, so that rounding errors do not pile up."""


def single(value: float) -> float:
    """`value` rounded to single precision, as `torch.tensor(value)` does."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def log10_single(value: float) -> float:
    """`torch.tensor(value).log10()`, of a positive number."""
    return single(math.log10(single(value)))


def std_single(points: Sequence[float]) -> float:
    """`torch.tensor(points).std(unbiased=False)`: single precision in, out and for the mean.

    Equal to torch's within the rounding of that mean, which no result here depends on.
    """
    rounded = [single(point) for point in points]
    mean = single(math.fsum(rounded) / len(rounded))
    return single(math.sqrt(math.fsum((point - mean) ** 2 for point in rounded) / len(rounded)))


def mean_double(values: Sequence[float]) -> float:
    """`torch.tensor(values, dtype=torch.float64).mean()` for up to 32,768 values."""
    return _sum_double(values) / len(values)


def _sum_double(values: Sequence[float]) -> float:
    whole_rows = len(values) // _COLUMNS * _COLUMNS
    whole_vectors = len(values) // _LANES * _LANES
    columns = _column_sums(values, whole_rows // _COLUMNS)
    lanes = columns[:_LANES]
    for start in range(whole_rows, whole_vectors, _LANES):
        lanes = _added(lanes, values[start : start + _LANES])
    for start in range(_LANES, _COLUMNS, _LANES):
        lanes = _added(lanes, columns[start : start + _LANES])
    total = 0.0
    for value in (*values[whole_vectors:], *lanes):
        total += value
    return total


def _column_sums(values: Sequence[float], rows: int) -> list[float]:
    power = max(4, (rows - 1).bit_length() // _LEVELS if rows > 1 else 0)
    step = 1 << power
    levels = [[0.0] * _COLUMNS for _ in range(_LEVELS)]
    for row in range(rows):
        levels[0] = _added(levels[0], values[row * _COLUMNS : (row + 1) * _COLUMNS])
        done = row + 1
        if done % step:
            continue
        for level in range(1, _LEVELS):
            levels[level] = _added(levels[level], levels[level - 1])
            levels[level - 1] = [0.0] * _COLUMNS
            if done & ((step - 1) << (level * power)):
                break
    total = levels[0]
    for higher in levels[1:]:
        total = _added(total, higher)
    return total


def _added(left: Sequence[float], right: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(left, right, strict=True)]
