"""Units of time, significant figures, torch's rounding, and small helpers for sequences.

`torch.utils.benchmark` computes some figures in single precision and sums in a certain order.
Results of both libraries can be compared only if both round in the same way. So the functions
below give the same bits as torch's kernels, without torch; `tests/model/test_units.py` compares
the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import TypeVar

from torchmark.errors import InvalidArgumentError
from torchmark_probe.loops.autorange import single

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}

_LANES = 4
"""Doubles in one vector of torch (256 bits; the portable build uses the same width)."""

_COLUMNS = 4 * _LANES
"""torch keeps four vectors of partial sums."""

_LEVELS = 4
"""Partial sums move to a higher level when full, so that rounding errors do not accumulate."""


def select_unit(t: float) -> tuple[str, float]:
    """The best unit to show a time of `t` seconds, and that unit in seconds.

    >>> select_unit(2.5e-6)
    ('us', 1e-06)
    >>> select_unit(4e-14)
    ('ns', 1e-09)
    """
    if not math.isfinite(t) or t < 0:
        raise InvalidArgumentError(f"a time must be finite and at least zero, got {t!r}")
    thousands = log10_single(t) // 3 if single(t) > 0 else -math.inf
    # There is no unit below a nanosecond, so smaller times are fractions of one.
    unit = "ns" if thousands <= -3 else {-2: "us", -1: "ms"}.get(int(thousands), "s")
    return unit, _SCALES[unit]


def unit_to_english(u: str) -> str:
    """
    >>> unit_to_english("us")
    'microsecond'
    """
    if u not in _ENGLISH:
        raise InvalidArgumentError(f"unknown unit {u!r}; choose from: {', '.join(_ENGLISH)}")
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` rounded to `n` significant figures, in single precision like torch's function.

    >>> round(trim_sigfig(3.14159, 2), 5)
    3.1
    """
    if n != int(n) or n < 1:
        raise InvalidArgumentError(
            f"the number of significant figures must be a whole number of at least 1, got {n!r}"
        )
    if not math.isfinite(x):
        raise InvalidArgumentError(f"the number to round must be finite, got {x!r}")
    if single(x) == 0:
        return 0.0
    scale = 10 ** (leading_digits(x) - int(n))
    return single(round(single(x / scale)) * single(scale))


def leading_digits(x: float) -> int:
    """Digits before the decimal point, or minus the number of zeros after it, as in torch."""
    return math.ceil(log10_single(abs(x))) if single(x) != 0 else 1


def ordered_unique(elements: Iterable[T]) -> list[T]:
    """
    >>> ordered_unique("banana")
    ['b', 'a', 'n']
    """
    return list(dict.fromkeys(elements))


def collect(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key; keys and values keep their order."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def log10_single(value: float) -> float:
    """`torch.tensor(value).log10()` for a positive number."""
    return single(math.log10(single(value)))


def std_single(points: Sequence[float]) -> float:
    """`torch.tensor(points).std(unbiased=False)`, in single precision.

    May differ from torch's by the rounding of the mean, which no result here depends on.
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
    return reduce(add, (*values[whole_vectors:], *lanes), 0.0)


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
    return reduce(_added, levels)


def _added(left: Sequence[float], right: Sequence[float]) -> list[float]:
    return list(map(add, left, right))


_LONGEST_LINE = 240
"""Maximum length of a headline."""


def first_line(text: str) -> str:
    r"""The first line that is not blank, with the next one if the first ends in a colon.

    >>> first_line("does not compile:\n  'y' was not declared\n    x + y")
    "does not compile: 'y' was not declared"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
