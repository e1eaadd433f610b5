"""Definitions that are left out, with a reason, where a condition holds.

The condition is data, and is judged by facts about the environment under test: that may have
another torch than the interpreter that reads the definition, which may have none at all.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchmark.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_COMPARISONS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_RANGE_PART = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d+(?:\.\d+)*)\s*")
_FEATURE = re.compile(r"torch(?:\.[^\W\d]\w*)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFacts:
    """What is known of the environment in which cases will run; what is not known skips nothing."""

    torch: str | None = None
    """The version of torch; None if it is not known."""

    features: Mapping[str, bool] = field(default_factory=dict)
    """Whether torch has an attribute, by its path ("torch.func.vmap"); a path that is missing
    here is not known."""


NOTHING_KNOWN = EnvironmentFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipCondition:
    """When a definition is left out: where all that is said here holds."""

    reason: str
    """For the person who reads the results."""

    torch: str = ""
    """Versions, such as "<2.0" or ">=1.9,<2.0"; any if empty."""

    missing: str = ""
    """The path of an attribute that torch does not have; not asked if empty."""

    def holds(self, facts: EnvironmentFacts) -> bool:
        return self._version_holds(facts) and self._feature_is_missing(facts)

    def _version_holds(self, facts: EnvironmentFacts) -> bool:
        if not self.torch:
            return True
        return facts.torch is not None and _is_in(facts.torch, self.torch)

    def _feature_is_missing(self, facts: EnvironmentFacts) -> bool:
        return not self.missing or facts.features.get(self.missing) is False


def skip_if(*, reason: str, torch: str = "", missing: str = "") -> SkipCondition:
    """Leave a definition out where torch has such a version and lacks such an attribute.

    Versions are compared in as many numbers as the condition gives, so 2.1.2 is `==2.1` and not
    `>2.1`; what follows the numbers, as in 2.14.0a0+git1234, does not count.

    >>> condition = skip_if(torch="<2.0", reason="torch.compile is not there yet")
    >>> condition.holds(EnvironmentFacts(torch="1.13.1+cpu"))
    True
    >>> condition.holds(EnvironmentFacts(torch="2.0.0a0+git1234"))
    False
    """
    if not reason.strip():
        raise DefinitionError("skip_if needs a reason: reports show it next to the case")
    if not (torch or missing):
        raise DefinitionError('skip_if needs a condition: torch="<2.0" or missing="torch.func"')
    if torch:
        _comparisons(torch)
    if missing and not _FEATURE.fullmatch(missing):
        raise DefinitionError(
            f'missing is the path of an attribute of torch, such as "torch.func.vmap", '
            f"got {missing!r}"
        )
    return SkipCondition(reason=reason, torch=torch, missing=missing)


def check_skips(skip: SkipCondition | Iterable[SkipCondition] | None) -> tuple[SkipCondition, ...]:
    """One condition, several, or none, as a tuple."""
    conditions = (skip,) if isinstance(skip, SkipCondition) else tuple(skip or ())
    for condition in conditions:
        if not isinstance(condition, SkipCondition):
            raise DefinitionError(f"skip takes what skip_if(...) returns, got {condition!r}")
    return conditions


def skip_reason(conditions: Iterable[SkipCondition], facts: EnvironmentFacts) -> str | None:
    """The reason of the first condition that holds."""
    return next((each.reason for each in conditions if each.holds(facts)), None)


def _is_in(version: str, versions: str) -> bool:
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    if numbers is None:
        return False
    own = _numbers(numbers[0])
    return all(
        _COMPARISONS[sign](_of_length(own, len(bound)), bound)
        for sign, bound in _comparisons(versions)
    )


def _comparisons(versions: str) -> list[tuple[str, tuple[int, ...]]]:
    parts = [(part, _RANGE_PART.fullmatch(part)) for part in versions.split(",")]
    for part, match in parts:
        if match is None:
            raise DefinitionError(
                f'versions of torch are written like "<2.0" or ">=1.9,<2.0"; {part!r} is not'
            )
    return [(match[1], _numbers(match[2])) for _, match in parts if match is not None]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _of_length(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    return (*numbers, *[0] * length)[:length]
