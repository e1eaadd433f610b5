"""Render a view as plain text for a terminal or a pipe, within a given width, without escapes.

The last line is the summary. Environments and settings are omitted; the lead has the most
important facts.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from torchmark.printable import printable
from torchmark.report.figures import cut
from torchmark.report.formats.values import cell_text, is_figure, line_up, loud_rows, quiet_text
from torchmark.report.view import Detail, Row, Section, Table, View

_GAP = _INDENT = "  "
_NARROWEST = 15
"""Minimum width of a column of words, even if the table is then too wide."""

_LONG_WORD = 28
"""Words of up to this length are not broken to make a column narrower."""

_DETAIL = 6
"""Indentation of the details of a row."""

_SHORT = 30
"""The first column is wide enough for group titles that are shorter than this."""

_BEFORE_A_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nuµm]?s|[kMGT]i?B)(?!\w))")
"""The space between a number and its unit."""

_LEAST_ROOM = 20
"""Minimum width of details, even if the line is narrower."""


def render(view: View, width: int = 80) -> str:
    parts = [
        wrap_all([view.title, *view.lead], width),
        wrap_all([f"NOTE {note}" for note in view.notes], width),
        *(_section(section, width) for section in view.sections if not section.is_page_only),
        wrap_all([f"WARNING {warning}" for warning in view.warnings], width),
        wrap_all([view.summary], width),
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _section(section: Section, width: int) -> list[str]:
    body = [
        *wrap_all(section.paragraphs, width),
        *(_table(section.table, width) if section.table else []),
        *(f"{_INDENT}{line}" for line in wrap_all(section.listing, width - len(_INDENT))),
        *wrap_all(section.footnotes, width),
    ]
    return [*_wrap(section.title, width), *body] if body else []


def _table(table: Table, width: int) -> list[str]:
    """The rows with their groups, each with its details below it."""
    shown = loud_rows(table)[: table.most_rows]
    headings, sides = _headings(table)
    rows = [_cells(table, row) for row in shown]
    others = [""] * (len(headings) - 1)
    groups = [[row.group[len(_INDENT) :], *others] for row in shown if len(row.group) < _SHORT]
    layout = lay_out([headings, *groups, *rows], sides, width - len(_INDENT))
    lines, group = [], None
    for row, cells in zip(shown, rows, strict=True):
        if row.group != group:
            group = row.group
            lines += _heading(_line(group) or headings[0], headings, layout)
        lines += layout.lines(cells, _INDENT)
        for detail in row.details:
            lines += _detail(detail, width)
    lines += [f"{_INDENT}{text}" for text in _left_out(table, len(shown))]
    return lines if shown else []


def _headings(table: Table) -> tuple[list[str], list[bool]]:
    """The names of the columns in text, and whether they are right-aligned."""
    columns = [each for each in table.columns if not each.is_wide_only]
    return [_line(each.name) for each in columns], [is_figure(each) for each in columns]


def _line(text: str) -> str:
    return re.sub(r"[\n\t]", " ", printable(text))


def _cells(table: Table, row: Row) -> list[str]:
    cells = [
        _line(cell_text(column, cell))
        for column, cell in zip(table.columns, row.cells, strict=True)
        if not column.is_wide_only
    ]
    return [f"{_INDENT * row.depth}{cells[0]}", *cells[1:]]


def _heading(title: str, headings: Sequence[str], layout: Layout) -> list[str]:
    """The title of a group, in the place of the heading of the first column."""
    above, *rest = layout.lines(["", *headings[1:]], _INDENT)
    if layout.is_stacked:
        if not above[: len(title) + len(_INDENT)].strip():
            return [f"{title}{above[len(title) :]}", *rest]
        return [*_wrap(title, layout.room, hang=_INDENT), above, *rest]
    first = layout.widths[0] + len(_INDENT)
    begin, *more = _wrap(title, first, hang=_INDENT) or [""]
    return [f"{begin.ljust(first)}{above[first:]}".rstrip(), *more]


def _left_out(table: Table, shown: int) -> list[str]:
    more = len(loud_rows(table)) - shown
    beyond = f"… {more:,} more: {table.where_all}" if more else ""
    return [text for text in (beyond, quiet_text(table)) if text]


def _detail(detail: Detail, width: int) -> list[str]:
    if detail.is_page_only:
        return []
    indent, room = " " * _DETAIL, max(width - _DETAIL, _LEAST_ROOM)
    lines = [
        *_wrap(detail.title, room),
        *(cut(line, room) for line in printable(detail.code).splitlines()),
        *wrap_all(detail.lines, room),
        *(_small_table(detail.table, room) if detail.table else []),
    ]
    return [f"{indent}{line}".rstrip() for line in lines]


def _small_table(table: Table, width: int) -> list[str]:
    """A table of details. Names of functions are long, so they are cut and not wrapped."""
    shown = table.rows[: table.most_rows]
    headings, sides = _headings(table)
    rows = [headings, *(_cells(table, row) for row in shown)]
    layout = lay_out(rows, sides, width)
    lines = []
    for row in rows:
        cells = [cut(cell, room) for cell, room in zip(row, layout.widths, strict=True)]
        lines += layout.lines(cells)
    return [*lines, *_left_out(table, len(shown))]


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths and the alignment of the columns of a table."""

    widths: tuple[int, ...]
    is_right: tuple[bool, ...]
    room: int
    """Characters in a line."""

    @property
    def is_stacked(self) -> bool:
        """Whether the figures are so wide that names are on separate lines above them."""
        return _taken(self.widths) > self.room

    def lines(self, cells: Sequence[str], indent: str = "") -> list[str]:
        """The lines of a row: words are wrapped if they do not fit, figures are not."""
        if self.is_stacked:
            taken = _taken(self.widths[1:])
            others = Layout(self.widths[1:], self.is_right[1:], taken)
            left = max(0, self.room - taken)
            if len(cells[0]) <= left - len(_GAP):
                return others.lines(cells[1:], f"{indent}{cells[0].ljust(left)}")
            name = _wrap(cells[0], self.room, hang=_indent_of(cells[0]) + _GAP)
            rest = others.lines(cells[1:], indent + " " * left)
            return [*(f"{indent}{line}" for line in name), *rest]
        columns = [
            [cell] if right else _wrap(cell, width, hang=_indent_of(cell) + _GAP)
            for cell, width, right in zip(cells, self.widths, self.is_right, strict=True)
        ]
        return [
            f"{indent}{line_up(row, self.widths, self.is_right, _GAP)}".rstrip()
            for row in zip_longest(*columns, fillvalue="")
        ] or [indent.rstrip()]


def lay_out(rows: Sequence[Sequence[str]], is_right: Sequence[bool], room: int) -> Layout:
    """Columns as wide as their texts; columns of words are narrowed until the row fits.

    >>> lay_out([["case", "time"], ["addition of two rather small tensors", "1.2 us"]], [0, 1], 30)
    Layout(widths=(22, 6), is_right=(False, True), room=30)
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    narrowest = [_narrowest(column) for column in columns]
    while _taken(widths) > room:
        words = [
            at for at, right in enumerate(is_right) if not right and widths[at] > narrowest[at]
        ]
        if not words:
            break
        widths[max(words, key=lambda at: widths[at])] -= 1
    return Layout(tuple(widths), tuple(map(bool, is_right)), room)


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _narrowest(column: Sequence[str]) -> int:
    """The minimum width of a column: its longest word, on an indented line."""
    longest = max((len(word) for cell in column for word in cell.split()), default=0)
    return max(_NARROWEST, min(longest, _LONG_WORD) + len(_GAP))


def _wrap(text: str, width: int, *, indent: str = "", hang: str = "") -> list[str]:
    """Lines of at most `width`; those after the first are indented by `hang`.

    A number stays on the line of its unit. Printable text has no NUL, which stands for that space.
    """
    lines = textwrap.wrap(
        _BEFORE_A_UNIT.sub("\0", printable(text)),
        max(width, 1),
        initial_indent=indent,
        subsequent_indent=indent + hang,
    )
    return [line.replace("\0", " ") for line in lines]


def wrap_all(texts: Iterable[str], width: int) -> list[str]:
    """Wrap each text; its line breaks are kept, and lines after the first are indented."""
    lines = []
    for text in texts:
        first, *rest = printable(text).strip().splitlines() or [""]
        lines += _wrap(first, width, hang=_GAP)
        for line in rest:
            lines += _wrap(line.strip(), width, indent=_GAP + _indent_of(line), hang=_GAP) or [""]
    return lines


def _indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]
