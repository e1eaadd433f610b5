"""Checks of arguments at the edge, where a user hands them in."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import TypeVar

from torchmark.errors import InvalidArgumentError

_LONGEST = 200
"""Characters of a value that a message shows."""

Member = TypeVar("Member", bound=enum.Enum)


def shown(value: object) -> str:
    """What a message shows of somebody's value: its beginning, if it is long.

    >>> shown([1, 2]), shown("a" * 300)[195:], shown(10**9999)
    ('[1, 2]', 'aaaa…', 'a number of thousands of digits')
    """
    try:
        return text if len(text := repr(value)) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    except ValueError:  # Python's limit
        return "a number of thousands of digits"


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


def check_modules(names: Sequence[str]) -> tuple[str, ...]:
    """The names of modules, each once; an error for what `import` could not name."""
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InvalidArgumentError(
                f"{shown(name)} is not the name of a module, such as torchvision or my_package.ops"
            )
    return tuple(dict.fromkeys(names))


def check_member(what: str, value: Member | str, kind: type[Member]) -> Member:
    """The member of an enumeration that `value` is, or that has it as its value."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise InvalidArgumentError(f"{value!r} is no {what}; choose some of {known}") from None
