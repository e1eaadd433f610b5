"""The charts of a sweep: time and speed-up against each dimension, and the roofline.

A line connects points that differ in one dimension only. The other dimensions have one size each,
which the panel shows: a mean over them would not be the time of any input.
`torchmark.analyse.sweep.slices` chooses the sizes for the first panels; `more_scaling` shows other
sizes. In all charts of a sweep, colours are backends, and marks and dashes are dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchmark.analyse.sweep import (
    EAGER,
    FIRST_BACKENDS,
    Config,
    Ratio,
    Slice,
    SweepRow,
    configs_in,
    dims_in,
    dtypes_in,
    eager_of,
    measured,
    phases_in,
    ratio_to,
    size_of,
    slices,
    split_by_model,
    varying_dims,
)
from torchmark.model.run import MachineSpeeds
from torchmark.model.run_settings import TORCH_DTYPES, Phase, dims_text
from torchmark.model.units import ordered_unique
from torchmark.report.figures import amount_text, number_text, seconds_text, speedup_text
from torchmark.report.view import PALETTE, Chart
from torchmark.report.views.charts import log_axis, ratios_axis, size_axis, times_axis

Encoding = dict[str, Any]
"""A part of a Vega-Lite specification."""

Values = list[dict[str, Any]]
Figures = Mapping[str, tuple[float, float, float]]
"""Value, low and high end by the ID of the case."""

_WIDTH, _HEIGHT = 270, 210
"""Pixels of a panel; with its axis, it fits the screen of a phone."""

_NAME_HEIGHT = 14
"""Pixels between the names of two roofs."""

_COLUMNS = 3
"""Panels in a row if there is only one phase; otherwise each phase has a column."""

_MOST_SLICES = 5
"""Maximum number of other slices that a page shows for each dimension."""

_DTYPE_LEGEND = {
    "orient": "bottom",
    "symbolFillColor": "var(--quiet)",
    "symbolStrokeColor": "transparent",  # a dashed outline would fray the mark
}
"""At the right it would not fit the screen of a phone."""

_MEASURED = "matrix products and copies in the cache, measured on this machine"
_SEEN = "the best values of this sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """One drawing of a chart."""

    title: str
    subtitle: str
    x: Mapping[str, Any]
    """The encoding in Vega-Lite."""

    y: Mapping[str, Any]
    """The encoding in Vega-Lite."""

    values: Values
    """The marks."""

    has_lines: bool = True
    references: tuple[Mapping[str, Any], ...] = ()
    """Other layers, below the marks."""


def scaling(rows: Sequence[SweepRow]) -> Chart | None:
    """Medians against each dimension; None if no case with a dimension was measured."""
    cuts = _first_slices(rows)
    held = " Panel titles have the sizes of other dimensions." if any(c.held for c in cuts) else ""
    note = f"Medians with their 95 % intervals.{held}"
    panels = _line_panels(rows, cuts, _times(rows), times_axis)
    return _chart("scaling", "Median time of one run", note, rows, panels)


def more_scaling(rows: Sequence[SweepRow]) -> Chart | None:
    """The same charts as `scaling`, at other sizes of the other dimensions."""
    others = [
        cut
        for of_model in split_by_model(measured(rows)).values()
        for dim in varying_dims(of_model)
        for cut in slices(of_model, dim)[1 : 1 + _MOST_SLICES]
        if len(cut.sizes) > 1
    ]
    title = "Median time of one run, at other sizes"
    panels = _line_panels(rows, others, _times(rows), times_axis)
    return _chart("scaling-more", title, "", rows, panels)


def speed_up(rows: Sequence[SweepRow]) -> Chart | None:
    """Speed-ups of all backends over eager; None if no row can be compared with eager."""
    note = (
        f"Compared with {EAGER} in the same dtype, phase and sizes: above 1 is faster. "
        "Intervals combine the outer ends of both intervals."
    )
    panels = _line_panels(rows, _first_slices(rows), ratios_in(rows), ratios_axis, at_one=True)
    return _chart("speedup", f"Speed-up over {EAGER}", note, rows, panels)


def ratios_in(rows: Sequence[SweepRow]) -> dict[str, Ratio]:
    """Speed-ups over eager by the IDs of the cases that can be compared with it."""
    eager = eager_of(rows)
    found = [(row.case_id, ratio_to(eager, row)) for row in rows]
    return {case_id: ratio for case_id, ratio in found if ratio}


def _chart(
    chart_id: str,
    title: str,
    note: str,
    rows: Sequence[SweepRow],
    panels: Sequence[_Panel],
    description: str = "",
) -> Chart | None:
    """The panels as one chart with one legend; None if there are no panels."""
    if not panels:
        return None
    drawn = {value["config"] for panel in panels for value in panel.values}
    configs = [config for config in configs_in(rows) if str(config) in drawn]
    colour, by_dtype = _colour_channel(configs), _dtype_channel(configs)
    values, specs = [], []
    for number, panel in enumerate(panels):
        values += [{"panel": number, **value} for value in panel.values]
        specs.append(_panel_spec(number, panel, colour, by_dtype))
    phases = len(phases_in(measured(rows)))
    columns = phases if phases > 1 else min(_COLUMNS, len(panels))
    dims = ", ".join(dict.fromkeys(str(panel.x["title"]) for panel in panels))
    against = f"{title} against {dims}: {', '.join(map(str, configs_in(measured(rows))))}"
    return Chart(
        id=chart_id,
        title=title,
        description=description or against,
        note=note,
        spec={"data": {"values": values}, "columns": columns, "concat": specs},
    )


def _panel_title(row: SweepRow, every: Sequence[SweepRow], phase: Phase) -> str:
    """The phase, and the model if there are several."""
    if len(split_by_model(every)) == 1:
        return str(phase.value)
    return f"{phase.value}: {row.model}"


def _fields(row: SweepRow) -> dict[str, Any]:
    """The fields of a mark, for its tooltip and for the data table of the chart."""
    median = row.median_s or 0.0
    low, high = row.low_s or median, row.high_s or median
    return {
        "config": str(row.config),
        "dtype": row.dtype,
        "phase": row.phase.value,
        "sizes": row.sizes_text or "no dimensions",
        "time": seconds_text(median),
        "interval": f"{seconds_text(low)} to {seconds_text(high)}"
        if row.low_s is not None
        else "too few samples",
        **({"warnings": row.warnings} if row.warnings else {}),
    }


def title_of_model(rows: Sequence[SweepRow]) -> str:
    """The model of these rows, and the number of threads if all have the same."""
    threads = {row.threads for row in rows}
    told = f", {number_text(threads.pop(), 'thread')}" if len(threads) == 1 else ""
    return f"{rows[0].model}{told}"


def _first_slices(rows: Sequence[SweepRow]) -> list[Slice]:
    """The first slice of each dimension that varies; if none does, of the first dimension."""
    found = []
    for of_model in split_by_model(measured(rows)).values():
        dims = varying_dims(of_model) or dims_in(of_model)[:1]
        found += [slices(of_model, dim)[0] for dim in dims]
    return found


def _line_panels(
    rows: Sequence[SweepRow],
    cuts: Sequence[Slice],
    figures: Figures,
    axis_of: Callable[[list[float]], dict[str, Any]],
    *,
    at_one: bool = False,
) -> list[_Panel]:
    """A panel for each slice and phase; panels of a slice have the same axes."""
    phases = phases_in(row for row in measured(rows) if row.case_id in figures)
    found = []
    for cut in cuts:
        values = {phase: _values(cut, phase, figures, at_one=at_one) for phase in phases}
        every = [value for each in values.values() for value in each]
        if not every:
            continue
        y = axis_of([end for value in every for end in (value["low"], value["high"])])
        found += [
            _Panel(
                title=_panel_title(cut.rows[0], rows, phase),
                subtitle=dims_text(cut.held),
                x=size_axis(cut.dim, cut.sizes),
                y=y,
                values=values[phase],
                references=(_ONE,) if at_one else (),
            )
            for phase in phases
        ]
    return found


def _values(cut: Slice, phase: Phase, figures: Figures, *, at_one: bool) -> Values:
    """The marks of a panel; lines have gaps where nothing was measured."""
    found: Values = []
    for config in configs_in(cut.rows):
        placed = {
            size_of(row, cut.dim): row
            for row in cut.rows
            if row.phase is phase and row.config == config
        }
        piece = 0
        for size in cut.sizes:
            row = placed.get(size)
            if row is None or row.case_id not in figures:
                piece += 1
                continue
            middle, low, high = figures[row.case_id]
            mark = {"size": size, "value": middle, "low": low, "high": high, "piece": piece}
            told = {"speed-up": speedup_text(middle)} if at_one else {}
            found.append({**_fields(row), **told, **mark})
    return found


def _times(rows: Sequence[SweepRow]) -> Figures:
    return {
        row.case_id: (row.median_s, row.low_s or row.median_s, row.high_s or row.median_s)
        for row in rows
        if row.median_s
    }


_ONE: dict[str, Any] = {
    "mark": {"type": "rule", "strokeDash": [4, 3]},
    "data": {"values": [{"one": 1}]},
    "encoding": {"y": {"field": "one", "type": "quantitative"}},
}
"""The line at 1, which is eager."""


def _panel_spec(number: int, panel: _Panel, colour: Encoding, by_dtype: Encoding) -> Encoding:
    """Intervals, lines if the panel has them, and marks with tooltips."""
    x, y = {"type": "quantitative", **panel.x}, {"type": "quantitative", **panel.y}
    own = [{"filter": f"datum.panel === {number}"}]
    at = {name: {"x": x, "y": {**y, "field": name}, "color": colour} for name in ("value", "low")}
    line: Encoding = {
        "mark": "line",
        "encoding": {**at["value"], "strokeDash": by_dtype, "detail": {"field": "piece"}},
    }
    interval: Encoding = {
        "mark": {"type": "rule", "opacity": 0.6, "strokeWidth": 1.4},
        "encoding": {**at["low"], "y2": {"field": "high"}},
    }
    told = ["config", "phase", "sizes", "time", "interval"]
    more = ("speed-up", "rate", "warnings")
    told += [name for name in more if any(name in value for value in panel.values)]
    point: Encoding = {
        "mark": {"type": "point", "filled": True, "tooltip": True},
        "encoding": {
            **at["value"],
            "shape": by_dtype,
            "tooltip": [{"field": name} for name in told],
        },
    }
    marks = [interval, *([line] if panel.has_lines else []), point]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "title": {"text": panel.title, "subtitle": panel.subtitle},
        "layer": [*panel.references, *({"transform": own, **mark} for mark in marks)],
    }


def _colour_channel(configs: Sequence[Config]) -> Encoding:
    """A colour for each backend, the same for all dtypes."""
    order = ordered_unique([*FIRST_BACKENDS, *(config.backend for config in configs)])
    return {
        "field": "config",
        "type": "nominal",
        "title": "config",
        "scale": {
            "domain": [str(config) for config in configs],
            "range": [PALETTE[order.index(config.backend) % len(PALETTE)] for config in configs],
        },
    }


def _dtype_channel(configs: Sequence[Config]) -> Encoding:
    """Marks and dashes for dtypes, with a legend if there are several."""
    dtypes = ordered_unique(config.dtype for config in configs)
    return {
        "field": "dtype",
        "type": "nominal",
        "title": "dtype",
        "scale": {"domain": dtypes},
        "legend": _DTYPE_LEGEND if len(dtypes) > 1 else None,
    }


def roofline(rows: Sequence[SweepRow], speeds: MachineSpeeds | None) -> Chart | None:
    """Achieved FLOP/s over FLOPs per byte, one panel for each phase; None if no row has both.

    Without speeds, the roofs are the best values of the sweep, and no roof is lower than these.
    If there are several numbers of threads, only the largest is shown, because the speeds are
    measured for it.
    """
    works = [row for row in measured(rows) if row.flop_per_s and row.bytes_per_s]
    if not works:
        return None
    threads = {row.threads for row in works}
    works = [row for row in works if row.threads == max(threads)]
    of_threads = f"Cases with {number_text(max(threads), 'thread')}. " if len(threads) > 1 else ""
    tops, width, origin = _find_roofs(works, speeds)
    figures = ", ".join(f"{dtype} {amount_text(top)}FLOP/s" for dtype, top in tops.items())
    note = (
        f"{of_threads}Roofs ({origin}): {figures}, {amount_text(width)}B/s. "
        "Bytes are inputs, parameters and outputs, each counted once."
    )
    title = "Achieved FLOP/s over FLOP per byte"
    panels = [
        _roof_panel([row for row in of_model if row.phase is phase], rows, tops, width)
        for of_model in split_by_model(works).values()
        for phase in phases_in(of_model)
    ]
    return _chart("roofline", title, note, rows, panels, f"{title}. {note}")


def _find_roofs(
    works: Sequence[SweepRow], speeds: MachineSpeeds | None
) -> tuple[dict[str, float], float, str]:
    """FLOP/s by dtype, bytes per second, and their origin.

    They are the measured speeds of the machine, or the best values of the sweep if higher.
    """
    seen = {
        dtype: max(row.flop_per_s or 0.0 for row in works if row.dtype == dtype)
        for dtype in dtypes_in(works)
    }
    width = max(row.bytes_per_s or 0.0 for row in works)
    if speeds is None or not speeds.flops_per_second:
        return seen, width, _SEEN
    given = {
        dtype: speeds.flops_per_second.get(TORCH_DTYPES.get(dtype, dtype), 0.0) for dtype in seen
    }
    given_width = max(speeds.bytes_per_second.values(), default=0.0)
    are_given = width <= given_width and all(top <= given[dtype] for dtype, top in seen.items())
    tops = {dtype: max(top, given[dtype]) for dtype, top in seen.items()}
    origin = _MEASURED if are_given else f"{_MEASURED}, or {_SEEN} if higher"
    return tops, max(width, given_width), origin


def _roof_panel(
    works: Sequence[SweepRow], every: Sequence[SweepRow], roofs: Mapping[str, float], width: float
) -> _Panel:
    values = [_roof_value(row) for row in works]
    tops = {dtype: roofs[dtype] for dtype in dtypes_in(works)}
    ridges = [top / width for top in tops.values()]
    intensities = [value["intensity"] for value in values] + ridges
    speeds = [value[end] for value in values for end in ("low", "high")] + list(tops.values())
    x = log_axis(intensities, "format(datum.value, '~r')")
    y = log_axis(speeds, "format(datum.value, '~s')")
    return _Panel(
        title=_panel_title(works[0], every, works[0].phase),
        subtitle="",
        x={"field": "intensity", "title": "FLOP per byte", **x},
        y={"title": "FLOP/s", **y},
        values=values,
        has_lines=False,
        references=_roof_layers(tops, width, x["scale"]["domain"], y["scale"]["domain"]),
    )


def _roof_value(row: SweepRow) -> dict[str, Any]:
    flops, moved, median = row.flops or 0, row.bytes or 1, row.median_s or 1.0
    return {
        **_fields(row),
        "rate": f"{amount_text(flops / median)}FLOP/s, {amount_text(moved / median)}B/s",
        "intensity": flops / moved,
        "value": flops / median,
        "low": flops / (row.high_s or median),
        "high": flops / (row.low_s or median),
    }


def _roof_layers(
    tops: Mapping[str, float], width: float, x_ends: Sequence[float], y_ends: Sequence[float]
) -> tuple[dict[str, Any], ...]:
    """For each dtype, the bandwidth slope up to its speed, then a level line with its name.

    Roofs so close that their names would overlap have one label.
    """
    start = max(x_ends[0], y_ends[0] / width)
    corners = []
    for dtype, top in tops.items():
        slope = [(start, start * width), (top / width, top)]
        corners += [{"roof": dtype, "x": x, "y": y} for x, y in (*slope, (x_ends[1], top))]
    near = (y_ends[1] / y_ends[0]) ** (_NAME_HEIGHT / _HEIGHT)
    names: Values = []
    for dtype, top in sorted(tops.items(), key=lambda roof: -roof[1]):
        if names and names[-1]["y"] < top * near:
            names[-1]["roof"] += f", {dtype}"
        else:
            names.append({"roof": dtype, "x": x_ends[1], "y": top})
    place = {name: {"field": name, "type": "quantitative"} for name in ("x", "y")}
    return (
        {
            "data": {"values": corners},
            "mark": {"type": "line", "color": "var(--rule)", "strokeWidth": 1.4, "tooltip": None},
            "encoding": {**place, "detail": {"field": "roof"}, "order": {"field": "x"}},
        },
        {
            "data": {"values": names},
            "mark": {"type": "text", "align": "right", "dy": -6, "color": "var(--quiet)"},
            "encoding": {**place, "text": {"field": "roof"}},
        },
    )
