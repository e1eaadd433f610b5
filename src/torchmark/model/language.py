"""What a statement is written in."""

from __future__ import annotations

import enum


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
