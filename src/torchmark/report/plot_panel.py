"""Panels of a picture as SVG: lines with their intervals, marks, reference lines; and a legend.

Colours and dashes are by class, so that a page has its own and a picture by itself has others:
`plot_style.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from torchmark.flame.appearance import fit_text, make_printable
from torchmark.report.plot_axis import LETTERS

if TYPE_CHECKING:
    from torchmark.report.plot_axis import Axis

WIDTH, HEIGHT = 350, 276
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 40, 46
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

_SHAPES = (
    '<circle r="3.5"/>',
    '<rect x="-3.2" y="-3.2" width="6.4" height="6.4"/>',
    '<path d="M0 -4.4 L4.2 3.4 L-4.2 3.4 Z"/>',
    '<path d="M0 -4.8 L4.8 0 L0 4.8 L-4.8 0 Z"/>',
    '<path class="cross" d="M-3.4 -3.4 L3.4 3.4 M-3.4 3.4 L3.4 -3.4"/>',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a config looks wherever it is shown."""

    number: int
    """Of the config, by which a page hides and shows it."""

    colour: int
    """Of its backend."""

    shape: int
    """Of its dtype; the dashes of its line too."""

    name: str

    @property
    def classes(self) -> str:
        return f"config config-{self.number} colour-{self.colour} dash-{self.shape % len(_SHAPES)}"

    @property
    def mark(self) -> str:
        return _SHAPES[self.shape % len(_SHAPES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value and how far its interval reaches."""

    x: float
    y: float
    low: float
    high: float
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What one config shows in a panel."""

    look: Look
    pieces: tuple[tuple[Point, ...], ...]
    """Points that are joined; where one between them is missing a new piece begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A line that others are held against."""

    places: tuple[tuple[float, float], ...]
    """Corners."""

    name: str = ""
    """Written at its right end."""

    dash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One drawing with axes."""

    title: str
    detail: str
    """What is held fixed in it; may be empty."""

    x: Axis
    y: Axis
    x_name: str
    series: tuple[Series, ...]
    references: tuple[Reference, ...] = ()
    is_cloud: bool = False
    """Many marks that lie upon each other: they are drawn smaller."""


def panel_svg(panel: Panel) -> str:
    """The panel by itself, for a page; it takes the width that it is given."""
    words = " ".join(part for part in (panel.title, panel.detail) if part)
    return (
        f'<svg class="panel" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{_text(words)} over {_text(panel.x_name)}">{panel_content(panel)}</svg>'
    )


def panel_content(panel: Panel) -> str:
    """What is inside of that SVG."""
    # In layers: no band over a line, no line over a mark of another config.
    return "".join(
        [
            _titles(panel),
            _frame(panel),
            *(_reference(panel, each) for each in panel.references),
            *(_band(panel, each) for each in panel.series),
            *(_line(panel, each) for each in panel.series),
            *(_marks(panel, each) for each in panel.series),
            *(_name(panel, each) for each in panel.references if each.name),
            "" if panel.series else _nothing(),
        ]
    )


def key_svg(look: Look) -> str:
    """The line and the mark of a config, for the legend of a page."""
    return f'<svg class="key" width="30" height="14" aria-hidden="true">{key_content(look)}</svg>'


def key_content(look: Look) -> str:
    return (
        f'<g class="{look.classes}"><path class="line" d="M1 7 L29 7"/>'
        f'<g class="mark" transform="translate(15 7)">{look.mark}</g></g>'
    )


def _titles(panel: Panel) -> str:
    def line(text: str, y: int, kind: str) -> str:
        shown = fit_text(make_printable(text), WIDTH - _LEFT - _RIGHT, LETTERS + 1)
        return f'<text class="{kind}" x="{_LEFT}" y="{y}">{escape(shown)}</text>' if shown else ""

    x_name = fit_text(make_printable(panel.x_name), PLOT_WIDTH, LETTERS)
    return (
        line(panel.title, 14 if panel.detail else 28, "title")
        + line(panel.detail, 30, "detail")
        + f'<text class="name" x="{_LEFT + PLOT_WIDTH / 2:.1f}" y="{HEIGHT - 10}"'
        f' text-anchor="middle">{escape(x_name)}</text>'
    )


def _frame(panel: Panel) -> str:
    bottom = _TOP + PLOT_HEIGHT
    parts = []
    for value, label in panel.x.ticks:
        x = _x(panel, value)
        parts.append(
            f'<path class="grid" d="M{x:.1f} {_TOP} V{bottom}"/>'
            f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{escape(label)}</text>'
        )
    for value, label in panel.y.ticks:
        y = _y(panel, value)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f} H{WIDTH - _RIGHT}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        )
    return "".join(parts) + f'<path class="frame" d="M{_LEFT} {_TOP} V{bottom} H{WIDTH - _RIGHT}"/>'


def _nothing() -> str:
    x, y = _LEFT + PLOT_WIDTH / 2, _TOP + PLOT_HEIGHT / 2
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">not measured</text>'


def _reference(panel: Panel, reference: Reference) -> str:
    path = " L".join(f"{_x(panel, x):.1f} {_y(panel, y):.1f}" for x, y in reference.places)
    return f'<g class="reference dash-{reference.dash}"><path class="line" d="M{path}"/></g>'


def _name(panel: Panel, reference: Reference) -> str:
    """Over all marks, or they would hide it."""
    x, y = reference.places[-1]
    return (
        f'<text class="halo" x="{_x(panel, x):.1f}" y="{_y(panel, y) - 4:.1f}"'
        f' text-anchor="end">{_text(reference.name)}</text>'
    )


def _band(panel: Panel, series: Series) -> str:
    shapes = []
    for piece in series.pieces:
        if len(piece) > 1:
            upper = [f"{_x(panel, each.x):.1f} {_y(panel, each.high):.1f}" for each in piece]
            lower = [f"{_x(panel, each.x):.1f} {_y(panel, each.low):.1f}" for each in piece]
            shapes.append(f'<path d="M{" L".join([*upper, *reversed(lower)])} Z"/>')
    return f'<g class="{series.look.classes} band">{"".join(shapes)}</g>' if shapes else ""


def _line(panel: Panel, series: Series) -> str:
    lines = "".join(
        f'<path class="line" d="M{" L".join(_place(panel, each) for each in piece)}"/>'
        for piece in series.pieces
        if len(piece) > 1
    )
    return f'<g class="{series.look.classes}">{lines}</g>' if lines else ""


def _marks(panel: Panel, series: Series) -> str:
    parts, scale = [], " scale(0.75)" if panel.is_cloud else ""
    for point in (point for piece in series.pieces for point in piece):
        x, low, high = _x(panel, point.x), _y(panel, point.low), _y(panel, point.high)
        whisker = (
            f'<path class="whisker" d="M{x:.1f} {low:.1f} V{high:.1f}"/>'
            if low - high > 1  # pixels: a shorter one is behind its mark
            else ""
        )
        parts.append(
            f'{whisker}<g class="mark" transform="translate({_place(panel, point)}){scale}">'
            f"<title>{_text(point.hint)}</title>{series.look.mark}</g>"
        )
    return f'<g class="{series.look.classes}">{"".join(parts)}</g>' if parts else ""


def _place(panel: Panel, point: Point) -> str:
    return f"{_x(panel, point.x):.1f} {_y(panel, point.y):.1f}"


def _x(panel: Panel, value: float) -> float:
    return _LEFT + PLOT_WIDTH * panel.x.share(value)


def _y(panel: Panel, value: float) -> float:
    return _TOP + PLOT_HEIGHT * (1 - panel.y.share(value))


def _text(text: str) -> str:
    return escape(make_printable(text))
