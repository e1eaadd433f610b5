"""Lines of a table in plain text that keeps to a width: long names are wrapped, figures are not."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    Section = tuple[str, Sequence[tuple[str, Sequence[str]]]]
    """A title, and rows of a name and cells."""

_GAP = "  "
_NARROWEST = 20
"""A column of names is not made narrower than this, even if the table then is too wide."""


def lined_up(headings: Sequence[str], sections: Sequence[Section], width: int) -> list[str]:
    """The sections one after the other, their columns of figures lined up at the right.

    >>> for line in lined_up(["time"], [("Pointwise", [("add in place", ["1.2 us"])])], 24):
    ...     print(line)
    Pointwise         time
      add in place  1.2 us
    """
    return [line for block in blocks(headings, sections, width) for line in block]


def blocks(headings: Sequence[str], sections: Sequence[Section], width: int) -> list[list[str]]:
    """The same lines, those of each title and of each row by themselves."""
    rows = [row for _, section in sections for row in section]
    widths = [
        max([len(heading), *(len(cells[column]) for _, cells in rows)])
        for column, heading in enumerate(headings)
    ]
    room = max(_NARROWEST, width - sum(widths) - len(_GAP) * (len(widths) + 1))
    longest = max([len(name) for name, _ in rows] + [len(title) - 2 for title, _ in sections] + [0])
    room = min(room, longest)
    found = []
    for title, section in sections:
        found.append(_row(title, headings, widths, room + 2, ""))
        found += [_row(name, cells, widths, room, _GAP) for name, cells in section]
    return found


def _row(
    name: str, cells: Sequence[str], widths: Sequence[int], room: int, indent: str
) -> list[str]:
    first, *rest = textwrap.wrap(name, max(room, 1), subsequent_indent="  ") or [""]
    figures = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    line = _GAP.join([indent + first.ljust(room), *figures]).rstrip()
    return [line, *(indent + part for part in rest)]
