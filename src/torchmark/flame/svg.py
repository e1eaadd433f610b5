"""Draw a flame graph, or the difference of two, as one self-contained SVG.

The outermost frame is at the top, and a frame is as wide as its share of the total. The picture is
complete without its script, because PNG files are made from it. In a browser or an HTML page, the
script adds zoom and search. Names are foreign data: they are always text, and never in the script.
Nothing is loaded from the network, and nothing has an id, so several pictures can share a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from torchmark.errors import MissingToolError
from torchmark.flame.appearance import (
    NATIVE_KEY,
    PYTHON_KEY,
    change_colour,
    fit_label,
    fit_text,
    make_printable,
    name_colour,
    width_of,
    wrap_text,
)
from torchmark.flame.stacks import (
    ROOT,
    Frame,
    Stack,
    build_difference,
    build_tree,
    comparable_name,
    is_python,
    rename_frames,
    without_address,
)

WIDTH = 1200
"""Pixels of a picture."""

_EDGE = 10
_FULL = WIDTH - 2 * _EDGE
"""Pixels of the outermost frame."""

_ROW = 18
"""Pixels from one frame to the frames that it called."""

_LETTERS = 12
"""Font size of the text in frames, in pixels; `flame.js` uses the same."""

_NARROWEST = 0.1
"""Pixels. A narrower frame is not drawn; its caller includes it."""

_MOST_FRAMES = 10_000
"""The widest frames are drawn, up to this number. A file with more is too large for a browser."""

_CONTROLS = 400
"""Pixels for the script's search and reset, next to the title."""


class _Box(NamedTuple):
    """A frame with its position."""

    name: str
    start: float
    """Pixels from the left end of the outermost frame."""
    width: float
    row: int
    fill: str
    figures: str
    """Its weight, as text."""


def flame_svg(stacks: Iterable[Stack], *, title: str, unit: str, note: str = "") -> str:
    """A flame graph. `unit` is that of the weights ("samples"); `note` is shown below the title."""
    root = build_tree(rename_frames(stacks, without_address))

    def figures(frame: Frame) -> str:
        weight, whole = frame.total.branch, root.total.branch
        return f"{weight:,} {unit}, {_percent(weight, whole)}"

    boxes, is_whole = _boxes(
        root, lambda frame: frame.total.branch, lambda frame: name_colour(frame.name), figures
    )
    total = f"{root.total.branch:,} {unit}"
    return _svg(boxes, is_whole, title, total, note, _kinds(boxes))


def difference_svg(
    base: Iterable[Stack],
    branch: Iterable[Stack],
    *,
    title: str,
    unit: str,
    note: str = "",
    normalise: bool = True,
) -> str:
    """A picture with growth from base to branch in red, and shrinkage in blue.

    The colour is that of a frame's own change, without the frames that it called, so it points to
    the cause. The width is that of the larger side, so frames that disappeared are visible.
    `normalise` compares shares instead of weights: right for samples, not for instructions per run.
    """
    root = build_difference(
        rename_frames(base, comparable_name),
        rename_frames(branch, comparable_name),
        normalise=normalise,
    )

    whole = root.total

    def figures(frame: Frame) -> str:
        own, total = frame.own, frame.total
        return (
            f"{total.base:,} → {total.branch:,} {unit}, {_percent(total.base, whole.base)} → "
            f"{_percent(total.branch, whole.branch)}; itself {own.base:,} → {own.branch:,}"
        )

    boxes, is_whole = _boxes(
        root, lambda frame: frame.total.room, lambda frame: change_colour(frame.own.change), figures
    )
    compared = ", compared as shares" if normalise else ""
    total = f"{whole.base:,} → {whole.branch:,} {unit}{compared}"
    return _svg(boxes, is_whole, title, total, note, _CHANGES)


def _boxes(
    root: Frame,
    room: Callable[[Frame], float],
    fill: Callable[[Frame], str],
    figures: Callable[[Frame], str],
) -> tuple[list[_Box], bool]:
    """The frames that are wide enough, outermost first, from the left; and whether these are all.

    Children start at the left end of their frame, so the free part on the right is the frame's own.
    """
    scale = _FULL / (room(root) or 1)
    found: list[tuple[float, float, int, Frame]] = []
    is_whole = True
    waiting = [(0.0, 0, root)]
    while waiting:
        start, row, node = waiting.pop()
        found.append((start, room(node) * scale, row, node))
        places = []
        for child in node.children:
            width = room(child) * scale
            if width >= _NARROWEST:
                places.append((start, row + 1, child))
            else:
                is_whole = False
            start += width
        waiting += reversed(places)
    if len(found) > _MOST_FRAMES:
        # A caller is at least as wide as the frames it called, and before them, so it is kept, too.
        widest = sorted(range(len(found)), key=lambda place: -found[place][1])[:_MOST_FRAMES]
        found, is_whole = [found[place] for place in sorted(widest)], False
    boxes = [
        _Box(make_printable(node.name), start, width or _FULL, row, fill(node), figures(node))
        for start, width, row, node in found
    ]
    return boxes, is_whole


def _svg(
    boxes: Sequence[_Box],
    is_whole: bool,
    title: str,
    total: str,
    note: str,
    legend: Sequence[tuple[str, str]],
) -> str:
    """The whole picture. The script replaces the line with `total` by the figures of a frame."""
    title = make_printable(title)
    left_out = "Some frames are too narrow to be drawn; their callers include them"
    remarks = [note, "" if is_whole else left_out]
    remark = make_printable(". ".join(text.rstrip(".") for text in remarks if text))
    y = 26
    lines = []
    for line in wrap_text(title, _FULL - _CONTROLS, 16 * 1.1, lines=3):  # bold is a tenth wider
        lines.append(_line(line, y, "title"))
        y += 20
    y = max(y, 46)  # leave room for the script's controls, even without a title
    lines.append(_line(fit_text(make_printable(total), _FULL, 13), y, "quiet details"))
    y += 18
    for line in wrap_text(remark, _FULL, 13, lines=4):
        lines.append(_line(line, y, "quiet"))
        y += 18
    if legend:
        lines.append(_legend(legend, y))
        y += 20
    top = y - 6
    height = top + _ROW * (1 + max(box.row for box in boxes)) + _EDGE
    return f"""<svg xmlns="http://www.w3.org/2000/svg" class="torchmark-flame" width="{WIDTH}" \
height="{height}" viewBox="0 0 {WIDTH} {height}" role="group" aria-label="{escape(title)}">
<title>{escape(title)}</title>
<style>
{_part("flame.css")}</style>
<rect class="paper" width="{WIDTH}" height="{height}"/>
{chr(10).join(lines)}
<g class="frames">
{chr(10).join(_group(box, top) for box in boxes)}
</g>
<script><![CDATA[
{_part("flame.js")}]]></script>
</svg>
"""


def _group(box: _Box, top: int) -> str:
    x, y = _EDGE + box.start, top + _ROW * box.row
    label = fit_label(box.name, box.width - 6, _LETTERS)
    text = f'<text x="{x + 3:.2f}" y="{y + 13}">{escape(label)}</text>' if label else ""
    return (
        f"<g><title>{escape(box.name)}\n{escape(box.figures)}</title>"
        # Four decimal places, because zooming multiplies rounding errors by thousands.
        f'<rect x="{_number(x)}" y="{y}" width="{_number(box.width)}" height="{_ROW - 1}"'
        f' fill="{box.fill}"/>{text}</g>'
    )


def _legend(entries: Sequence[tuple[str, str]], y: int) -> str:
    parts, x = [], float(_EDGE)
    for colour, text in entries:
        parts.append(
            f'<rect x="{x:.0f}" y="{y - 10}" width="14" height="11" fill="{colour}"/>'
            f'<text class="quiet" x="{x + 19:.0f}" y="{y}">{escape(text)}</text>'
        )
        x += 19 + width_of(text, 13) + 14
    return f'<g class="legend">{"".join(parts)}</g>'


_CHANGES = (
    (change_colour(-0.10), "shrank by 10 % of the total"),
    (change_colour(-0.03), "3 %"),
    (change_colour(-0.005), "0.5 %"),
    (change_colour(0), "same"),
    (change_colour(0.005), "0.5 %"),
    (change_colour(0.03), "3 %"),
    (change_colour(0.10), "grew by 10 % of the total"),
)


def _kinds(boxes: Sequence[_Box]) -> list[tuple[str, str]]:
    """The legend of Python and native frames, if the picture has both."""
    kinds = {is_python(box.name) for box in boxes if box.name != ROOT}
    return [(PYTHON_KEY, "Python"), (NATIVE_KEY, "native")] if len(kinds) == 2 else []


def _line(text: str, y: int, kind: str) -> str:
    return f'<text class="{kind}" x="{_EDGE}" y="{y}">{escape(text)}</text>'


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0:.2f} %"


def _number(pixels: float) -> str:
    return f"{pixels:.4f}".rstrip("0").rstrip(".")


def _part(name: str) -> str:
    return files("torchmark.flame").joinpath(name).read_text(encoding="utf-8")


def png_of(svg: str) -> bytes:
    """A PNG of an SVG in the same size. vl-convert draws it in this process, without the network.

    The script of the SVG is not run. vl-convert has its own font, so the text is also drawn on a
    server without fonts.
    """
    try:
        import vl_convert  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(
            "PNG files need vl-convert: pip install 'torchmark[report]'; SVG files do not need it"
        ) from error
    return vl_convert.svg_to_png(svg)
