"""Decides what to skip and why: by conditions of definitions, and by known breaks of torch.

A condition is data. It is evaluated with facts about the environment under test, which may have
another torch than the interpreter that reads the definition, or the only torch.

Known breaks are cases that do not work with an old torch; `--backtest` skips them. They are listed
in known_breaks.toml next to this module. An entry names versions of torch, as `skip_if` does, and
selects cases by the code they use, and by language, runtime or passes.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from torchmark.errors import DefinitionError, KnownBreaksError
from torchmark.model.case import Autograd, Case, Runtime

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the interpreter of the checks is newer
    import tomli as tomllib

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
_TABLE = "known_breaks.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFacts:
    """Facts about the environment in which cases will run; unknown facts do not skip anything."""

    torch: str | None = None
    """The version of torch; None if unknown."""

    features: Mapping[str, bool] = field(default_factory=dict)
    """Whether torch has an attribute, by its path ("torch.func.vmap"). Paths that are not listed
    are unknown."""


NOTHING_KNOWN = EnvironmentFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipCondition:
    """A condition for skipping a definition: it holds if all of its fields do."""

    reason: str
    """Shown to the readers of the results."""

    torch: str = ""
    """Versions, such as "<2.0" or ">=1.9,<2.0"; any if empty."""

    missing: str = ""
    """Path of an attribute that torch lacks; ignored if empty."""

    def holds(self, facts: EnvironmentFacts) -> bool:
        if self.torch and (facts.torch is None or not _is_in(facts.torch, self.torch)):
            return False
        return not self.missing or facts.features.get(self.missing) is False


def skip_if(*, reason: str, torch: str = "", missing: str = "") -> SkipCondition:
    """Skip a definition if torch has one of these versions and lacks this attribute.

    Versions are compared with as many numbers as the condition has, so 2.1.2 is `==2.1` and not
    `>2.1`. Anything after the numbers, as in 2.14.0a0+git1234, is ignored.

    >>> condition = skip_if(torch="<2.0", reason="torch.compile is not there yet")
    >>> condition.holds(EnvironmentFacts(torch="1.13.1+cpu"))
    True
    >>> condition.holds(EnvironmentFacts(torch="2.0.0a0+git1234"))
    False
    """
    if not reason.strip():
        raise DefinitionError("skip_if needs a reason, which reports show next to the case")
    if not (torch or missing):
        raise DefinitionError('skip_if needs a condition: torch="<2.0" or missing="torch.func"')
    if torch:
        _comparisons(torch)
    if missing and not _FEATURE.fullmatch(missing):
        raise DefinitionError(
            f'missing must be the path of an attribute of torch, such as "torch.func.vmap", '
            f"not {missing!r}"
        )
    return SkipCondition(reason=reason, torch=torch, missing=missing)


def check_skips(skip: SkipCondition | Iterable[SkipCondition] | None) -> tuple[SkipCondition, ...]:
    """Return one condition, several or none as a tuple."""
    conditions = (skip,) if isinstance(skip, SkipCondition) else tuple(skip or ())
    for condition in conditions:
        if not isinstance(condition, SkipCondition):
            raise DefinitionError(f"skip must be a result of skip_if(...), not {condition!r}")
    return conditions


def skip_reason(conditions: Iterable[SkipCondition], facts: EnvironmentFacts) -> str | None:
    """Return the reason of the first condition that holds, if any."""
    return next((each.reason for each in conditions if each.holds(facts)), None)


def _is_in(version: str, versions: str) -> bool:
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    if numbers is None:
        return False
    for sign, bound in _comparisons(versions):
        own = (*_numbers(numbers[0]), *[0] * len(bound))[: len(bound)]
        if not _COMPARISONS[sign](own, bound):
            return False
    return True


def _comparisons(versions: str) -> list[tuple[str, tuple[int, ...]]]:
    found = []
    for part in versions.split(","):
        match = _RANGE_PART.fullmatch(part)
        if match is None:
            raise DefinitionError(
                f'versions of torch are written like "<2.0" or ">=1.9,<2.0"; {part!r} is not'
            )
        found.append((match[1], _numbers(match[2])))
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


class KnownBreak(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of the table: these cases do not work with these versions of torch."""

    torch: str
    reason: str
    uses: str | None = None
    """A regular expression that is searched in the text of a case. None, here and below, matches
    anything."""

    language: Literal["python", "cpp"] | None = None
    runtime: Runtime | None = None
    autograd: Autograd | None = None

    @property
    def condition(self) -> SkipCondition:
        """The versions and the reason as a condition."""
        return skip_if(torch=self.torch, reason=self.reason)

    def means(self, case: Case) -> bool:
        """Whether the entry applies to this case, regardless of the version of torch."""
        model = "" if case.model is None else case.model.source
        text = "\n".join([case.global_setup, case.setup, case.stmt, model])
        return (
            self.language in (None, case.language.name.lower())
            and self.runtime in (None, case.runtime)
            and self.autograd in (None, case.autograd)
            and (self.uses is None or re.search(self.uses, text) is not None)
        )


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    breaks: list[KnownBreak] = msgspec.field(name="break")


def find_known_break(case: Case, torch_version: str) -> str | None:
    """Say why the case is known not to work with this torch; None if it may work.

    >>> from torchmark.model.case import Case
    >>> from torchmark.model.case import Language
    >>> case = Case(label=("guard",), stmt="c10::InferenceMode guard;", language=Language.CPP)
    >>> find_known_break(case, "1.8.1+cu102")
    'c10::InferenceMode was added in torch 1.9'
    >>> find_known_break(case, "1.9.0a0+git1234")
    """
    facts = EnvironmentFacts(torch=torch_version)
    return skip_reason((each.condition for each in known_breaks() if each.means(case)), facts)


@cache
def known_breaks() -> tuple[KnownBreak, ...]:
    """Return the table that is part of torchmark."""
    return breaks_in(resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8"))


def breaks_in(text: str) -> tuple[KnownBreak, ...]:
    """Parse the entries of a table; a KnownBreaksError names the entry with a mistake."""
    try:
        table = msgspec.convert(tomllib.loads(text), _Table)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise KnownBreaksError(f"{_TABLE}: {error}") from error
    for number, entry in enumerate(table.breaks, start=1):
        _check_entry(entry, f"{_TABLE}, entry {number}")
    return tuple(table.breaks)


def _check_entry(entry: KnownBreak, where: str) -> None:
    if not (entry.uses or entry.language or entry.runtime or entry.autograd):
        raise KnownBreaksError(
            f"{where} matches every case; restrict it by uses, language, runtime or autograd"
        )
    try:
        skip_if(torch=entry.torch, reason=entry.reason)
        re.compile(entry.uses or "")
    except DefinitionError as error:
        raise KnownBreaksError(f"{where}: {error}") from error
    except re.error as error:
        raise KnownBreaksError(f"{where}: uses is not a regular expression: {error}") from error
