"""Render a view in GitHub's Markdown for a pull request: changes first, the rest folded below.

A comment on GitHub can have 65,536 characters. Longer text is cut, first the rows of tables and
lists, then whole sections, and it says how many were left out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from torchmark.printable import printable
from torchmark.report.figures import cut_line
from torchmark.report.formats.values import cell_text, is_figure, line_up, loud_rows, quiet_text
from torchmark.report.view import Column, Detail, FactTable, Kind, Row, Section, Table, View

LIMIT = 60_000
"""Maximum characters of the whole text; the rest is for text that users add."""

_ROWS = (1000, 300, 100, 40, 15, 5)
"""Maximum rows of tables and lists; the first number that makes the text fit is used."""

_LONGEST = 400
"""Maximum characters of a sentence or a cell."""

_SPECIAL = re.compile(
    r"[\\|*<>&`~@#]|\](?=[(\[:])|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.I
)
"""Characters that would be read as Markdown, HTML, a link, or a reference to a user or issue."""

_BEGINNING = re.compile(r"^(?:(?=[-+](?:\s|$)|[-=]{2,})|(\d{1,9})(?=[.)](?:\s|$)))")
"""Beginnings of lines that would be read as an item of a list, or as a rule."""


def render(view: View) -> str:
    text, parts = "", list[str]()
    for most in _ROWS:
        parts = [part for part in _parts(view, most) if part]
        text = _join(parts)
        if len(text) < LIMIT:
            break
    left_out = 0
    while len(text) >= LIMIT:
        left_out += 1
        text = _join([*parts[:-left_out], f"{left_out} more sections do not fit."])
    return f"{text}\n"


def escaped(text: str) -> str:
    r"""The text in one line, with Markdown escaped.

    >>> print(escaped("a|b <i> `c`"))
    a\|b \<i\> \`c\`
    """
    return _SPECIAL.sub(r"\\\g<0>", _line(text))


def _paragraph(text: str) -> str:
    """Escaped text at the beginning of a line."""
    return _BEGINNING.sub(r"\1\\", escaped(text))


def _line(text: str) -> str:
    return cut_line(printable(text), _LONGEST)


def pipe_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table of plain texts; all columns except the first are right-aligned.

    >>> print(pipe_table(["case", "time"], [["a|b", "1.2 us"]]))
    | case |   time |
    |------|-------:|
    | a\|b | 1.2 us |
    """
    columns = [(escaped(name), at > 0) for at, name in enumerate(header)]
    return _line_up(columns, [list(map(escaped, row)) for row in rows])


def render_table(table: Table) -> str:
    """All rows of a table, without their details."""
    return _rows(table, table.rows, len(table.rows))


def _line_up(columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> str:
    """The columns, figures right-aligned, padded so that the source is readable too."""
    names, is_right = [name for name, _ in columns], [right for _, right in columns]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    rule = [
        "-" * (width + 1) + (":" if right else "-")
        for width, right in zip(widths, is_right, strict=True)
    ]
    first, *rest = [f"| {line_up(row, widths, is_right, ' | ')} |" for row in (names, *rows)]
    return "\n".join([first, f"|{'|'.join(rule)}|", *rest])


def _parts(view: View, most: int) -> list[str]:
    sections = [section for section in view.sections if not section.is_page_only]
    return [
        f"**{escaped(view.summary)}**",
        _list([f"**Warning:** {escaped(text)}" for text in view.warnings], most),
        _list([_paragraph(text) for text in view.notes], most),
        *(_section(section, most) for section in sections),
        _about(view, most),
    ]


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _section(section: Section, most: int) -> str:
    body = [
        *(_paragraph(text) for text in section.paragraphs),
        *(_table(section.table, most) if section.table else []),
        _list([_paragraph(text) for text in section.listing], most),
        *(_paragraph(text) for text in section.footnotes),
    ]
    if not any(body):
        return ""
    if section.is_folded:
        return _fold(section.title, body)
    return _join([f"### {escaped(section.title)}", *body])


def _table(table: Table, most: int) -> list[str]:
    """The rows that are not quiet; all rows and the details are folded below."""
    loud = loud_rows(table)
    parts = [_rows(table, loud, most)]
    if len(loud) < len(table.rows):
        parts.append(_fold(quiet_text(table), [_rows(table, table.rows, most)]))
    details = [text for row in loud[:most] if (text := _details(table, row, most))]
    if details:
        parts.append(_fold("Details", details))
    return parts


def _rows(table: Table, rows: Sequence[Row], most: int) -> str:
    if not rows:
        return ""
    lines, group = [], ""
    for row in rows[:most]:
        if row.group != group:
            group = row.group
            lines.append([f"**{escaped(group)}**", *[""] * (len(table.columns) - 1)])
        lines.append(_cells(table, row))
    columns = [(escaped(column.name), is_figure(column)) for column in table.columns]
    return _join([_line_up(columns, lines), _left_out(len(rows) - most, "rows")])


def _cells(table: Table, row: Row) -> list[str]:
    cells = [
        _cell(column, cell_text(column, cell))
        for column, cell in zip(table.columns, row.cells, strict=True)
    ]
    return ["&nbsp;" * 2 * row.depth + cells[0], *cells[1:]]


def _cell(column: Column, text: str) -> str:
    """A cell as code if possible; as text if a backtick or a pipe would end it early."""
    line = _line(text)
    is_code = column.kind is Kind.CODE and text and "`" not in line and "|" not in line
    return f"`{line}`" if is_code else escaped(text)


def _details(table: Table, row: Row, most: int) -> str:
    shown = [detail for detail in row.details if not detail.is_page_only]
    if not shown:
        return ""
    name = cell_text(table.columns[0], row.cells[0])
    return _join([f"**{escaped(name)}**", *(_detail(detail, most) for detail in shown)])


def _detail(detail: Detail, most: int) -> str:
    return _join(
        [
            _paragraph(detail.title),
            _block(detail.code) if detail.code else "",
            _list([_paragraph(line) for line in detail.lines], most),
            _rows(detail.table, detail.table.rows, most) if detail.table else "",
        ]
    )


def _block(code: str) -> str:
    """A block of code, with a fence that is longer than any in the code."""
    longest = max(map(len, re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(code)}\n{fence}"


def _about(view: View, most: int) -> str:
    """The run, its environments and settings, folded."""
    settings = [[escaped(name), escaped(value)] for name, value in view.settings]
    parts = [
        f"{_paragraph(view.title)}  ",
        "  \n".join(_paragraph(line) for line in view.lead),
        _facts(view.environments, most) if view.environments else "",
        _line_up([("setting", False), ("value", False)], settings) if settings else "",
    ]
    return _fold("Run, environments and settings", parts)


def _facts(facts: FactTable, most: int) -> str:
    """Facts that differ; all facts if there is only one environment."""
    shown = facts.differing if len(facts.names) > 1 else facts.facts
    rows = [[escaped(name), *map(escaped, values)] for name, values in shown[:most]]
    if not rows:
        return "All known facts of the environments are the same."
    names = ["fact", *(name or "value" for name in facts.names)]
    return _line_up([(escaped(name), False) for name in names], rows)


def _list(items: Sequence[str], most: int) -> str:
    shown = [*items[:most], _left_out(len(items) - most, "entries")]
    return "\n".join(f"- {item}" for item in shown if item)


def _left_out(number: int, what: str) -> str:
    return f"{number:,} more {what} do not fit." if number > 0 else ""


def _fold(title: str, parts: Sequence[str]) -> str:
    """A folded part; the empty lines let GitHub read Markdown inside."""
    summary = html.escape(_line(title), quote=False)
    return f"<details><summary>{summary}</summary>\n\n{_join(parts)}\n\n</details>"
