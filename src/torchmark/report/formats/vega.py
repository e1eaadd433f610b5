"""Charts drawn: by vl-convert, in this process and offline, or in a page by Vega as that brings it.

Views say what a chart shows (`torchmark.report.view.Chart`). Here it gets the colours of the page,
and in a page a legend of its own, whose boxes are reached by keyboard and hide a series: the names
in the parameter `HIDDEN` are filtered out. A picture stands by itself, light on white.

A page carries the script: vl-convert takes seconds to bundle it, so it is kept in the user's cache.
0.9 MB of script are 0.4 MB in a page; browsers unpack it themselves.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import importlib.metadata
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from torchmark.errors import MissingToolError
from torchmark.files import PRIVATE, cache_directory, make_folder, write_whole
from torchmark.printable import printable
from torchmark.report.view import PALETTE, Chart

HIDDEN = "torchmark_hidden"
_SHARPNESS = 2
"""Pixels of a PNG for each of the drawing, so that it can be enlarged and printed."""

_SNIPPET = "window.vegaEmbed = vegaEmbed;"

_PICTURE_WIDTH = 620
_PICTURE_LETTERS = 100
"""Characters of a line of the note, so that it does not make the picture wider."""

_TICKS = {"axisX": (6, "ceil(width / 80)"), "axisY": (4, "ceil(height / 40)")}
"""Labels of the axes of small charts, and how others have them by their size."""

_TEXT = {"labelColor": "var(--quiet)", "titleColor": "var(--ink)", "titleFontWeight": 500}
CONFIG: dict[str, Any] = {
    "aria": False,  # the figure has a description and its data as a table
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None, "continuousHeight": 240, "discreteHeight": {"step": 20}},
    "axis": {
        **_TEXT,
        "gridColor": "var(--line)",
        "domainColor": "var(--rule)",
        "tickColor": "var(--rule)",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "labelLimit": 260,
        "labelOverlap": "greedy",
    },
    "axisY": {"ticks": False, "domain": False, "labelPadding": 6},
    "legend": {**_TEXT, "labelFontSize": 11, "titleFontSize": 11, "symbolType": "circle"},
    "title": {
        "color": "var(--ink)",
        "subtitleColor": "var(--quiet)",
        "fontSize": 13,
        "fontWeight": 600,
        "anchor": "start",
    },
    "range": {"category": list(PALETTE)},
    "mark": {"tooltip": True, "color": "var(--plot-1)"},
    "line": {"strokeWidth": 1.8},
    "point": {"size": 42, "filled": True, "opacity": 1},
    "rule": {"color": "var(--rule)"},
    "text": {"color": "var(--ink)", "fontSize": 11},
}


@dataclass(frozen=True, slots=True)
class Series:
    """What readers can switch on and off."""

    field: str
    names: tuple[str, ...]
    colours: tuple[str, ...]


def find_series(spec: Mapping[str, Any]) -> Series | None:
    """The nominal field that colours stand for, with the names in the order of the data."""
    channels = sorted(_colour_channels(spec), key=lambda channel: "scale" not in channel)
    if not channels:
        return None
    field, scale = channels[0]["field"], channels[0].get("scale", {})
    rows = spec["data"]["values"]
    present = dict.fromkeys(str(row[field]) for row in rows if row.get(field) is not None)
    names = tuple(name for name in scale.get("domain", present) if name in present)
    given = dict(zip(scale.get("domain", ()), scale.get("range", ()), strict=False))
    colours = tuple(given.get(name, PALETTE[at % len(PALETTE)]) for at, name in enumerate(names))
    return Series(field, names, colours)


def spec_for_page(chart: Chart) -> dict[str, Any]:
    """As wide as its box; without Vega's legend where the page has its own."""
    spec = _dress(chart)
    if "concat" not in spec:
        spec["width"] = "container"
    series = find_series(spec)
    if series is not None:
        for encoding in _encodings(spec):
            for name in ("color", "shape", "strokeDash"):
                if encoding.get(name, {}).get("field") == series.field:
                    encoding[name]["legend"] = None
        shown = f"indexof({HIDDEN}, datum[{json.dumps(series.field)}]) < 0"
        spec["params"] = [{"name": HIDDEN, "value": []}]
        spec["transform"] = [{"filter": shown}]
    return spec


def _spec_for_picture(chart: Chart) -> dict[str, Any]:
    """By itself, on white: with its title, and the colours by their values."""
    spec, colours = _dress(chart), light_colours()
    if "concat" not in spec:
        spec["width"] = _PICTURE_WIDTH
    note = textwrap.wrap(chart.note, _PICTURE_LETTERS)
    spec["title"] = {"text": chart.title, **({"subtitle": note} if note else {})}
    spec["background"], spec["padding"] = colours["paper"], 12
    text = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], json.dumps(spec))
    resolved: dict[str, Any] = json.loads(text)
    return resolved


def _dress(chart: Chart) -> dict[str, Any]:
    """In our style; every name of a series with its colour, also where others are hidden."""
    spec: dict[str, Any] = _printable(chart.spec)
    spec["config"] = dict(CONFIG)
    for axis, (few, many) in _TICKS.items():
        count = few if "concat" in spec else {"expr": many}
        spec["config"][axis] = {**CONFIG.get(axis, {}), "tickCount": count}
    series = find_series(spec)
    if series is not None:
        scale = {"domain": list(series.names), "range": list(series.colours)}
        for channel in _colour_channels(spec):
            channel["scale"] = scale
    return spec


def _printable(node: Any) -> Any:
    """A copy whose texts can be drawn: a control character ends the program that draws."""
    if isinstance(node, Mapping):
        return {name: _printable(value) for name, value in node.items()}
    if isinstance(node, list | tuple):
        return [_printable(value) for value in node]
    return printable(node) if isinstance(node, str) else node


def _encodings(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every `encoding` in it, of layers and of the panels beside each other too."""
    if "encoding" in spec:
        yield spec["encoding"]
    for part in (*spec.get("layer", ()), *spec.get("concat", ())):
        yield from _encodings(part)


def _colour_channels(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What tells series apart: `color` where it encodes a nominal field."""
    for encoding in _encodings(spec):
        channel = encoding.get("color", {})
        if channel.get("type") == "nominal":
            yield channel


def svg_of(chart: Chart) -> str:
    return str(_load_drawer().vegalite_to_svg(_spec_for_picture(chart)))


def png_of(chart: Chart) -> bytes:
    return bytes(_load_drawer().vegalite_to_png(_spec_for_picture(chart), scale=_SHARPNESS))


def read_template(name: str) -> str:
    return resources.files("torchmark.report").joinpath("templates", name).read_text("utf-8")


@cache
def light_colours() -> dict[str, str]:
    """The colours of the page's stylesheet by their names, in the light form."""
    style = read_template("style.css")
    return dict(re.findall(r"--([\w-]+):\s*light-dark\((#\w+),", style))


def load_bundle() -> str:
    """gzip in base64; empty where vl-convert, the extra `report`, is not installed."""
    try:
        version = importlib.metadata.version("vl-convert-python")
    except importlib.metadata.PackageNotFoundError:
        return ""
    file = cache_directory() / "report" / f"vega-{version}.js.gz.base64"
    with contextlib.suppress(OSError):
        return file.read_text("ascii")
    bundle = _make_bundle()
    with contextlib.suppress(OSError):  # a page is made without a cache too
        make_folder(file.parent)
        write_whole(file, bundle.encode(), mode=PRIVATE)
    return bundle


def _make_bundle() -> str:
    script = _load_drawer().javascript_bundle(_SNIPPET)
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")


def _load_drawer() -> Any:
    try:
        import vl_convert  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(
            "pictures of charts need vl-convert: pip install 'torchmark[report]'"
        ) from error
    return vl_convert
