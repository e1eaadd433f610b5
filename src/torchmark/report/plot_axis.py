"""Axes of a picture: from where to where, in equal steps or equal factors, and what is labelled."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.flame.appearance import width_of
from torchmark.model.units import select_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LETTERS = 11.0
"""Pixels of the type of labels."""

_AIR = 0.06
"""Of an axis that is left free at either end, so that no mark lies on the frame."""

_DECADE = 10
"""Values that span more than this factor are shown by their logarithm."""

_GEOMETRIC = 4
"""Sizes that span less than this factor look the same either way."""

_LABEL_GAP = 8
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values and their places."""

    low: float
    high: float
    is_log: bool
    ticks: tuple[tuple[float, str], ...]
    """Values that have a label, in their order."""

    def share(self, value: float) -> float:
        """Where a value lies, from 0 at the beginning to 1 at the end; what is beyond is put there.

        >>> axis = Axis(low=1, high=100, is_log=True, ticks=())
        >>> axis.share(10), axis.share(1000)
        (0.5, 1.0)
        """
        if self.is_log:
            if value <= 0:
                return 0.0
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return max(0.0, min(1.0, share))


def size_axis(sizes: Sequence[int], length: float) -> Axis:
    """For the sizes of a dimension: each is a tick where there is room for its label."""
    ordered = sorted(set(sizes))
    is_log = grows_geometrically(ordered)
    low, high = _with_air(ordered[0], ordered[-1], is_log)
    bare = Axis(low=low, high=high, is_log=is_log, ticks=())
    return Axis(low=low, high=high, is_log=is_log, ticks=_labelled(bare, ordered, length))


def value_axis(values: Iterable[float], label: Callable[[float], str], *, is_log: bool) -> Axis:
    """For measured values; on a logarithmic axis all have to be above zero."""
    found = list(values)
    low, high = _with_air(min(found), max(found), is_log)
    ticks = _log_ticks(low, high) if is_log else _linear_ticks(low, high)
    return Axis(low=low, high=high, is_log=is_log, ticks=tuple((at, label(at)) for at in ticks))


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


def seconds_label(seconds: float) -> str:
    """
    >>> seconds_label(2e-5), seconds_label(1.5e-3), seconds_label(0)
    ('20 us', '1.5 ms', '0')
    """
    if not seconds:
        return "0"
    # Rounded first: a tick of 1e-06 that is a little less would read 1000 ns.
    seconds = float(f"{seconds:.6g}")
    unit, scale = select_unit(seconds * (1 + 1e-6))
    return f"{seconds / scale:.4g} {unit}"


def prefixed(value: float) -> str:
    """
    >>> prefixed(2.5e9), prefixed(0.5), prefixed(40.0)
    ('2.5 G', '0.5', '40')
    """
    if 0.1 <= abs(value) < 1:
        return f"{value:.4g}"
    scale, prefix = next(
        ((scale, prefix) for scale, prefix in _PREFIXES if abs(value) >= scale * (1 - 1e-9)),
        (1.0, ""),
    )
    return f"{value / scale:.4g} {prefix}".rstrip()


def _with_air(low: float, high: float, is_log: bool) -> tuple[float, float]:
    if is_log:
        factor = max((high / low) ** _AIR, 1.15)
        return low / factor, high * factor
    step = _AIR * (high - low) or 0.5 * abs(high) or 1.0
    # Nothing here is below zero, and an axis that begins a little below it would look odd.
    return max(0.0, low - step) if low >= 0 else low - step, high + step


def _labelled(axis: Axis, sizes: Sequence[int], length: float) -> tuple[tuple[float, str], ...]:
    """As many as do not touch, the last one among them."""
    kept: list[int] = []
    for size in sizes:
        if not kept or _is_clear(axis, kept[-1], size, length):
            kept.append(size)
        elif size == sizes[-1]:
            while len(kept) > 1 and not _is_clear(axis, kept[-1], size, length):
                kept.pop()
            kept.append(size)
    return tuple((float(size), str(size)) for size in kept)


def _is_clear(axis: Axis, before: int, after: int, length: float) -> bool:
    room = (width_of(str(before), LETTERS) + width_of(str(after), LETTERS)) / 2 + _LABEL_GAP
    return (axis.share(after) - axis.share(before)) * length >= room


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
