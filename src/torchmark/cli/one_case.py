"""The one case that a person means by some words."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from torchmark.define.selection import selected
from torchmark.errors import AmbiguousCaseError, UnknownCaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.case import Case

_SEPARATORS = re.compile(r"[\s,/·]+")
"""Between the words of a title."""

_SHOWN = 10
"""Cases that a message lists; more are counted."""


def find_case(cases: Sequence[Case], words: str) -> Case:
    """The case with this id, title or name; otherwise the only one with these words in its title,
    whole words before parts of them; or the only one that the pattern means, as in `-k`.

    >>> from torchmark.model.case import Case
    >>> cases = [Case(label=("add", kind), stmt="x") for kind in ("Tensor", "SubTensor")]
    >>> find_case(cases, "add tensor").name, find_case(cases, "sub").name
    ('add / Tensor', 'add / SubTensor')
    """
    wanted = words.strip().lower()
    found = (
        [case for case in cases if wanted in (case.id, case.title.lower(), case.name.lower())]
        or [case for case in cases if set(wanted.split()) <= _words_of(case)]
        or list(selected(cases, words))
    )
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousCaseError(
            f"{len(found)} cases have the words {words!r}; give more of them, or an id:\n"
            + _listed(found)
        )
    near = _near(cases, wanted)
    hint = f"; near to it:\n{_listed(near)}" if near else ""
    raise UnknownCaseError(
        f"no case has the words {words!r}; `torchmark list` shows what the suites have{hint}"
    )


def _words_of(case: Case) -> set[str]:
    return set(_SEPARATORS.split(case.title.lower()))


def _near(cases: Sequence[Case], wanted: str) -> list[Case]:
    """The cases that have a word which is spelt nearly like one that no case has."""
    words_of = {case.id: _words_of(case) for case in cases}
    known = set[str]().union(*words_of.values())
    strange = [word for word in wanted.split() if not any(word in each for each in known)]
    meant = {
        near for word in strange for near in difflib.get_close_matches(word, known, cutoff=0.7)
    }
    return [case for case in cases if meant & words_of[case.id]]


def _listed(cases: Sequence[Case]) -> str:
    lines = [f"    {case.id}  {case.title}" for case in cases[:_SHOWN]]
    more = len(cases) - _SHOWN
    return "\n".join([*lines, *([f"    … and {more} more"] if more > 0 else [])])
