"""A view in GitHub's Markdown, for a pull request: what changed, and all else folded below it.

GitHub takes no comment of more than 65,536 characters, so what is longer is cut: first the rows of
tables and lists, then whole sections, and the text says how many are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchmark.report.figures import printable
from torchmark.report.formats.layout import cut
from torchmark.report.formats.values import cell_text, is_figure, loud_rows, quiet_text
from torchmark.report.view import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.report.view import Column, Detail, FactTable, Row, Section, Table, View

LIMIT = 60_000
"""Characters of the whole text, with room for what somebody puts around it."""

_ROWS = (1000, 300, 100, 40, 15, 5)
"""What a table or a list may have; the first that makes the text fit is taken."""

_LONGEST = 400
"""Characters of a sentence or a cell."""

_SPECIAL = re.compile(r"[\\|*<>&`~@#]|\](?=[(\[:])|(?<!\w)_|_(?!\w)")
"""Would be read as Markdown, as HTML, or as the name of a person or an issue."""


def render(view: View) -> str:
    parts: list[str] = []
    for most in _ROWS:
        parts = _parts(view, most)
        text = _joined(parts)
        if len(text) <= LIMIT:
            return text
    return _first_that_fit(parts)


def escaped(text: str) -> str:
    r"""One line of somebody's text, as it is.

    >>> print(escaped("a|b <i> `c`"))
    a\|b \<i\> \`c\`
    """
    return _SPECIAL.sub(r"\\\g<0>", cut(" ".join(printable(text).split()), _LONGEST))


def pipe_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table of plain texts: a name, and figures at the right.

    >>> print(pipe_table(["case", "time"], [["a|b", "1.2 us"]]))
    | case |   time |
    |------|-------:|
    | a\|b | 1.2 us |
    """
    columns = [(escaped(name), at > 0) for at, name in enumerate(header)]
    return _line_up(columns, [list(map(escaped, row)) for row in rows])


def render_table(table: Table) -> str:
    """Every row of a table, without what unfolds below it."""
    return _rows_table(table, table.rows)


def _line_up(columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> str:
    """The columns, figures at the right, lined up for those who read it as text."""
    names = [name for name, _ in columns]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    rule = [
        "-" * (width + 1) + (":" if right else "-")
        for width, (_, right) in zip(widths, columns, strict=True)
    ]
    lines = [
        " | ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, (_, right) in zip(row, widths, columns, strict=True)
        )
        for row in (names, *rows)
    ]
    return "\n".join([f"| {lines[0]} |", f"|{'|'.join(rule)}|", *(f"| {x} |" for x in lines[1:])])


def _parts(view: View, most: int) -> list[str]:
    sections = [section for section in view.sections if not section.is_page_only]
    parts = [
        f"**{escaped(view.summary)}**",
        _list([f"**Warning:** {escaped(text)}" for text in view.warnings], most),
        _list([escaped(text) for text in view.notes], most),
        *(_section(section, most) for section in sections),
        _about(view, most),
    ]
    return [part for part in parts if part]


def _first_that_fit(parts: Sequence[str]) -> str:
    kept = list(parts)
    while True:
        kept.pop()
        text = _joined([*kept, f"{len(parts) - len(kept)} more sections do not fit here."])
        if len(text) <= LIMIT:
            return text


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section, most: int) -> str:
    body = [
        *(escaped(text) for text in section.paragraphs),
        *(_table(section.table, most) if section.table else []),
        _list([escaped(text) for text in section.listing], most),
        *(escaped(text) for text in section.footnotes),
    ]
    body = [part for part in body if part]
    if not body:
        return ""
    if section.is_folded:
        return _folded(section.title, body)
    return "\n\n".join([f"### {escaped(section.title)}", *body])


def _table(table: Table, most: int) -> list[str]:
    """The rows that say something; all of them and their details folded below."""
    loud = loud_rows(table)
    parts = [_rows_table(table, loud[:most]), _left_out(len(loud) - most, "rows")]
    if len(loud) < len(table.rows):
        every = _rows_table(table, table.rows[:most])
        parts.append(_folded(quiet_text(table), [every, _left_out(len(table.rows) - most, "rows")]))
    details = [text for row in loud[:most] if (text := _details(table, row, most))]
    if details:
        parts.append(_folded("Details", details))
    return parts


def _rows_table(table: Table, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    lines, group = [], ""
    for row in rows:
        if row.group != group:
            group = row.group
            lines.append([f"**{escaped(group)}**", *[""] * (len(table.columns) - 1)])
        lines.append(_cells(table, row))
    return _line_up([(escaped(column.name), is_figure(column)) for column in table.columns], lines)


def _cells(table: Table, row: Row) -> list[str]:
    cells = [
        _cell(column, cell_text(column, cell))
        for column, cell in zip(table.columns, row.cells, strict=True)
    ]
    return ["&nbsp;" * 2 * row.depth + cells[0], *cells[1:]]


def _cell(column: Column, text: str) -> str:
    return _code(text) if column.kind is ColumnKind.CODE and text else escaped(text)


def _code(text: str) -> str:
    """As code in a line; where a backtick or a pipe would end it early, as plain text."""
    line = cut(" ".join(printable(text).split()), _LONGEST)
    return escaped(line) if "`" in line or "|" in line else f"`{line}`"


def _details(table: Table, row: Row, most: int) -> str:
    shown = [detail for detail in row.details if not detail.is_page_only]
    if not shown:
        return ""
    name = cell_text(table.columns[0], row.cells[0])
    return "\n\n".join([f"**{escaped(name)}**", *(_detail(detail, most) for detail in shown)])


def _detail(detail: Detail, most: int) -> str:
    parts = [
        escaped(detail.title),
        _block(detail.code) if detail.code else "",
        _list([escaped(line) for line in detail.lines], most),
        _rows_table(detail.table, detail.table.rows[:most]) if detail.table else "",
        _left_out(len(detail.table.rows) - most, "rows") if detail.table else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _block(code: str) -> str:
    """A fence that is longer than any in the code."""
    longest = max(map(len, re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(code)}\n{fence}"


def _about(view: View, most: int) -> str:
    """Which run it was, where, and how: folded."""
    parts = [
        f"{escaped(view.title)}  ",
        "  \n".join(escaped(line) for line in view.lead),
        _facts(view.environments, most) if view.environments else "",
        _line_up(
            [("setting", False), ("value", False)],
            [[escaped(name), escaped(value)] for name, value in view.settings],
        )
        if view.settings
        else "",
    ]
    return _folded("Run, environments and settings", [part for part in parts if part])


def _facts(facts: FactTable, most: int) -> str:
    """What differs; of a single environment, everything."""
    shown = facts.differing if len(facts.names) > 1 else facts.facts
    rows = [[escaped(name), *map(escaped, values)] for name, values in shown[:most]]
    if not rows:
        return "All known facts of the environments are the same."
    names = [
        (escaped(name), False) for name in ("fact", *(name or "value" for name in facts.names))
    ]
    return _line_up(names, rows)


def _list(items: Sequence[str], most: int) -> str:
    lines = [f"- {item}" for item in items[:most]]
    more = _left_out(len(items) - most, "entries")
    return "\n".join([*lines, f"- {more}"] if more else lines)


def _left_out(number: int, what: str) -> str:
    return f"{number:,} more {what} do not fit here." if number > 0 else ""


def _folded(title: str, parts: Sequence[str]) -> str:
    """The empty lines let GitHub read Markdown inside."""
    body = _joined(parts)
    return f"<details><summary>{_html(title)}</summary>\n\n{body}\n</details>"


def _html(text: str) -> str:
    line = cut(" ".join(printable(text).split()), _LONGEST)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
