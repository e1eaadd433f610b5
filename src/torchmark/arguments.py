"""Checks of numbers at the edge, where a user hands them in."""

from __future__ import annotations

import enum
import math
import operator
from typing import TypeVar

from torchmark.errors import InvalidArgumentError

Member = TypeVar("Member", bound=enum.Enum)


def check_count(name: str, value: object) -> int:
    """`value` if it is a whole number from 1 on."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        count = operator.index(value)  # numpy's integers too
        if count >= 1:
            return count
    raise InvalidArgumentError(f"{name} must be 1, 2, …, got {value!r}")


def check_positive(name: str, value: object) -> float:
    """`value` if it is a finite number above zero."""
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        raise InvalidArgumentError(f"{name} must be a number, got {value!r}")
    number = float(value)  # numpy's numbers too
    if not (math.isfinite(number) and number > 0):
        raise InvalidArgumentError(f"{name} must be finite and above zero, got {value!r}")
    return number


def check_member(what: str, value: Member | str, kind: type[Member]) -> Member:
    """The member of an enumeration that `value` is, or that has it as its value."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise InvalidArgumentError(f"{value!r} is no {what}; choose some of {known}") from None
