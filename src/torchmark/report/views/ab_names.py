"""What the rows of an A/B comparison are called, in a line that does not get long.

A fact that all cases of a table share ("Python") says nothing there, so it stands in the table's
title and not in every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.case import Case

LONGEST_NAME = 120
"""Characters of a name; a page shows the whole statement elsewhere."""

_LONGEST_SIDE = 50
"""Characters of either statement, where two of them make a name."""


class _Row(Protocol):
    @property
    def case(self) -> Case: ...

    @property
    def other(self) -> Case | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of some rows."""

    shared: tuple[str, ...]
    """What is true of all of them."""

    names: tuple[str, ...]
    """One for each row, in order, without what is shared."""

    def under(self, title: str) -> str:
        """The title of their table."""
        return cut_line(f"{title} · {', '.join(self.shared)}" if self.shared else title)


def name_rows(rows: Sequence[_Row]) -> Names:
    facts = [_facts(row) for row in rows]
    shared = [fact for fact in facts[0] if all(fact in each for each in facts)] if facts else []
    return Names(
        shared=tuple(shared),
        names=tuple(
            _with_facts(_name(row), [fact for fact in own if fact not in shared])
            for row, own in zip(rows, facts, strict=True)
        ),
    )


def full_name(row: _Row) -> str:
    """The name where the row stands alone."""
    return _with_facts(_name(row), _facts(row))


def cut_line(text: str, longest: int = LONGEST_NAME) -> str:
    r"""One line of at most so many characters.

    >>> cut_line("x + y\n  + z"), cut_line("a long name", 7)
    ('x + y + z', 'a long…')
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def _name(row: _Row) -> str:
    """Where B runs something else: what the two do not have in common, side by side."""
    case, other = row.case, row.other
    if other is None:
        return cut_line(case.name)
    if case.label != other.label and case.label and other.label:
        first, second = case.name, other.name
    else:
        first, second = case.stmt, other.stmt
    sides = [cut_line(text, _LONGEST_SIDE) for text in (first, second)]
    if case.facts != other.facts:
        each_facts = (case.facts, other.facts)
        sides = [_with_facts(*side) for side in zip(sides, each_facts, strict=True)]
    elif sides[0] == sides[1]:
        sides[1] += " (not set up alike)" if first == second else " (ends differently)"
    label = f"{cut_line(case.name)}: " if case.label and case.label == other.label else ""
    return f"{label}{'  vs  '.join(sides)}"


def _facts(row: _Row) -> tuple[str, ...]:
    if row.other is not None and row.other.facts != row.case.facts:
        return ()
    return row.case.facts


def _with_facts(name: str, facts: Sequence[str]) -> str:
    return f"{name} · {cut_line(', '.join(facts))}" if facts else name
