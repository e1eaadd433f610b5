"""Helpers of the instruction-count suite, by the names under which its users import them."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from functools import cache
from textwrap import dedent

from core.types import Definition, FlatIntermediateDefinition

from torchmark.define.expansion import label_definitions
from torchmark.errors import DefinitionError

_HEADER = re.compile(r"Python {35}\| C\+\+\s*")
_RULE = re.compile(r"-{40} \| -{40}\s*")
_LINE = re.compile(r"(.{40}) \|(?: (.*))?")


@cache
def get_temp_dir() -> str:
    """A folder that goes with the process."""
    folder = tempfile.mkdtemp(prefix="instruction_count_microbenchmarks")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def flatten(schema: Definition) -> FlatIntermediateDefinition:
    """The definitions of nested dictionaries by their full labels.

    >>> from core.api import TimerArgs
    >>> list(flatten({"add": {None: TimerArgs("x + 1"), ("in", "place"): TimerArgs("x += 1")}}))
    [('add',), ('add', 'in', 'place')]
    """
    flat: FlatIntermediateDefinition = {}
    for label, definition in label_definitions(schema):
        if label in flat:
            raise DefinitionError(f"the label {' / '.join(label)!r} is given twice")
        flat[label] = definition
    return flat


def parse_stmts(stmts: str) -> tuple[str, str]:
    """The two columns of a table of Python and C++, each as text.

    The left column has 40 characters, the separator is " | ", and the first two lines are a
    heading and a rule.
    """
    lines = dedent(stmts).strip().split("\n")
    if len(lines) < 3 or not _HEADER.fullmatch(lines[0]) or not _RULE.fullmatch(lines[1]):
        raise DefinitionError(
            f"the table begins with {lines[0]!r}; it needs the heading 'Python' (to 40 characters) "
            "' | C++', a rule of 40 hyphens for each column, and at least one line"
        )
    columns = []
    for line in lines[2:]:
        match = _LINE.fullmatch(line)
        if match is None:
            raise DefinitionError(f"no ' | ' after 40 characters: {line!r}")
        columns.append((match[1], match[2] or ""))
    python, cpp = zip(*columns, strict=True)
    return "\n".join(python), "\n".join(cpp)
