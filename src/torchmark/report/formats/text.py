"""A view for a terminal or a pipe: plain text without escapes that keeps to a width.

The last line is all of it in one sentence. Environments and settings are left out: what a reader
must know of them stands in the lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.report.figures import printable
from torchmark.report.formats.layout import cut, lay_out, wrap, wrap_all
from torchmark.report.formats.values import cell_text, is_figure, loud_rows, quiet_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.report.formats.layout import Layout
    from torchmark.report.view import Detail, Row, Section, Table, View

_INDENT = "  "
_DETAIL = 6
"""How far the details of a row stand to the right."""

_SHORT = 30
"""Characters of a group's title below which the first column is made wide enough for it."""

_LEAST_ROOM = 20
"""Characters that text in a table of details has, even where the figures leave less."""


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
    return [*wrap(section.title, width), *body] if body else []


def _table(table: Table, width: int) -> list[str]:
    """The rows under their groups, each with its details below it."""
    shown = loud_rows(table)[: table.most_rows]
    columns = [each for each in table.columns if not each.is_wide_only]
    headings = [printable(column.name) for column in columns]
    rows = [_cells(table, row) for row in shown]
    sides = [is_figure(column) for column in columns]
    others = [""] * (len(headings) - 1)
    groups = [[row.group[len(_INDENT) :], *others] for row in shown if len(row.group) < _SHORT]
    layout = lay_out([headings, *groups, *rows], sides, width - len(_INDENT))
    lines, group = [], None
    for row, cells in zip(shown, rows, strict=True):
        if row.group != group:
            group = row.group
            lines += _heading(group or headings[0], headings, layout)
        lines += layout.lines(cells, _INDENT)
        for detail in row.details:
            lines += _detail(detail, width)
    lines += [f"{_INDENT}{text}" for text in _left_out(table, len(shown))]
    return lines if shown else []


def _cells(table: Table, row: Row) -> list[str]:
    cells = [
        cell_text(column, cell).replace("\n", " ")
        for column, cell in zip(table.columns, row.cells, strict=True)
        if not column.is_wide_only
    ]
    return [f"{_INDENT * row.depth}{cells[0]}", *cells[1:]]


def _heading(title: str, headings: Sequence[str], layout: Layout) -> list[str]:
    """The title of a group where the heading of the first column stands."""
    if layout.is_stacked:
        above, *rest = layout.lines(["", *headings[1:]], _INDENT)
        if not above[: len(title) + len(_INDENT)].strip():
            return [f"{title}{above[len(title) :]}", *rest]
        return [*wrap(title, layout.room, hang=_INDENT), above, *rest]
    first = layout.widths[0] + len(_INDENT)
    begin, *rest = wrap(title, first, hang=_INDENT) or [""]
    line = layout.lines(["", *headings[1:]], _INDENT)[0]
    return [f"{begin.ljust(first)}{line[first:]}".rstrip(), *rest]


def _left_out(table: Table, shown: int) -> list[str]:
    more = len(loud_rows(table)) - shown
    beyond = f"… {more:,} more: see --html or --json" if more else ""
    return [text for text in (beyond, quiet_text(table)) if text]


def _detail(detail: Detail, width: int) -> list[str]:
    if detail.is_page_only:
        return []
    indent, room = " " * _DETAIL, max(width - _DETAIL, _LEAST_ROOM)
    lines = [
        *wrap(detail.title, room),
        *(cut(line, room) for line in printable(detail.code).splitlines()),
        *wrap_all(detail.lines, room),
        *(_small_table(detail.table, room) if detail.table else []),
    ]
    return [f"{indent}{line}".rstrip() for line in lines]


def _small_table(table: Table, width: int) -> list[str]:
    """Names of functions are long and would fill the screen: they are cut, not wrapped."""
    shown = table.rows[: table.most_rows]
    columns = [each for each in table.columns if not each.is_wide_only]
    rows = [[printable(column.name) for column in columns], *(_cells(table, row) for row in shown)]
    layout = lay_out(rows, [is_figure(column) for column in columns], width)
    lines = []
    for row in rows:
        cells = [cut(cell, room) for cell, room in zip(row, layout.widths, strict=True)]
        lines += layout.lines(cells)
    return [*lines, *_left_out(table, len(shown))]
