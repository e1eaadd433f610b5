"""The chart of a comparison: for each case its ratio, with the interval, on a logarithmic axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torchmark.analyse.pairs import SAME_WITHIN
from torchmark.analyse.verdicts import Verdict
from torchmark.report.view import Chart
from torchmark.report.views.ab_names import cut_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import Judged, TimeRow

_COLOURS = {
    Verdict.SLOWER: "var(--bad)",
    Verdict.FASTER: "var(--good)",
    Verdict.SAME: "var(--plot-1)",
    Verdict.UNCLEAR: "var(--doubt)",
}
_SHAPES = ("triangle-up", "triangle-down", "circle", "diamond")
"""So that a verdict is told by more than a colour."""

_MOST_CASES = 200
"""That have a place; the greatest changes have it first."""

_SMALLEST_REACH = math.log(1.02)
"""The axis shows at least two per cent to each side, or noise would fill it."""

_LARGEST_REACH = math.log(4)
_CHANGES = (0.5, 1, 2, 3, 5, 10, 20, 30, 50, 75, 100, 200, 300)
"""Changes in per cent that may have a label, to either side."""

_LABEL_GAP = 0.23
"""Of one side of the axis between two labels, or they would touch on a phone."""


def chart_ratios(judged: Judged, names: Sequence[str], suffix: str = "") -> Chart:
    rows = list(zip(judged.times, names, strict=True))[:_MOST_CASES]
    rows.sort(key=lambda each: -each[0].effect.ratio)
    b, a = cut_line(judged.b.name, 30), cut_line(judged.a.name, 30)
    reach = reach_of([row.effect.ratio for row, _ in rows])
    beyond = sum(abs(math.log(row.effect.ratio)) > reach for row, _ in rows)
    left_out = len(judged.times) - len(rows)
    notes = [
        f"The band is what counts as the same: {SAME_WITHIN * 100:g} % to either side.",
        f"Cases beyond the axis stand at its end: {beyond}." if beyond else "",
        f"Cases with smaller changes that are left out: {left_out}." if left_out else "",
    ]
    return Chart(
        id=f"ratios{suffix}",
        title=f"Time in {b} over time in {a}",
        description=f"For each case the ratio of its time in {b} to that in {a} with its 95 % "
        "interval; to the right of 0 is slower.",
        spec=_spec([_values(*row) for row in rows], f"change of {b}'s time", reach),
        note=" ".join(filter(None, notes)),
    )


def _values(row: TimeRow, name: str) -> dict[str, Any]:
    effect = row.effect
    return {
        "case": name,
        "verdict": row.verdict.value,
        "ratio": effect.ratio,
        "low": effect.interval.low,
        "high": effect.interval.high,
        "change": f"{(effect.ratio - 1) * 100:+.2f} %",
        "replicates": effect.replicates,
    }


def _spec(values: list[dict[str, Any]], title: str, reach: float) -> dict[str, Any]:
    scale = {"type": "log", "domain": [math.exp(-reach), math.exp(reach)], "clamp": True}
    axis = {
        "title": title,
        "values": [1 + change / 100 for change in axis_labels(reach)],
        "labelExpr": "datum.value == 1 ? '0' : format(datum.value - 1, '+.3~p')",
        "grid": True,
    }
    y = {"field": "case", "type": "nominal", "sort": None, "title": None}
    verdicts = [verdict.value for verdict in _COLOURS]
    colour = {
        "field": "verdict",
        "type": "nominal",
        "title": None,
        "scale": {"domain": verdicts, "range": list(_COLOURS.values())},
    }
    tooltip = [
        {"field": "case", "type": "nominal"},
        {"field": "verdict", "type": "nominal"},
        {"field": "change", "type": "nominal"},
        {"field": "low", "type": "quantitative", "format": ".4f"},
        {"field": "high", "type": "quantitative", "format": ".4f"},
        {"field": "replicates", "type": "quantitative"},
    ]
    x = {"type": "quantitative", "scale": scale, "axis": axis}
    band = {
        "data": {"values": [{"from": 1 / (1 + SAME_WITHIN), "to": 1 + SAME_WITHIN}]},
        "mark": {"type": "rect", "color": "var(--soft)", "tooltip": False},
        "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}},
    }
    middle = {
        "data": {"values": [{"one": 1}]},
        "mark": {"type": "rule", "strokeWidth": 1, "tooltip": False},
        "encoding": {"x": {**x, "field": "one"}},
    }
    interval = {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {
            "x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": colour,
            "tooltip": tooltip,
        },
    }  # fmt: skip
    point = {
        "mark": {"type": "point", "size": 90},
        "encoding": {
            "x": {**x, "field": "ratio"}, "y": y, "color": colour, "tooltip": tooltip,
            "shape": {
                "field": "verdict", "type": "nominal",
                "scale": {"domain": verdicts, "range": list(_SHAPES)},
            },
        },
    }  # fmt: skip
    return {"data": {"values": values}, "layer": [band, middle, interval, point]}


def reach_of(ratios: Sequence[float]) -> float:
    """The log of the largest ratio that has a place: wide enough for nine marks in ten."""
    distances = sorted(abs(math.log(ratio)) for ratio in ratios)
    ordinary = distances[int(0.9 * (len(distances) - 1))] if distances else 0.0
    reach = min(_LARGEST_REACH, max(_SMALLEST_REACH, 1.3 * ordinary))
    # A case or two somewhat further out do not squeeze the others: they get their place.
    if distances and distances[-1] <= 2 * reach:
        reach = min(_LARGEST_REACH, max(reach, 1.1 * distances[-1]))
    return reach


def axis_labels(reach: float) -> list[float]:
    """Changes in per cent that have a label, from the left.

    >>> axis_labels(math.log(1.02))
    [-1, -0.5, 0, 0.5, 1, 2]
    """
    less = _spaced([-change for change in _CHANGES if change < 100], reach)
    return [*reversed(less), 0, *_spaced(_CHANGES, reach)]


def _spaced(changes: Sequence[float], reach: float) -> list[float]:
    kept, last = [], 0.0
    for change in changes:
        place = abs(math.log1p(change / 100)) / reach
        if place <= 1 and place - last >= _LABEL_GAP:
            kept.append(change)
            last = place
    return kept
