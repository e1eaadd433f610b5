"""What a statement is written in."""

from __future__ import annotations

import enum


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1
