"""The view of `torchmark history`: series of cases over commits, with their change points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torchmark.analyse.change_points import Fate
from torchmark.analyse.history import EXACT, HistoricChange, History, shared_changes
from torchmark.model.series import Origin, Point, Quantity
from torchmark.model.units import collect
from torchmark.report.figures import (
    change_text,
    cut_line,
    instructions_text,
    number_text,
    seconds_text,
    sparkline,
)
from torchmark.report.names import group_of, name_in_group
from torchmark.report.view import (
    Cell,
    Chart,
    Detail,
    Field,
    Kind,
    Mark,
    Row,
    Section,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.between import (
    LONGEST_FACT,
    Distances,
    commits_text,
    facts_text,
    run_axis,
    short_commit,
    span_text,
)
from torchmark.report.views.charts import SECONDS_LABEL

KINDS = {
    Quantity.TIME: Kind.SECONDS,
    Quantity.INSTRUCTIONS: Kind.INSTRUCTIONS,
    Quantity.MEMORY: Kind.BYTES,
}
TITLES = {
    Quantity.TIME: "Time of one run",
    Quantity.INSTRUCTIONS: "Instructions of one run",
    Quantity.MEMORY: "Peak memory of one run",
}
_BARS = 20
"""Width of a sparkline."""

_MOST_LISTED = 5
"""Changes that are listed below a case, the newest; data have all."""

_MOST_CHARTS = 24
"""With more series than this, a page has no charts: `publish` makes a page for each case."""

_MOST_SHARED = 5
"""Number of shared changes that have a note; the newest."""


def make_view(histories: Sequence[History], distances: Distances | None = None) -> View:
    """The view of the histories of some cases; `distances` are known numbers of commits."""
    known = distances or {}
    groups = collect(((each.series.quantity, each.series.machine), each) for each in histories)
    sections = [
        _section(f"{quantity.value}-{number}", quantity, machine, members, known)
        for number, ((quantity, machine), members) in enumerate(groups.items(), 1)
    ]
    charts = histories if len(histories) <= _MOST_CHARTS else []
    return View(
        title="",
        summary=_summary(histories),
        notes=_notes(groups, known),
        sections=(*sections, *(_chart_section(at, each) for at, each in enumerate(charts))),
        data=data_table(_DATA, (row for each in histories for row in _values(each))),
    )


def _section(
    section_id: str,
    quantity: Quantity,
    machine: str,
    histories: Sequence[History],
    known: Distances,
) -> Section:
    fields: list[Field[History]] = [
        field("case", lambda each: name_in_group(each.series.case)),
        field("trend", lambda each: sparkline(each.series.values, _BARS), Kind.CODE),
        field("latest", lambda each: point_cell(each.latest), KINDS[quantity]),
        field("last change", _last_change, Kind.CHANGE),
    ]
    return Section(
        id=section_id,
        title=f"{TITLES[quantity]} · {machine}",
        table=make_table(histories, fields, partial(_row, known=known)),
    )


def point_cell(point: Point) -> Cell:
    """A figure with its interval."""
    interval = None if point.low is None or point.high is None else (point.low, point.high)
    return Cell(point.value, interval=interval)


def _last_change(history: History) -> Cell:
    lasting = history.changes.lasting
    if not lasting:
        return Cell(text="none", mark=Mark.QUIET)
    return Cell(lasting[-1].change, mark=_mark(lasting[-1].change))


def _mark(change: float) -> Mark:
    return Mark.BAD if change > 0 else Mark.GOOD


def _row(history: History, known: Distances) -> Row:
    listed = history.listed[::-1]
    lines = [span_text([each.origin for each in history.series.points])]
    lines += [_change_text(each, history.series.quantity, known) for each in listed[:_MOST_LISTED]]
    if len(listed) > _MOST_LISTED:
        lines.append(f"… {number_text(len(listed) - _MOST_LISTED, 'earlier change')}: see --json")
    return Row(
        group=group_of(history.series.case),
        details=(Detail(lines=tuple(lines)),),
    )


def _change_text(change: HistoricChange, quantity: Quantity, known: Distances) -> str:
    found = change.found
    low, high = (change_text(end - 1) for end in found.interval)
    interval = "" if low == high else f" [{low}, {high}]"
    levels = f" ({found.before:,.10g} → {found.after:,.10g})" if quantity in EXACT else ""
    told = f"{change_text(found.change)}{interval}{levels} {found.fate.value}"
    facts = facts_text(change.before, change.after)
    if facts and change.before.commit == change.after.commit:
        return f"{facts}: {told}"
    return f"{change.after.when[:10]}: {told}, {between_text(change.before, change.after, known)}"


def between_text(before: Origin, after: Origin, known: Distances) -> str:
    """What differs between two runs: commits and decisive facts of the environment."""
    facts = facts_text(before, after)
    return "; ".join([commits_text(before, after, known), *([facts] if facts else [])])


def _notes(
    groups: Mapping[tuple[Quantity, str], Sequence[History]], known: Distances
) -> tuple[str, ...]:
    """Changes that most cases share, the newest first."""
    notes = []
    for (quantity, _), histories in groups.items():
        changes = {each.after.run: each for history in histories for each in history.listed}
        shared = shared_changes(histories)
        newest = sorted(shared, key=lambda run: changes[run].after.place, reverse=True)
        for run in newest[:_MOST_SHARED]:
            count, present = shared[run]
            before, after = changes[run].before, changes[run].after
            told = f"{count} of {number_text(present, 'case')} changed their {quantity.value}"
            facts = facts_text(before, after)
            notes.append(
                f"{told} with {facts} (run {run})"
                if facts and before.commit == after.commit
                else f"{told} at run {run} ({between_text(before, after, known)}): suspect the "
                "machine or the environment before the code of one operator"
            )
        if len(newest) > _MOST_SHARED:
            notes.append(f"… {number_text(len(newest) - _MOST_SHARED, 'earlier change')} like this")
    return tuple(notes)


def _summary(histories: Sequence[History]) -> str:
    fates = Counter(each.fate for history in histories for each in history.changes.points)
    runs = {point.origin.run for each in histories for point in each.series.points}
    parts = [f"{number_text(fates[fate], 'change')} {fate.value}" for fate in Fate if fates[fate]]
    told = ", ".join(parts) or "no change"
    return f"{len(histories):,} series of {number_text(len(runs), 'run')}: {told}."


def _chart_section(number: int, history: History) -> Section:
    series = history.series
    return Section(
        id=f"chart-{number}",
        title=f"{series.case.title}: {series.quantity.value}",
        chart=chart_history(history, f"history-{number}"),
        is_page_only=True,
    )


def chart_history(history: History, chart_id: str) -> Chart:
    """A line over the runs with the level of each segment, and a rule at each change."""
    series, changes = history.series, history.changes
    values = [
        _chart_value(at, series.points[at], segment.level)
        for segment in changes.segments
        for at in range(segment.start, segment.stop)
    ]
    what = [f"{change_text(each.change)} at run {each.index + 1}" for each in changes.points]
    return Chart(
        id=chart_id,
        title=series.machine,
        description=f"{len(values)} runs; changes: {', '.join(what) or 'none'}.",
        spec={
            "data": {"values": values},
            "height": 220,
            "layer": _layers(history),
        },
        note="The line is the level of each segment, dashed lines are changes. Ctrl + wheel zooms, "
        "dragging moves, a double click shows all runs again.",
    )


_AXES = {
    Quantity.TIME: SECONDS_LABEL,
    Quantity.INSTRUCTIONS: "format(datum.value, datum.value < 1e6 ? ',~r' : '~s')",
    Quantity.MEMORY: "format(datum.value, '~s') + 'B'",
}
"""Vega's expressions for the labels of an axis."""

_TOLD = {
    Quantity.TIME: "format(datum.value, '.4s') + 's'",
    Quantity.INSTRUCTIONS: "format(datum.value, ',~r')",
    Quantity.MEMORY: "format(datum.value, '.4~s') + 'B'",
}
"""Vega's expressions for the figure in a tooltip; as text in the data, they would be most of it."""

_CROWDED = 300
"""With more runs than this, points of the usual size would cover the line of the level."""

_ZOOM = {
    "name": "zoom",
    "select": {
        "type": "interval",
        "encodings": ["x"],
        # A wheel alone scrolls the page, and so does a finger.
        "zoom": "wheel![event.ctrlKey]",
        "translate": "[mousedown, window:mouseup] > window:mousemove!",
    },
    "bind": "scales",
}


def _layers(history: History) -> list[dict[str, Any]]:
    """Rules at the changes; intervals, levels and points of the runs."""
    quantity, changes = history.series.quantity, history.changes.points
    named = run_axis([point.origin for point in history.series.points])
    point = {"type": "point", "color": "var(--plot-1)", "clip": True}
    if len(history.series.points) > _CROWDED:
        point |= {"size": 12, "opacity": 0.7}
    x = {
        "field": "at",
        "type": "quantitative",
        **named,
        "axis": {**named["axis"], "grid": False},
        "scale": {"nice": False, "zero": False, "padding": 8},
    }
    y = {
        "type": "quantitative",
        "title": None,
        "scale": {"zero": False, "padding": 10},
        "axis": {"labelExpr": _AXES[quantity]},
    }
    rules = [
        {"at": each.index + 0.5, "change": change_text(each.change), "fate": each.fate.value}
        for each in changes
    ]
    dashes = {"type": "rule", "strokeDash": [4, 3], "color": "var(--doubt)", "clip": True}
    bars = {"type": "rule", "color": "var(--quiet)", "opacity": 0.5, "clip": True}
    levels = {"type": "line", "interpolate": "step", "color": "var(--plot-2)", "clip": True}
    return [
        {
            "data": {"values": rules},
            "mark": dashes,
            "encoding": {"x": x, "tooltip": _told("change", "fate")},
        },
        {
            "mark": {**bars, "tooltip": False},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {**levels, "tooltip": False},
            "encoding": {"x": x, "y": {**y, "field": "level"}},
        },
        {
            "params": [_ZOOM],
            "transform": [{"calculate": _TOLD[quantity], "as": "measured"}],
            "mark": point,
            "encoding": {
                "x": x,
                "y": {**y, "field": "value"},
                "tooltip": _told("run", "date", "commit", "torch", "measured"),
            },
        },
    ]


def _told(*names: str) -> list[dict[str, str]]:
    """The lines of a tooltip."""
    return [{"field": name, "type": "nominal"} for name in names]


def figure_text(quantity: Quantity, value: float) -> str:
    """The figure with its unit, if it has one."""
    if quantity is Quantity.TIME:
        return seconds_text(value)
    if quantity is Quantity.INSTRUCTIONS:
        return instructions_text(value)
    return f"{value:,.0f} B"


def _chart_value(at: int, point: Point, level: float) -> dict[str, Value]:
    origin = point.origin
    return {
        "at": at + 1,
        "value": point.value,
        "low": point.low if point.low is not None else point.value,
        "high": point.high if point.high is not None else point.value,
        "level": level,
        "run": origin.run,
        "date": origin.when[:16].replace("T", " "),
        "commit": short_commit(origin.commit or ""),
        "torch": cut_line(origin.torch or "", LONGEST_FACT),
    }


_DATA = (
    "case", "title", "quantity", "machine", "run", "started", "commit", "committed", "branch",
    "value", "low", "high", "level", "change", "change_low", "change_high", "fate", "torch",
)  # fmt: skip
"""Columns of the data: a row for each point. New columns are added at the end."""


def _values(history: History) -> list[dict[str, Value]]:
    series = history.series
    by_index = {each.index: each for each in history.changes.points}
    rows: list[dict[str, Value]] = []
    for segment in history.changes.segments:
        for index in range(segment.start, segment.stop):
            point, change = series.points[index], by_index.get(index)
            row: dict[str, Value] = {
                "case": series.case_id,
                "title": series.case.title,
                "quantity": series.quantity.value,
                "machine": series.machine,
                "run": point.origin.run,
                "started": point.origin.started,
                "commit": point.origin.commit,
                "committed": point.origin.committed,
                "branch": point.origin.branch,
                "value": point.value,
                "low": point.low,
                "high": point.high,
                "level": segment.level,
                "torch": point.origin.torch,
            }
            if change is not None:
                row |= {
                    "change": change.change,
                    "change_low": change.interval.low - 1,
                    "change_high": change.interval.high - 1,
                    "fate": change.fate.value,
                }
            rows.append(row)
    return rows
