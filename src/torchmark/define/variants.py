"""Blocks of variants: one benchmark for each line.

    # @Setup
    x = torch.ones((4, 4))

    # @add
    x + 1
    x.add_(1)

A line `# @label` (C++: `// @label`) gives the lines below it a label. The labels Setup and
Global_Setup are reserved: their lines run before every benchmark of the block, or stand at the top
of a C++ file. Where there is a block in each language, lines at the same place below the same
label belong together; an empty line or a comment holds the place of a statement that one of the
languages does not have.
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
    """A block, taken apart."""

    setup: str = ""
    """Runs before every statement."""

    global_setup: str = ""
    """C++: stands at the top of the file."""

    lines: dict[Label, list[str]] = field(default_factory=dict)
    """What stands below each label; a line without a statement is empty."""


def parse_block(block: str, language: Language) -> Block:
    """Sort the lines of a block by the labels above them.

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
        raise DefinitionError("Global_Setup is for C++; put Python's lines under # @Setup")
    lines = {label: [_statement(line, comment) for line in section]
             for label, section in sections.items()}  # fmt: skip
    return Block(setup=setup, global_setup=global_setup, lines=lines)


def variants_of(python: Block, cpp: Block) -> Iterator[tuple[Label, str | None, str | None]]:
    """The label of each benchmark and its statements in Python and in C++, where there are such.

    Several under one label are numbered, as in the instruction-count suite of PyTorch.
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
