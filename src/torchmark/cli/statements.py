"""Statements as they come from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def statement_names(statements: Sequence[str]) -> list[str]:
    """Statements on one line each; one that is given again is told apart by its number."""
    seen: dict[str, int] = {}
    names = []
    for statement in statements:
        name = "; ".join(line.strip() for line in statement.strip().splitlines()) or "pass"
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return names
