"""The picture of a comparison: for each case a mark and the line of its interval.

The axis is that of the logarithm, so twice and half the time lie equally far from the middle. All
places are in per cent of the width, so a picture fits a phone and a wide screen alike. What a
verdict says is told by colour, by the shape of the mark, and in words beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from torchmark.analyse.pairs import SAME_WITHIN, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import TimeRow
    from torchmark.analyse.pairs import PairEffect

_HEIGHT = 22
"""Pixels of a case."""

_MIDDLE = _HEIGHT // 2
_EDGE = 3
"""Per cent of the width that are left free at either end, for arrows and outer labels."""

_SMALLEST_REACH = math.log(1.02)
"""The axis shows at least two per cent to each side, or noise would fill it."""

_LARGEST_REACH = math.log(4)
_LABEL_GAP = 0.115
"""Of the axis between two labels, or they would touch on a phone."""

_CHANGES = (0.5, 1, 2, 3, 5, 10, 20, 30, 50, 75, 100, 200, 300)
"""Changes in per cent that may have a label, to either side."""

_MARKS = {
    Verdict.SLOWER: '<path d="M0 -6 L6 5 L-6 5 Z"/>',
    Verdict.FASTER: '<path d="M0 6 L6 -5 L-6 -5 Z"/>',
    Verdict.SAME: '<circle r="4"/>',
    Verdict.UNCLEAR: '<circle class="hollow" r="4"/>',
}


@dataclass(frozen=True, slots=True)
class Axis:
    """From so far below no change to as far above it."""

    reach: float
    """The log of the largest ratio that has a place."""

    def place(self, ratio: float) -> float:
        """Per cent of the width; what lies beyond an end is put there."""
        share = math.log(ratio) / self.reach if ratio > 0 else -1.0
        return 50 + (50 - _EDGE) * max(-1.0, min(1.0, share))

    def is_beyond(self, ratio: float) -> bool:
        return ratio <= 0 or abs(math.log(ratio)) > self.reach

    def ticks(self) -> list[float]:
        """Changes in per cent that have a label, from the left."""
        less = self._spaced([-change for change in _CHANGES if change < 100])
        return [*reversed(less), 0, *self._spaced(_CHANGES)]

    def _spaced(self, changes: Sequence[float]) -> list[float]:
        kept, last = [], 0.0
        for change in changes:
            place = abs(math.log1p(change / 100)) / self.reach
            if place <= 1 and place - last >= 2 * _LABEL_GAP:
                kept.append(change)
                last = place
        return kept


def axis_of(rows: Sequence[TimeRow]) -> Axis:
    """Wide enough for nine marks in ten; the others are shown as arrows at the ends."""
    distances = sorted(abs(math.log(row.effect.ratio)) for row in rows)
    ordinary = distances[int(0.9 * (len(distances) - 1))] if distances else 0.0
    reach = min(_LARGEST_REACH, max(_SMALLEST_REACH, 1.3 * ordinary))
    # A case or two somewhat further out do not squeeze the others: they get their place.
    if distances and distances[-1] <= 2 * reach:
        reach = min(_LARGEST_REACH, max(reach, 1.1 * distances[-1]))
    return Axis(reach)


def scale_svg(axis: Axis) -> str:
    """The labels of the axis."""
    labels = "".join(
        f'<text x="{axis.place(1 + change / 100):.2f}%" y="15" text-anchor="middle">'
        f"{_label(change)}</text>"
        for change in axis.ticks()
    )
    return _svg(labels, "scale: change of B's time")


def case_svg(axis: Axis, row: TimeRow, hint: str) -> str:
    """The mark of a case on its line, above the grid."""
    effect = row.effect
    low, high = (f"{axis.place(end):.2f}%" for end in effect.interval)
    parts = [
        _grid(axis),
        f'<line class="interval" x1="{low}" x2="{high}" y1="{_MIDDLE}" y2="{_MIDDLE}"/>',
        *_arrows(axis, effect),
        "" if axis.is_beyond(effect.ratio) else mark_at(axis.place(effect.ratio), row.verdict),
    ]
    return _svg(f'<g class="{row.verdict.value}">{"".join(parts)}</g>', hint)


def mark_at(place: float, verdict: Verdict) -> str:
    return (
        f'<svg class="mark" x="{place:.2f}%" y="{_MIDDLE}" overflow="visible">'
        f"{_MARKS[verdict]}</svg>"
    )


def legend_svg(verdict: Verdict) -> str:
    return (
        f'<svg class="{verdict.value} key" width="16" height="{_HEIGHT}" aria-hidden="true">'
        f"{mark_at(50, verdict)}</svg>"
    )


def _grid(axis: Axis) -> str:
    left, right = axis.place(1 / (1 + SAME_WITHIN)), axis.place(1 + SAME_WITHIN)
    lines = "".join(
        f'<line class="{"grid" if change else "zero"}" x1="{place:.2f}%" x2="{place:.2f}%" y1="0"'
        f' y2="{_HEIGHT}"/>'
        for change, place in ((each, axis.place(1 + each / 100)) for each in axis.ticks())
    )
    return (
        f'<rect class="band" x="{left:.2f}%" width="{right - left:.2f}%" y="0"'
        f' height="{_HEIGHT}"/>{lines}'
    )


def _arrows(axis: Axis, effect: PairEffect) -> list[str]:
    """Where the interval goes on beyond an end; bold if the ratio itself lies there."""
    arrows = []
    for end, tip in ((effect.interval.low, -10), (effect.interval.high, 10)):
        # Beyond the left end only the lower side, beyond the right end only the upper one.
        if axis.is_beyond(end) and (end < 1) == (tip < 0):
            bold = axis.is_beyond(effect.ratio) and (effect.ratio < 1) == (tip < 0)
            arrows.append(
                f'<svg class="arrow{" bold" if bold else ""}" x="{axis.place(end):.2f}%"'
                f' y="{_MIDDLE}" overflow="visible"><path d="M{tip} 0 L0 -6 L0 6 Z"/></svg>'
            )
    return arrows


def _label(change: float) -> str:
    """
    >>> _label(0), _label(2), _label(-0.5)
    ('0', '+2 %', '−0.5 %')
    """
    return f"{'−' if change < 0 else '+'}{abs(change):g} %" if change else "0"


def _svg(content: str, hint: str) -> str:
    return (
        f'<svg width="100%" height="{_HEIGHT}" role="img" aria-label="{escape(hint)}">'
        f"<title>{escape(hint)}</title>{content}</svg>"
    )
