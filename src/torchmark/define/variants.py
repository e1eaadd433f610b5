"""Blocks of variants: one benchmark for each line.

    # @Setup
    x = torch.ones((4, 4))

    # @add
    x + 1
    x.add_(1)

A line `# @label` (C++: `// @label`) labels the lines below it. The labels Setup and Global_Setup
are reserved: their lines run before every benchmark of the block, or go to the top of a C++ file.
If there is a block in each language, lines at the same position below the same label belong
together. An empty line or a comment stands for a statement that one of the languages does not have.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from torchmark.errors import DefinitionError
from torchmark.model.case import Language, trimmed

_COMMENT = {Language.PYTHON: "#", Language.CPP: "//"}

Label = tuple[str, ...]
"""The label above a line; empty for lines above the first label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A parsed block."""

    setup: str = ""
    """Runs before every statement."""

    global_setup: str = ""
    """C++ only: goes to the top of the file."""

    lines: dict[Label, list[str]] = field(default_factory=dict)
    """The lines below each label; empty strings for lines without a statement."""


def parse_block(block: str, language: Language) -> Block:
    """Group the lines of a block by the labels above them.

    >>> parse_block('''
    ...     # @view
    ...     x.view(-1)
    ...     x.view(1, -1)
    ... ''', Language.PYTHON).lines
    {('view',): ['x.view(-1)', 'x.view(1, -1)']}
    """
    comment = _COMMENT[language]
    sections: dict[Label, list[str]] = {}
    label: Label = ()
    for line in trimmed(block).split("\n"):
        match = re.fullmatch(rf"{comment}\s*@(.*)", line.strip())
        if match is None:
            sections.setdefault(label, []).append(line)
        else:
            label = _label(match[1].strip(), line)
    setup, global_setup = (
        trimmed("\n".join(sections.pop((name,), []))) for name in ("Setup", "Global_Setup")
    )
    if global_setup and language is Language.PYTHON:
        raise DefinitionError("Global_Setup is for C++ only; put Python code under # @Setup")
    lines = {label: [_statement(line, comment) for line in section]
             for label, section in sections.items()}  # fmt: skip
    return Block(setup=setup, global_setup=global_setup, lines=lines)


def variants_of(python: Block, cpp: Block) -> Iterator[tuple[Label, str | None, str | None]]:
    """Yield the label of each benchmark with its Python and C++ statements; None if missing.

    Several under one label are numbered, as in PyTorch's instruction-count suite.
    """
    for label in dict.fromkeys([*python.lines, *cpp.lines]):
        places = itertools.zip_longest(
            python.lines.get(label, []), cpp.lines.get(label, []), fillvalue=""
        )
        pairs = [pair for pair in places if any(pair)]
        for number, (py_stmt, cpp_stmt) in enumerate(pairs):
            case = (f"Case: {number:>2}",) if len(pairs) > 1 else ()
            yield (*label, *case), py_stmt or None, cpp_stmt or None


def _label(text: str, line: str) -> Label:
    if not text:
        raise DefinitionError(f"a label of the block is empty: {line.strip()!r}")
    reserved = {"setup": "Setup", "global_setup": "Global_Setup"}
    return (reserved.get(text.lower().replace(" ", "_"), text),)


def _statement(line: str, comment: str) -> str:
    return "" if line.strip().startswith(comment) else line.strip()
