"""What a statement is written in."""

from __future__ import annotations

import enum

from torchmark.errors import UnknownLanguageError


class Language(enum.Enum):
    """What a statement is written in: 0 is Python and 1 is C++, as in torch."""

    PYTHON = 0
    CPP = 1


LANGUAGE_NAMES = {
    "py": Language.PYTHON,
    "python": Language.PYTHON,
    "cpp": Language.CPP,
    "c++": Language.CPP,
}
"""What people may write for a Language, as in torch."""


def find_language(given: Language | str) -> Language:
    """The language that a person names."""
    if isinstance(given, Language):
        return given
    if given not in LANGUAGE_NAMES:
        names = ", ".join(map(repr, LANGUAGE_NAMES))
        raise UnknownLanguageError(f"unknown language {given!r}; write {names} or a Language")
    return LANGUAGE_NAMES[given]
