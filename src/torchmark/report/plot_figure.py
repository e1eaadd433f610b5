"""Panels that belong together, and the picture of them by themselves: an SVG for a PNG."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from torchmark.flame.appearance import make_printable, width_of
from torchmark.report.plot_panel import HEIGHT, WIDTH, key_content, panel_content
from torchmark.report.plot_style import PICTURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.report.plot_panel import Look, Panel

_EDGE = 16
_NOTE_LINE = 17
_KEY_LINE = 20
_KEY = 36
"""Pixels of a line with its mark, before its name."""

_NOTE_LETTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Panels that belong together."""

    title: str
    note: str
    """How to read it."""

    columns: int
    """Panels side by side, at most."""

    panels: tuple[Panel, ...]
    looks: tuple[Look, ...]
    """Of the configs in it, for the legend."""

    @property
    def width(self) -> int:
        """Pixels of its picture."""
        return 2 * _EDGE + min(self.columns, len(self.panels)) * WIDTH


def figure_svg(figure: Figure, subject: str) -> str:
    """The whole picture in light colours: title, note, legend, panels."""
    columns = min(figure.columns, len(figure.panels))
    width = figure.width
    title = f"{subject}: {figure.title}" if subject else figure.title
    y = _EDGE + 14
    parts = [f'<text class="heading" x="{_EDGE}" y="{y}">{_text(title)}</text>']
    # Of a font as wide as the estimate has it, so many letters fit.
    for line in textwrap.wrap(figure.note, int((width - 2 * _EDGE) / (0.58 * _NOTE_LETTERS))):
        y += _NOTE_LINE
        parts.append(f'<text class="note" x="{_EDGE}" y="{y}">{_text(line)}</text>')
    y += 10
    legend, legend_height = _legend(figure.looks, width - 2 * _EDGE)
    parts.append(f'<g transform="translate({_EDGE} {y})">{legend}</g>')
    y += legend_height + 8
    for number, panel in enumerate(figure.panels):
        row, column = divmod(number, columns)
        parts.append(
            f'<g transform="translate({_EDGE + column * WIDTH} {y + row * HEIGHT})">'
            f"{panel_content(panel)}</g>"
        )
    height = y + -(-len(figure.panels) // columns) * HEIGHT + _EDGE // 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif"><style>{PICTURE}'
        ".heading { font-size: 15px; font-weight: 600; fill: #1b1f24; }"
        f".note {{ font-size: {_NOTE_LETTERS}px; }} .key-name {{ fill: #1b1f24; }}</style>"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


def _legend(looks: Sequence[Look], room: float) -> tuple[str, int]:
    """Columns of equal width, as many as fit; and its height."""
    widest = max(width_of(look.name, _NOTE_LETTERS) for look in looks) + _KEY + 18
    across = max(1, int(room // widest))
    # All dtypes of a backend stand on one line where they can.
    together = len({look.shape for look in looks})
    across -= across % together if across > together else 0
    lines = -(-len(looks) // across)
    parts = []
    for number, look in enumerate(looks):
        line, place = divmod(number, across)
        parts.append(
            f'<g transform="translate({place * widest:.1f} {line * _KEY_LINE})">{key_content(look)}'
            f'<text class="key-name" x="{_KEY}" y="11">{_text(look.name)}</text></g>'
        )
    return "".join(parts), lines * _KEY_LINE


def _text(text: str) -> str:
    return escape(make_printable(text))
