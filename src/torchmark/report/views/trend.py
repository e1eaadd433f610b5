"""A small drawing of a history: a line through the figures, and a dot at the newest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import median

_POINTS = 48
"""More figures than this are drawn as medians of neighbours."""

_WIDTH, _HEIGHT, _EDGE = 100.0, 20.0, 2.0


def trend_svg(values: Sequence[float], mark: str = "") -> str:
    """An SVG of the values, coloured by the stylesheet; `mark` is "good", "bad" or empty.

    >>> trend_svg([1.0, 2.0])[:60]
    '<svg class="trend" viewBox="0 0 100 20" aria-hidden="true"><'
    """
    count = min(_POINTS, len(values))
    edges = [round(at * len(values) / count) for at in range(count + 1)] if count else []
    shown = [median(values[low:high]) for low, high in itertools.pairwise(edges)]
    if not shown:
        return ""
    low, span = min(shown), max(shown) - min(shown)
    step = (_WIDTH - 2 * _EDGE) / max(1, len(shown) - 1)

    def place(at: int, value: float) -> tuple[float, float]:
        share = (value - low) / span if span else 0.5
        return _EDGE + at * step, _HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE)

    places = [place(at, value) for at, value in enumerate(shown)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[-1]
    kind = f' class="{mark}"' if mark else ""
    return (
        f'<svg class="trend" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" aria-hidden="true">'
        f'<polyline points="{line}"/><circle{kind} cx="{x:.1f}" cy="{y:.1f}" r="2"/></svg>'
    )
