"""Source as people write it inside an indented call, brought to the margin."""

from __future__ import annotations

import textwrap


def trimmed(source: str) -> str:
    r"""Without common indent, leading newline and trailing blanks.

    >>> trimmed('''
    ...     x = 1
    ...     y = 2
    ... ''')
    'x = 1\ny = 2'
    """
    return textwrap.dedent(source).removeprefix("\n").rstrip()


def joined(*parts: str) -> str:
    """Parts of a setup under each other, the empty ones left out."""
    return "\n".join(part for part in parts if part)


def indented(source: str) -> str:
    return textwrap.indent(source, "    ")
