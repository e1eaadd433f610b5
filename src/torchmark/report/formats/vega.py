"""Draw charts: with vl-convert in this process, or with Vega in a page.

Views define charts (`torchmark.report.view.Chart`). This module adds the colours of the page. In a
page, a chart has its own legend: its check boxes work with the keyboard and hide series, whose
names are in the parameter `HIDDEN`. A picture file uses the light theme on white.

A page contains Vega's script. vl-convert takes seconds to bundle it, so the bundle is kept in the
user's cache. Its 0.9 MB are 0.4 MB in a page, because it is compressed; the browser unpacks it.
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
"""Pixels of a PNG per pixel of the drawing, so that it can be enlarged and printed."""

_SNIPPET = "window.vegaEmbed = vegaEmbed;"

_PICTURE_WIDTH = 620
_PICTURE_LETTERS = 100
"""Maximum characters in a line of the note, so that it does not make the picture wider."""

_TICKS = {"axisX": (6, "ceil(width / 80)"), "axisY": (4, "ceil(height / 40)")}
"""Number of labels on the axes of small charts, and an expression for other charts."""

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
    """The series of a chart, which readers can show and hide."""

    field: str
    names: tuple[str, ...]
    colours: tuple[str, ...]


def find_series(spec: Mapping[str, Any]) -> Series | None:
    """The series of a specification, with names in the order of the data; None without series."""
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
    """The specification for a page: as wide as its box, and without Vega's legend."""
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
    """The specification for a picture file: with its title, and light colours on white."""
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
    """The specification with torchmark's style, and a fixed colour for each series."""
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
    """A copy without control characters, which would crash the drawing program."""
    if isinstance(node, str):
        return printable(node)
    if isinstance(node, float | int):  # most values of a long series; `Mapping` is slow to check
        return node
    if isinstance(node, Mapping):
        return {
            name: value if type(value) is float or type(value) is int else _printable(value)
            for name, value in node.items()
        }
    return [_printable(value) for value in node] if isinstance(node, list | tuple) else node


def _encodings(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All `encoding`s of a specification, including those of layers and panels."""
    if "encoding" in spec:
        yield spec["encoding"]
    for part in (*spec.get("layer", ()), *spec.get("concat", ())):
        yield from _encodings(part)


def _colour_channels(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All `color` channels that encode a nominal field: the series."""
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
    """The light colours of the page's stylesheet, by name."""
    style = read_template("style.css")
    return dict(re.findall(r"--([\w-]+):\s*light-dark\((#\w+),", style))


def load_bundle() -> str:
    """Vega's script as gzip in base64; "" if vl-convert (the extra `report`) is not installed."""
    try:
        version = importlib.metadata.version("vl-convert-python")
    except importlib.metadata.PackageNotFoundError:
        return ""
    file = cache_directory() / "report" / f"vega-{version}.js.gz.base64"
    with contextlib.suppress(OSError):
        return file.read_text("ascii")
    bundle = _make_bundle()
    with contextlib.suppress(OSError):  # a page does not need the cache
        make_folder(file.parent)
        write_whole(file, bundle.encode(), mode=PRIVATE)
    return bundle


def load_script() -> str:
    """Vega's script as it is; "" if vl-convert is not installed."""
    bundle = load_bundle()
    return gzip.decompress(base64.b64decode(bundle)).decode() if bundle else ""


def _make_bundle() -> str:
    script = _load_drawer().javascript_bundle(_SNIPPET)
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")


def _load_drawer() -> Any:
    try:
        import vl_convert  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(
            "drawing charts needs vl-convert; install it with: pip install 'torchmark[report]'"
        ) from error
    return vl_convert
