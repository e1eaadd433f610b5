"""Checks of numbers at the edge, where a user hands them in."""

from __future__ import annotations

import math

from torchmark.errors import InvalidArgumentError


def checked_count(name: str, value: object) -> int:
    """`value` if it is a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"{name} must be 1, 2, …, got {value!r}")
    return value


def checked_positive(name: str, value: object) -> float:
    """`value` if it is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgumentError(f"{name} must be a number, got {value!r}")
    if not (math.isfinite(value) and value > 0):
        raise InvalidArgumentError(f"{name} must be finite and above zero, got {value!r}")
    return value
