"""Charts made ready to be drawn: how they look, and which series they have.

Views say what a chart shows (`torchmark.report.view.Chart`). Here it gets the colours of the page,
and in a page a legend of its own, whose boxes are reached by keyboard and hide a series: the names
in the parameter `HIDDEN` are filtered out.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchmark.report.figures import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchmark.report.view import Chart

HIDDEN = "torchmark_hidden"
PALETTE = tuple(f"var(--plot-{number})" for number in range(1, 9))

_FONT = "system-ui, sans-serif"
_CELL_WIDTH = 230
"""Pixels of one of several small charts: one fits the screen of a phone with its axis."""

_PICTURE_WIDTH = 620
_PICTURE_LETTERS = 100
"""Characters of a line of the note, so that it does not make the picture wider."""

_PICTURE_COLUMNS = (3, 2)
"""Small charts in a row; preferred is a number that leaves no gap in the last one."""

_TEXT = {"labelColor": "var(--quiet)", "titleColor": "var(--ink)", "titleFontWeight": 500}
CONFIG: dict[str, Any] = {
    "aria": False,  # the figure has a description and its data as a table
    "background": None,
    "font": _FONT,
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
    "header": {"labelColor": "var(--ink)", "titleColor": "var(--quiet)", "labelFontSize": 12},
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
    for channel in _channels(spec):
        if channel.get("type") != "nominal":
            continue
        field, scale = str(channel["field"]), channel.get("scale") or {}
        present = dict.fromkeys(
            str(row[field]) for row in _values(spec) if row.get(field) is not None
        )
        names = tuple(name for name in scale.get("domain", present) if name in present)
        given = dict(zip(scale.get("domain", ()), scale.get("range", ()), strict=False))
        colours = tuple(
            given.get(name, PALETTE[at % len(PALETTE)]) for at, name in enumerate(names)
        )
        return Series(field, names, colours)
    return None


def spec_for_page(chart: Chart) -> dict[str, Any]:
    """As wide as its box; without Vega's legend where the page has its own."""
    spec = _dressed(chart)
    if not _is_composed(spec):
        spec["width"] = "container"
    series = find_series(spec)
    if series is not None:
        for encoding in _encodings(spec):
            for name in ("color", "shape", "strokeDash"):
                if encoding.get(name, {}).get("field") == series.field:
                    encoding[name]["legend"] = None
        shown = f"indexof({HIDDEN}, datum[{json.dumps(series.field)}]) < 0"
        spec["params"] = [{"name": HIDDEN, "value": []}, *spec.get("params", ())]
        spec["transform"] = [{"filter": shown}, *spec.get("transform", ())]
    return spec


def spec_for_picture(chart: Chart, colours: Mapping[str, str]) -> dict[str, Any]:
    """By itself, on white: with its title, and the colours by their values."""
    spec = _dressed(chart)
    if "facet" in spec:
        panels = len({row.get(spec["facet"].get("field")) for row in _values(spec)})
        full = [columns for columns in _PICTURE_COLUMNS if panels % columns == 0]
        spec.setdefault("columns", (full or _PICTURE_COLUMNS)[0])
    elif not _is_composed(spec):
        spec.setdefault("width", _PICTURE_WIDTH)
    note = textwrap.wrap(chart.note, _PICTURE_LETTERS)
    spec["title"] = {"text": chart.title, **({"subtitle": note} if note else {})}
    spec["background"], spec["padding"] = colours["paper"], 12
    text = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], json.dumps(spec))
    resolved: dict[str, Any] = json.loads(text)
    return resolved


def _dressed(chart: Chart) -> dict[str, Any]:
    """In our style; every name of a series with its colour, also where others are hidden."""
    spec: dict[str, Any] = _printable(chart.spec)
    is_composed = _is_composed(spec)
    ticks = {"axisX": (6, "ceil(width / 80)"), "axisY": (4, "ceil(height / 40)")}
    spec["config"] = {**CONFIG, **spec.get("config", {})}
    for axis, (few, many) in ticks.items():
        count = few if is_composed else {"expr": many}
        spec["config"][axis] = {**spec["config"].get(axis, {}), "tickCount": count}
    if "facet" in spec:
        spec["spec"].setdefault("width", _CELL_WIDTH)
    series = find_series(spec)
    for encoding in _encodings(spec):
        channel = encoding.get("color")
        if (
            series is not None
            and isinstance(channel, dict)
            and channel.get("field") == series.field
        ):
            channel["scale"] = {"domain": list(series.names), "range": list(series.colours)}
    return spec


def _printable(node: Any) -> Any:
    """A copy whose texts can be drawn: a control character ends the program that draws."""
    if isinstance(node, Mapping):
        return {name: _printable(value) for name, value in node.items()}
    if isinstance(node, list | tuple):
        return [_printable(value) for value in node]
    return printable(node) if isinstance(node, str) else node


def _is_composed(spec: Mapping[str, Any]) -> bool:
    """Whether it consists of several charts, each with a width of its own."""
    facets = {"facet", "row", "column"}
    return bool({"facet", "hconcat", "vconcat", "concat", "repeat"} & spec.keys()) or bool(
        facets & spec.get("encoding", {}).keys()
    )


def _values(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(spec.get("data", {}).get("values", ()))


def _encodings(node: Any) -> Iterator[dict[str, Any]]:
    """Every `encoding` in it, of layers and of charts inside charts too."""
    if isinstance(node, list | tuple):
        for each in node:
            yield from _encodings(each)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name == "encoding":
                yield value
            elif name in ("layer", "spec", "hconcat", "vconcat", "concat"):
                yield from _encodings(value)


def _channels(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What `color` encodes, wherever it stands; with a scale first, which the others share."""
    found = [
        encoding["color"]
        for encoding in _encodings(dict(spec))
        if isinstance(encoding.get("color"), dict) and "field" in encoding["color"]
    ]
    yield from sorted(found, key=lambda channel: "scale" not in channel)
