"""Which cases are known not to work with an old torch, and why: `--backtest` leaves them out.

The table is data, in known_breaks.toml beside this module. An entry names versions of torch, as
`skip_if` does, and the cases that it means: by what they use, by language, runtime or passes.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

import msgspec

from torchmark.define.skips import EnvironmentFacts, SkipCondition, skip_if
from torchmark.errors import DefinitionError, KnownBreaksError
from torchmark.model.case import Autograd, Language, Runtime

if TYPE_CHECKING:
    from torchmark.model.case import Case

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the interpreter of the checks is newer
    import tomli as tomllib

_TABLE = "known_breaks.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBreak:
    """One entry: with these versions of torch, these cases do not work."""

    condition: SkipCondition
    """The versions, and the reason."""

    uses: re.Pattern[str] | None = None
    """Found in the text of the cases that are meant; None means whatever the text."""

    language: Language | None = None
    """None means any."""

    runtime: Runtime | None = None
    """None means any."""

    autograd: Autograd | None = None
    """None means any."""

    def means(self, case: Case) -> bool:
        """Whether the entry is about such a case, whatever the torch."""
        return (
            self.language in (None, case.language)
            and self.runtime in (None, case.runtime)
            and self.autograd in (None, case.autograd)
            and (self.uses is None or self.uses.search(_text_of(case)) is not None)
        )


def reason_to_skip(case: Case, torch_version: str) -> str | None:
    """Why the case cannot work with this torch, as far as is known; None for one that may.

    >>> from torchmark.model.case import Case
    >>> case = Case(label=("guard",), stmt="c10::InferenceMode guard;", language=Language.CPP)
    >>> reason_to_skip(case, "1.8.1+cu102")
    'c10::InferenceMode came with torch 1.9'
    >>> reason_to_skip(case, "1.9.0a0+git1234")
    """
    facts = EnvironmentFacts(torch=torch_version)
    for each in known_breaks():
        if each.condition.holds(facts) and each.means(case):
            return each.condition.reason
    return None


@cache
def known_breaks() -> tuple[KnownBreak, ...]:
    """The table that ships with torchmark."""
    return breaks_in(resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8"))


def breaks_in(text: str) -> tuple[KnownBreak, ...]:
    """The entries of a table, in order; a KnownBreaksError says what is wrong with which."""
    try:
        table = msgspec.convert(tomllib.loads(text), _Table)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise KnownBreaksError(f"{_TABLE}: {error}") from error
    return tuple(_break_of(entry, number) for number, entry in enumerate(table.breaks, start=1))


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """An entry as it is written."""

    torch: str
    reason: str
    uses: str | None = None
    language: Literal["python", "cpp"] | None = None
    runtime: Runtime | None = None
    autograd: Autograd | None = None


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    breaks: list[_Entry] = msgspec.field(name="break")


def _break_of(entry: _Entry, number: int) -> KnownBreak:
    where = f"{_TABLE}, entry {number}"
    if not (entry.uses or entry.language or entry.runtime or entry.autograd):
        raise KnownBreaksError(
            f"{where} means every case; say which by uses, language, runtime or autograd"
        )
    try:
        return KnownBreak(
            condition=skip_if(torch=entry.torch, reason=entry.reason),
            uses=None if entry.uses is None else re.compile(entry.uses),
            language=None if entry.language is None else Language[entry.language.upper()],
            runtime=entry.runtime,
            autograd=entry.autograd,
        )
    except DefinitionError as error:
        raise KnownBreaksError(f"{where}: {error}") from error
    except re.error as error:
        raise KnownBreaksError(f"{where}: uses is not a regular expression: {error}") from error


def _text_of(case: Case) -> str:
    model = "" if case.model is None else case.model.source
    return "\n".join([case.global_setup, case.setup, case.stmt, model])
