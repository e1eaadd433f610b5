"""Lines of plain text that keep to a width: paragraphs, and columns of a table."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.report.figures import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP = "  "
_NARROWEST = 15
"""A column of words is not made narrower than this, even if the table then is too wide."""

_LONG_WORD = 28
"""Words up to this are not broken to make a column narrower."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How wide the columns of a table are, and to which side their texts are pushed."""

    widths: tuple[int, ...]
    is_right: tuple[bool, ...]
    room: int
    """Characters that a line has."""

    @property
    def is_stacked(self) -> bool:
        """Whether figures take so much room that names stand on lines of their own above them."""
        return self._taken > self.room

    @property
    def _taken(self) -> int:
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)

    def lines(self, cells: Sequence[str], indent: str = "") -> list[str]:
        """A row: words are wrapped where they do not fit, figures are not."""
        if self.is_stacked:
            others = Layout(self.widths[1:], self.is_right[1:], self._taken)
            left = max(0, self.room - others._taken)
            if len(cells[0]) <= left - len(_GAP):
                return others.lines(cells[1:], f"{indent}{cells[0].ljust(left)}")
            name = wrap(cells[0], self.room, hang=_indent_of(cells[0]) + _GAP)
            rest = others.lines(cells[1:], indent + " " * left)
            return [*(f"{indent}{line}" for line in name), *rest]
        columns = [
            [cell] if right else wrap(cell, width, hang=_indent_of(cell) + _GAP) or [""]
            for cell, width, right in zip(cells, self.widths, self.is_right, strict=True)
        ]
        height = max(map(len, columns))
        rows = [
            [column[at] if at < len(column) else "" for column in columns] for at in range(height)
        ]
        return [f"{indent}{self._line(row)}".rstrip() for row in rows]

    def _line(self, cells: Sequence[str]) -> str:
        return _GAP.join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, self.widths, self.is_right, strict=True)
        )


def lay_out(rows: Sequence[Sequence[str]], is_right: Sequence[bool], room: int) -> Layout:
    """Columns as wide as their texts; words are narrowed until the row fits the room.

    >>> lay_out([["case", "time"], ["addition of two rather small tensors", "1.2 us"]], [0, 1], 30)
    Layout(widths=(22, 6), is_right=(False, True), room=30)
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    narrowest = [_narrowest(column) for column in columns]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    while excess > 0:
        words = [
            at for at, right in enumerate(is_right) if not right and widths[at] > narrowest[at]
        ]
        if not words:
            break
        widest = max(words, key=lambda at: widths[at])
        widths[widest] -= 1
        excess -= 1
    return Layout(tuple(widths), tuple(map(bool, is_right)), room)


def _narrowest(column: Sequence[str]) -> int:
    """With room for the longest word on a line that hangs below another."""
    longest = max((len(word) for cell in column for word in cell.split()), default=0)
    return max(_NARROWEST, min(longest, _LONG_WORD) + len(_GAP))


def wrap(text: str, width: int, *, indent: str = "", hang: str = "") -> list[str]:
    """Lines of at most `width`; those after the first hang below it.

    >>> wrap("one two three", 9, hang="  ")
    ['one two', '  three']
    """
    return textwrap.wrap(
        printable(text), max(width, 1), initial_indent=indent, subsequent_indent=indent + hang
    )


def wrap_all(texts: Iterable[str], width: int) -> list[str]:
    """Each text by itself; its own further lines are kept, two spaces below the first."""
    lines = []
    for text in texts:
        first, *rest = printable(text).strip().splitlines() or [""]
        lines += wrap(first, width, hang=_GAP)
        for line in rest:
            lines += wrap(line.strip(), width, indent=_GAP + _indent_of(line), hang=_GAP) or [""]
    return lines


def cut(text: str, width: int) -> str:
    """
    >>> cut("at::native::add", 8), cut("short", 8)
    ('at::nat…', 'short')
    """
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


def _indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]
