"""What the commands share in showing results."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.doubts import DoubtKind
    from torchmark.model.measurement import Measurement

_NAMED = 3
"""Results that are named in one line of doubts; more are counted."""


def colours_wanted() -> bool:
    """Whether standard output is a terminal whose user has not declined colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def doubt_lines(results: Sequence[Measurement]) -> list[str]:
    """One line for each kind of doubt: the first of its kind in full, the others by name."""
    by_kind: dict[DoubtKind, list[tuple[str, str]]] = {}
    for result in results:
        name = ", ".join(filter(None, (result.as_row_name, result.description)))
        for doubt in result.doubts:
            by_kind.setdefault(doubt.kind, []).append((name, doubt.text))
    return [_line(kind, found) for kind, found in by_kind.items()]


def _line(kind: DoubtKind, found: list[tuple[str, str]]) -> str:
    name, text = found[0]
    line = f"DOUBT {kind.value}, {name}: {text}"
    others = [other for other, _ in found[1:]]
    if not others:
        return line
    named = "; ".join(others[:_NAMED])
    more = f"; {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"{line}. Also: {named}{more}"
