"""The axes of a sweep's charts: in equal steps or equal factors, and which values have a label.

An axis of sizes is logarithmic where they grow by factors rather than by steps, one of times where
they span more than a decade.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DECADE = 10
"""Values that span more than this factor are shown by their logarithm."""

_GEOMETRIC = 4
"""Sizes that span less than this factor look the same either way."""

_AIR = 0.05
"""Of an axis that is left free at either end, so that no mark lies on the frame."""


def size_axis(dim: str, sizes: Sequence[int]) -> dict[str, Any]:
    """Of a dimension: each size is a tick, with a label where there is room."""
    scale = "log" if grows_geometrically(sizes) else "linear"
    return {
        "field": "size",
        "title": dim,
        "scale": {"type": scale, "zero": False, "nice": False, "padding": 12},
        "axis": {**_at(sizes), "grid": False, "format": "d"},
    }


def times_axis(ends: Sequence[float]) -> dict[str, Any]:
    label = "datum.value === 0 ? '0' : format(datum.value, '~s') + 's'"
    if spans_a_decade(ends):
        return {"title": None, **log_axis(ends, label)}
    high = max(ends) * (1 + _AIR)
    axis = {"labelExpr": label, **_at(_linear_ticks(0.0, high))}
    return {"title": None, "scale": {"domain": [0.0, high], "nice": False}, "axis": axis}


def ratios_axis(ends: Sequence[float]) -> dict[str, Any]:
    """Logarithmic always: twice and half as fast are equally far from 1, which is on it."""
    return {"title": None, **log_axis([1.0, *ends], "format(datum.value, '~r') + '×'")}


def log_axis(values: Sequence[float], label: str) -> dict[str, Any]:
    """Around these values; `label` is an expression of Vega."""
    least, most = min(values), max(values)
    factor = max((most / least) ** _AIR, 1.15)
    low, high = least / factor, most * factor
    return {
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"labelExpr": label, **_at(_log_ticks(low, high))},
    }


def _at(ticks: Sequence[float]) -> dict[str, Any]:
    """Exactly there: without their number Vega leaves some out."""
    return {"values": list(ticks), "tickCount": len(ticks)}


def spans_a_decade(values: Iterable[float]) -> bool:
    """
    >>> spans_a_decade([1, 9]), spans_a_decade([1, 11]), spans_a_decade([0, 11])
    (False, True, False)
    """
    found = list(values)
    return min(found) > 0 and max(found) / min(found) > _DECADE


def grows_geometrically(sizes: Sequence[int]) -> bool:
    """Whether the factors from one size to the next are more alike than the steps.

    >>> grows_geometrically([1, 2, 4, 8]), grows_geometrically([2, 4, 6, 8])
    (True, False)
    >>> grows_geometrically([1, 1000]), grows_geometrically([16])
    (True, False)
    """
    if not sizes or sizes[0] <= 0 or sizes[-1] / sizes[0] < _GEOMETRIC:
        return False
    pairs = list(itertools.pairwise(sizes))
    steps = [after - before for before, after in pairs]
    factors = [math.log(after / before) for before, after in pairs]
    return max(factors) / min(factors) <= max(steps) / min(steps)


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with others between them where there would be few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    if decades < 0.75:
        return _linear_ticks(low, high)
    for digits, most in (((1, 2, 5), 2.4), ((1,), 6.0)):
        if decades <= most:
            ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
            return [tick for tick in ticks if low <= tick <= high]
    every = math.ceil(decades / 5)
    powers = [power for power in range(first, last + 1) if power % every == 0]
    return [10.0**power for power in powers if low <= 10.0**power <= high]


def _linear_ticks(low: float, high: float) -> list[float]:
    """Four to eight, at multiples of 1, 2 or 5."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
