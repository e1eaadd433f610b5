"""Validate arguments from users."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import TypeVar

from torchmark.errors import InvalidArgumentError

_LONGEST = 200
"""Maximum number of characters of a value in a message."""

Member = TypeVar("Member", bound=enum.Enum)


def shown(value: object) -> str:
    """The `repr` of a value for a message, cut if it is long.

    >>> shown([1, 2]), shown("a" * 300)[195:], shown(10**9999)
    ('[1, 2]', 'aaaa…', 'a number of thousands of digits')
    """
    try:
        return text if len(text := repr(value)) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    except ValueError:  # Python's limit for converting integers to text
        return "a number of thousands of digits"


def check_count(name: str, value: object) -> int:
    """`value` as an int if it is 1 or more; otherwise an error."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        count = operator.index(value)  # numpy's integers too
        if count >= 1:
            return count
    raise InvalidArgumentError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_positive(name: str, value: object) -> float:
    """`value` as a float if it is finite and above zero; otherwise an error."""
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        raise InvalidArgumentError(f"{name} must be a number, got {value!r}")
    number = float(value)  # numpy's numbers too
    if not (math.isfinite(number) and number > 0):
        raise InvalidArgumentError(f"{name} must be finite and above zero, got {value!r}")
    return number


def check_modules(names: Sequence[str]) -> tuple[str, ...]:
    """The names of modules without duplicates; an error for an invalid name."""
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InvalidArgumentError(
                f"{shown(name)} is not a valid module name; write it like torchvision or "
                "my_package.ops"
            )
    return tuple(dict.fromkeys(names))


def check_member(what: str, value: Member | str, kind: type[Member]) -> Member:
    """The member of the enumeration, given as such or by its value; otherwise an error."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise InvalidArgumentError(f"unknown {what} {value!r}; choose from: {known}") from None
