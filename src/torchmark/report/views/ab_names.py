"""What the rows of an A/B comparison are called, in a line that does not get long.

What all cases of a table share, the first of their labels ("overrides") or a fact ("Python"), says
nothing there, so it stands in the table's title and not in every row.
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

    label: str
    """The first of their labels, if it is the same; empty otherwise."""

    shared: tuple[str, ...]
    """Facts that are true of all of them."""

    names: tuple[str, ...]
    """One for each row, in order, without what is shared."""

    @property
    def with_label(self) -> tuple[str, ...]:
        """The names where no title has the label."""
        return tuple(f"{self.label} / {name}" if self.label else name for name in self.names)

    def under(self, title: str) -> str:
        """The title of their table."""
        return cut_line(" · ".join(filter(None, (title, self.label, ", ".join(self.shared)))))


def name_rows(rows: Sequence[_Row]) -> Names:
    facts = [_facts(row) for row in rows]
    shared = [fact for fact in facts[0] if all(fact in each for each in facts)] if facts else []
    label = _shared_label(rows)
    return Names(
        label=label,
        shared=tuple(shared),
        names=tuple(
            _with_facts(
                cut_line(" / ".join(row.case.label[1:])) if label else _name(row),
                [fact for fact in own if fact not in shared],
            )
            for row, own in zip(rows, facts, strict=True)
        ),
    )


def _shared_label(rows: Sequence[_Row]) -> str:
    """The first label of several cases that all have it and more labels below it."""
    firsts = {row.case.label[:1] for row in rows}
    is_alike = len(firsts) == 1 and all(len(r.case.label) > 1 and r.other is None for r in rows)
    return rows[0].case.label[0] if len(rows) > 1 and is_alike else ""


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
