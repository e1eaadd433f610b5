"""Numbers for people: units of time, significant figures, order-preserving uniqueness."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from torchmark.errors import InvalidArgumentError
from torchmark.model.arithmetic import log10_single, single

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

_SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time of `t` seconds reads best, and that unit in seconds.

    >>> select_unit(2.5e-6)
    ('us', 1e-06)
    >>> select_unit(4e-14)
    ('ns', 1e-09)
    """
    if not math.isfinite(t) or t < 0:
        raise InvalidArgumentError(f"a time must be finite and not negative, got {t!r}")
    thousands = log10_single(t) // 3 if single(t) > 0 else -math.inf
    # Below a nanosecond there is no smaller unit: fractions of one are still the best reading.
    unit = "ns" if thousands <= -3 else {-2: "us", -1: "ms"}.get(int(thousands), "s")
    return unit, _SCALES[unit]


def unit_to_english(u: str) -> str:
    """
    >>> unit_to_english("us")
    'microsecond'
    """
    if u not in _ENGLISH:
        raise InvalidArgumentError(f"unknown unit {u!r}; the units are {', '.join(_ENGLISH)}")
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` with `n` significant figures, in the single precision of torch's function.

    >>> round(trim_sigfig(3.14159, 2), 5)
    3.1
    """
    if n != int(n) or n < 1:
        raise InvalidArgumentError(f"the number of significant figures must be 1, 2, …, got {n!r}")
    if not math.isfinite(x):
        raise InvalidArgumentError(f"only a finite number has significant figures, got {x!r}")
    if single(x) == 0:
        return 0.0
    scale = 10 ** (leading_digits(x) - int(n))
    return single(round(single(x / scale)) * single(scale))


def leading_digits(x: float) -> int:
    """Digits before the decimal point, or minus the zeros after it: torch's rounded logarithm."""
    return math.ceil(log10_single(abs(x))) if single(x) != 0 else 1


def ordered_unique(elements: Iterable[T]) -> list[T]:
    """
    >>> ordered_unique("banana")
    ['b', 'a', 'n']
    """
    return list(dict.fromkeys(elements))
