"""An operator's schema, as torch prints it: its name, and what its arguments are called.

`aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\(", re.ASCII)
_QUOTED = re.compile(r"""\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'""")
"""Text as a default, which may have commas and parentheses in it."""

_LONGEST = 10_000
"""Characters; the longest of torch's own has 1,300."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaArgument:
    """One argument."""

    name: str
    type: str
    """As it is written, with marks: "Tensor(a!)", "SymInt[]?"."""

    is_keyword_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What can be read from the text without torch."""

    op: str
    """`namespace.name.overload`."""

    arguments: tuple[SchemaArgument, ...]


def parse_schema(text: str) -> Schema | None:
    """The schema in a text; None if it is none.

    >>> schema = parse_schema("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor")
    >>> schema.op, [argument.name for argument in schema.arguments]
    ('aten.sum.default', ['self', 'dtype'])
    """
    head = _HEAD.match(text) if len(text) <= _LONGEST else None
    if head is None:
        return None
    parts = _parts(_QUOTED.sub('""', text), head.end())
    if parts is None:
        return None
    arguments = []
    is_keyword_only = False
    for part in parts:
        if part == "*":
            is_keyword_only = True
            continue
        kind, _, name = part.partition("=")[0].strip().rpartition(" ")
        arguments.append(
            SchemaArgument(name=name, type=kind.strip(), is_keyword_only=is_keyword_only)
        )
    return Schema(op=f"{head[1]}.{head[2]}.{head[3] or 'default'}", arguments=tuple(arguments))


def _parts(text: str, start: int) -> list[str] | None:
    """What stands between the commas up to the parenthesis that closes; None if none does."""
    parts = []
    depth = 0
    begin = start
    for position in range(start, len(text)):
        character = text[position]
        if character in "([":
            depth += 1
        elif character in ")]" and depth > 0:
            depth -= 1
        elif character == ")" or (character == "," and depth == 0):
            parts.append(text[begin:position].strip())
            begin = position + 1
            if character == ")":
                return [part for part in parts if part]
    return None
