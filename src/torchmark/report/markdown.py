"""Tables in Markdown, for an issue or a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchmark.report.cells import cell_texts, row_titles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.report.table import Baseline, Table


_SPECIAL = re.compile(r"[\\|*<`~]|(?<!\w)_|_(?!\w)")


def render(table: Table, baseline: Baseline | None) -> str:
    header = [
        table.label or "",
        *(f"{title or 'time'} ({_unit(table, baseline)})" for title in table.columns),
    ]
    rows = [
        [title, *cells]
        for title, cells in zip(row_titles(table), cell_texts(table, baseline), strict=True)
    ]
    return pipe_table(header, rows)


def pipe_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A Markdown table, its columns lined up for those who read it as text.

    >>> print(pipe_table(["a", "b"], [["x|y", "1"]]))
    | a    | b |
    |------|--:|
    | x\|y | 1 |
    """
    lines = [[escaped(text) for text in row] for row in (header, *rows)]
    widths = [max(len(text) for text in column) for column in zip(*lines, strict=True)]
    rule = ["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]
    text = [_joined(line, widths) for line in lines]
    return "\n".join([text[0], f"|{'|'.join(rule)}|", *text[1:]])


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return f"| {' | '.join([first, *others])} |"


def escaped(text: str) -> str:
    """Pipes and line ends would end a cell; the others would be read as Markdown or HTML."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", " ")


def _unit(table: Table, baseline: Baseline | None) -> str:
    return table.unit if baseline is None else f"× {baseline.row}"
