"""Charts with a row for each case: a dot or a bar for its figure, and its interval.

`draw_rows` makes the specification. `chart_times` shows times on a logarithmic axis; `chart_ratios`
shows changes around "no change", marked by their verdicts. Sweeps use the same axes: an axis of
sizes is logarithmic if the sizes grow by factors, an axis of times if they span more than a decade.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torchmark.analyse.estimates import MeasuredTime, Verdict
from torchmark.report.figures import confidence_text, seconds_text
from torchmark.report.view import Chart, Value
from torchmark_probe.loops.intervals import Interval

SECONDS_LABEL = "datum.value === 0 ? '0' : format(datum.value, '~s') + 's'"
"""Vega's expression for a time on an axis: 10µs."""

_MOST_ROWS = 60
"""Maximum number of cases with one row each; with more, a row is a group with a dot per case."""

_MOST_SERIES = 8
"""Maximum number of groups with different colours: the palette has no more."""

_MOST_RATIOS = 200
"""Maximum number of cases in a chart of ratios; the largest changes are shown."""

_COLOURS = {
    Verdict.SLOWER: "var(--bad)",
    Verdict.FASTER: "var(--good)",
    Verdict.SAME: "var(--plot-1)",
    Verdict.UNCLEAR: "var(--doubt)",
}
_SHAPES = ("triangle-up", "triangle-down", "circle", "diamond")
"""So that a verdict can be recognised without its colour."""

_SMALLEST_REACH = math.log(1.02)
"""The axis shows at least 2 % to each side; otherwise noise would fill it."""

_LARGEST_REACH = math.log(4)
_CHANGES = (0.5, 1, 2, 3, 5, 10, 20, 30, 50, 75, 100, 200, 300)
"""Changes in per cent that may have a label on either side."""

_LABEL_GAP = 0.23
"""Minimum distance of labels, as a share of one side of the axis; less would touch on a phone."""

_DECADE = 10
"""Values that span more than this factor have a logarithmic axis."""

_GEOMETRIC = 4
"""Sizes that span less than this factor look the same on both kinds of axis."""

_AIR = 0.05
"""Free share of an axis at either end, so that no mark lies on the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One figure in a chart."""

    name: str
    """The name of its row."""

    value: float
    interval: tuple[float, float] | None = None
    series: str = ""
    """The meaning of its colour, if it has one."""

    told: Mapping[str, Value] = field(default_factory=dict)
    """Other lines of its tooltip, by name."""


def draw_rows(
    dots: Sequence[Dot],
    x: Mapping[str, Any],
    *,
    series: str = "group",
    row: str = "case",
    is_bar: bool = False,
    more: Mapping[str, Any] | None = None,
    under: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A Vega-Lite specification.

    `x` is the axis of the figures, `series` the name of the series field, `row` the field with a
    row for each value, `more` other encodings, and `under` layers below the marks.
    """
    values = [_values(dot, series) for dot in dots]
    told = dict.fromkeys(["case", series, *(name for dot in dots for name in dot.told)])
    encoding: dict[str, Any] = {
        "y": {"field": row, "type": "nominal", "sort": None, "title": None},
        "tooltip": [{"field": name, "type": "nominal"} for name in told if name in values[0]],
    }
    if row == "case" and 1 < len({dot.series for dot in dots}) <= _MOST_SERIES:
        encoding["color"] = {"field": series, "type": "nominal", "sort": None}
    encoding |= more or {}
    x = {"type": "quantitative", **x}
    is_dense = row != "case"
    figure = {
        "mark": {"type": "bar"} if is_bar else {"type": "point", "opacity": 0.5 if is_dense else 1},
        "encoding": {**encoding, "x": {**x, "field": "value"}},
    }
    interval = {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {**encoding, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
    }
    interval["encoding"].pop("shape", None)
    if is_bar:
        interval["encoding"]["color"] = {"value": "var(--ink)"}
    has_intervals = not is_dense and any(dot.interval for dot in dots)
    layers = [*([interval] if has_intervals else []), figure]
    # A dot is drawn over its interval; a bar would hide it.
    return {"data": {"values": values}, "layer": [*under, *(layers[::-1] if is_bar else layers)]}


def _values(dot: Dot, series: str) -> dict[str, Value]:
    ends = {} if dot.interval is None else {"low": dot.interval[0], "high": dot.interval[1]}
    group = {series: dot.series} if dot.series else {}
    return {"case": dot.name, **group, "value": dot.value, **ends, **dot.told}


def chart_times(times: Sequence[tuple[str, str, MeasuredTime]]) -> Chart | None:
    """The chart of cases with names, groups and times; None if there are no times."""
    dots = [_time_dot(*each) for each in times if each[2].median > 0]
    if not dots:
        return None
    ends = [end for dot in dots for end in dot.interval or (dot.value,)]
    slowest = max(dots, key=lambda dot: dot.value)
    is_crowded = len(dots) > _MOST_ROWS and all(dot.series for dot in dots)
    return Chart(
        id="times",
        title="Times",
        description=f"Times of {len(dots)} cases, logarithmic. {slowest.name} takes the longest: "
        f"{seconds_text(slowest.value)}.",
        spec=draw_rows(
            dots,
            {"title": "time of one run", **log_axis(ends, SECONDS_LABEL)},
            row="group" if is_crowded else "case",
        ),
        note="Each dot is a case; hover over it for its name and interval."
        if is_crowded
        else "Dots are medians, lines 95 % intervals.",
    )


def _time_dot(name: str, group: str, time: MeasuredTime) -> Dot:
    interval = time.interval
    if interval is not None:
        # The interval of few samples may reach below zero, which a logarithmic axis cannot show.
        interval = Interval(max(interval.low, time.median / 10), interval.high)
    return Dot(
        name=name,
        value=time.median,
        interval=interval,
        series=group,
        told={
            "median": seconds_text(time.median),
            "95 % interval": "too few samples"
            if interval is None
            else f"{seconds_text(interval.low)} to {seconds_text(interval.high)}",
            "samples": time.samples,
        },
    )


def ratio_dot(
    name: str,
    ratio: float,
    interval: tuple[float, float],
    verdict: Verdict,
    told: Mapping[str, Value],
    *,
    level: float = 0.95,
) -> Dot:
    """Return a dot for a ratio; `level` is the confidence of its interval."""
    # The interval of few samples may be infinite, which no axis can show.
    low, high = max(interval[0], ratio / 100), min(interval[1], ratio * 100)
    low_text, high_text = (f"{(end - 1) * 100:+.2f} %" for end in (low, high))
    lines = {
        "change": f"{(ratio - 1) * 100:+.2f} %",
        "interval": f"{low_text} to {high_text} ({confidence_text(level)} confidence)",
    }
    return Dot(
        name=name, value=ratio, interval=(low, high), series=verdict.value, told={**lines, **told}
    )


def chart_ratios(
    dots: Sequence[Dot], *, title: str, axis: str, same_within: float, chart_id: str
) -> Chart:
    """The chart of dots from `ratio_dot`, largest first; a band shows what counts as the same."""
    shown = sorted(dots, key=lambda dot: -abs(math.log(dot.value)))[:_MOST_RATIOS]
    shown.sort(key=lambda dot: -dot.value)
    reach = reach_of([dot.value for dot in shown], same_within)
    beyond = sum(abs(math.log(dot.value)) > reach for dot in shown)
    left_out = len(dots) - len(shown)
    notes = [
        f"Changes within the band (up to {same_within * 100:g} %) count as the same.",
        f"Cases beyond the axis are shown at its end: {beyond}." if beyond else "",
        f"Cases with smaller changes are not shown: {left_out}." if left_out else "",
    ]
    x = {
        "scale": {"type": "log", "domain": [math.exp(-reach), math.exp(reach)], "clamp": True},
        "axis": {
            "title": axis,
            "values": [1 + change / 100 for change in axis_labels(reach)],
            "labelExpr": "datum.value == 1 ? '0' : format(datum.value - 1, '+.3~p')",
            "grid": True,
        },
    }
    verdicts = [verdict.value for verdict in _COLOURS]
    colours = {"domain": verdicts, "range": list(_COLOURS.values())}
    shapes = {"domain": verdicts, "range": list(_SHAPES)}
    return Chart(
        id=chart_id,
        title=title,
        description=f"{title}: each case with its interval; right of 0 is slower.",
        spec=draw_rows(
            shown,
            x,
            series="verdict",
            more={
                "color": {"field": "verdict", "type": "nominal", "scale": colours},
                "shape": {"field": "verdict", "type": "nominal", "scale": shapes},
            },
            under=_no_change(x, same_within),
        ),
        note=" ".join(filter(None, notes)),
    )


def _no_change(x: Mapping[str, Any], same_within: float) -> list[dict[str, Any]]:
    """A band for what counts as the same, with a line in the middle."""
    quantity = {**x, "type": "quantitative"}
    return [
        {
            "data": {"values": [{"from": 1 / (1 + same_within), "to": 1 + same_within}]},
            "mark": {"type": "rect", "color": "var(--soft)", "tooltip": False},
            "encoding": {"x": {**quantity, "field": "from"}, "x2": {"field": "to"}},
        },
        {
            "data": {"values": [{"one": 1}]},
            "mark": {"type": "rule", "strokeWidth": 1, "tooltip": False},
            "encoding": {"x": {**quantity, "field": "one"}},
        },
    ]


def reach_of(ratios: Sequence[float], same_within: float) -> float:
    """The log of the largest ratio on the axis, which shows the band and nine of ten ratios."""
    least = max(_SMALLEST_REACH, 1.5 * math.log1p(same_within))
    distances = sorted(abs(math.log(ratio)) for ratio in ratios)
    ordinary = distances[int(0.9 * (len(distances) - 1))] if distances else 0.0
    reach = min(_LARGEST_REACH, max(least, 1.3 * ordinary))
    # If the outer ratios are not much larger, the axis shows them too.
    if distances and distances[-1] <= 2 * reach:
        reach = min(_LARGEST_REACH, max(reach, 1.1 * distances[-1]))
    return reach


def axis_labels(reach: float) -> list[float]:
    """Changes in per cent with a label, from left to right.

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


def size_axis(dim: str, sizes: Sequence[int]) -> dict[str, Any]:
    """The axis of a dimension: each size is a tick, with a label if there is room."""
    scale = "log" if grows_geometrically(sizes) else "linear"
    return {
        "field": "size",
        "title": dim,
        "scale": {"type": scale, "zero": False, "nice": False, "padding": 12},
        "axis": {**_at(sizes), "grid": False, "format": "d"},
    }


def times_axis(ends: Sequence[float]) -> dict[str, Any]:
    if min(ends) > 0 and max(ends) / min(ends) > _DECADE:
        return {"title": None, **log_axis(ends, SECONDS_LABEL)}
    high = max(ends) * (1 + _AIR)
    axis = {"labelExpr": SECONDS_LABEL, **_at(_linear_ticks(0.0, high))}
    return {"title": None, "scale": {"domain": [0.0, high], "nice": False}, "axis": axis}


def ratios_axis(ends: Sequence[float]) -> dict[str, Any]:
    """Always logarithmic and including 1: twice and half as fast have the same distance from 1."""
    return {"title": None, **log_axis([1.0, *ends], "format(datum.value, '~r') + '×'")}


def log_axis(values: Sequence[float], label: str) -> dict[str, Any]:
    """A logarithmic axis that includes these values; `label` is an expression of Vega."""
    least, most = min(values), max(values)
    factor = max((most / least) ** _AIR, 1.15)
    low, high = least / factor, most * factor
    return {
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"labelExpr": label, **_at(_log_ticks(low, high))},
    }


def _at(ticks: Sequence[float]) -> dict[str, Any]:
    """Ticks at these values; without their number Vega would omit some."""
    return {"values": list(ticks), "tickCount": len(ticks)}


def grows_geometrically(sizes: Sequence[int]) -> bool:
    """Whether the factors between consecutive sizes vary less than the steps.

    >>> grows_geometrically([1, 2, 4, 8]), grows_geometrically([2, 4, 6, 8])
    (True, False)
    >>> grows_geometrically([1, 1000]), grows_geometrically([16])
    (True, False)
    """
    if not sizes or sizes[0] <= 0 or sizes[-1] / sizes[0] < _GEOMETRIC:
        return False
    pairs = list(itertools.pairwise(sizes))
    steps = [after - before for before, after in pairs]
    factors = [math.log(after / before) for before, after in pairs]
    return max(factors) / min(factors) <= max(steps) / min(steps)


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with other values between them if there would be few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    if decades < 0.75:
        return _linear_ticks(low, high)
    for digits, most in (((1, 2, 5), 2.4), ((1,), 6.0)):
        if decades <= most:
            ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
            return [tick for tick in ticks if low <= tick <= high]
    every = math.ceil(decades / 5)
    powers = [power for power in range(first, last + 1) if power % every == 0]
    return [10.0**power for power in powers if low <= 10.0**power <= high]


def _linear_ticks(low: float, high: float) -> list[float]:
    """Four to eight ticks at multiples of 1, 2 or 5."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
