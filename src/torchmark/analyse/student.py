"""Student's t distribution, for intervals of the mean of few numbers.

numpy does not have it, and scipy would be a large dependency for three functions.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_STEPS = 300
"""Maximum number of terms of the continued fraction; a few dozen are usually enough."""

_MOST_SUMMED = 400
"""With more degrees of freedom the continued fraction has fewer terms than the sum."""

_SURELY_EXACT = 1e-9
"""If 1 minus the sum is greater than this, it has at least six exact digits."""


def two_sided_p(t: float, freedom: float) -> float:
    """The probability of a value at least as far from zero as `t`.

    >>> round(two_sided_p(2.086, 20), 3)
    0.05
    """
    if math.isinf(t):
        return 0.0
    share = freedom / (freedom + t * t)
    if freedom % 2 == 0 and freedom <= _MOST_SUMMED:
        p = 1.0 - math.sqrt(1.0 - share) * _sum_of_powers(share, int(freedom) // 2)
        if p > _SURELY_EXACT:
            return p
    return _incomplete_beta(share, freedom / 2, 0.5)


def lower_tail(t: float, freedom: float) -> float:
    """The probability of a value below `t`.

    >>> round(lower_tail(2.086, 20), 3)
    0.975
    """
    beyond = two_sided_p(t, freedom) / 2
    return beyond if t < 0 else 1 - beyond


@lru_cache(maxsize=4096)
def quantile(confidence: float, freedom: float) -> float:
    """The value q for which this share of the distribution lies between -q and q.

    >>> round(quantile(0.95, 20), 3)
    2.086
    """
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > 1 - confidence:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        if two_sided_p(middle, freedom) > 1 - confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _sum_of_powers(share: float, terms: int) -> float:
    """The sum for even degrees of freedom, ten times as fast as the continued fraction."""
    term = total = 1.0
    for index in range(1, terms):
        term *= share * (2 * index - 1) / (2 * index)
        total += term
    return total


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the complement converges quickly
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    return math.exp(log_front) / a * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Lentz's method; its two running quotients never become zero."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _not_zero(1.0 + numerator * d)
            c = _not_zero(1.0 + numerator / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
