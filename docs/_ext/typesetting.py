"""Marks for the style sheet, where a browser would break lines badly; and `%` stays at its number.

A browser breaks a date or an option at its hyphens, and squeezes a column with long text to one
word a line before the table scrolls.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_SHORT_CELL, _LONG_CELL, _LONGEST_CELL = 11, 30, 55
"""Letters: a short cell is one line; the others are as wide as a few words."""

_LONG_WORD = 36
"""Letters of a word of code that may not fit a line on a phone."""


def mark(_app: Sphinx, document: nodes.document) -> None:
    for cell in document.findall(nodes.entry):
        letters = len(cell.astext())
        if letters <= _SHORT_CELL:
            cell["classes"].append("short")
        elif letters > _LONG_CELL:
            cell["classes"].append("long" if letters <= _LONGEST_CELL else "longest")
    for code in document.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) > _LONG_WORD:
            code["classes"].append("long")


def keep_percents(_app: Sphinx, document: nodes.document) -> None:
    for text in list(document.findall(nodes.Text)):
        joined = re.sub(r"(?<=\d)\s%", "\N{NO-BREAK SPACE}%", text)
        if joined != text and not isinstance(text.parent, nodes.FixedTextElement | nodes.literal):
            text.parent.replace(text, nodes.Text(joined))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", mark)
    app.connect("doctree-read", keep_percents)
    return {"parallel_read_safe": True}
