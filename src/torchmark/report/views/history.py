"""The view of `torchmark history`: series of cases over commits, with their change points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from torchmark.analyse.change_points import Fate
from torchmark.analyse.history import HistoricChange, History, shared_changes
from torchmark.model.run import DECISIVE
from torchmark.model.series import Origin, Point, Quantity
from torchmark.model.units import collect
from torchmark.report.figures import change_text, number_text, sparkline
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

Distances: TypeAlias = Mapping[tuple[str, str], int | None]
"""The number of commits from one commit to another; None if the first is not an ancestor."""

KINDS = {
    Quantity.TIME: Kind.SECONDS,
    Quantity.INSTRUCTIONS: Kind.INSTRUCTIONS,
    Quantity.MEMORY: Kind.BYTES,
}
_TITLES = {
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

_MOST_SHARED = 3
"""Number of shared changes that have a note; the newest."""


def make_view(histories: Sequence[History], distances: Distances | None = None) -> View:
    """The view of the histories of some cases; `distances` are known numbers of commits."""
    known = distances or {}
    groups = collect(((each.series.quantity, each.series.machine), each) for each in histories)
    sections = [
        _section(quantity, machine, members, known, len(groups))
        for (quantity, machine), members in groups.items()
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
    quantity: Quantity,
    machine: str,
    histories: Sequence[History],
    known: Distances,
    sections: int,
) -> Section:
    fields: list[Field[History]] = [
        field("case", lambda each: name_in_group(each.series.case)),
        field("trend", lambda each: sparkline(each.series.values, _BARS), Kind.CODE),
        field("latest", lambda each: _point_cell(each.latest), KINDS[quantity]),
        field("last change", _last_change, Kind.CHANGE),
    ]
    return Section(
        id=f"{quantity.value}-{sections}-{machine}",
        title=f"{_TITLES[quantity]} · {machine}",
        table=make_table(histories, fields, partial(_row, known=known)),
    )


def _point_cell(point: Point) -> Cell:
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
    span = [each.origin.when[:10] for each in history.series.points]
    period = span[0] if span[0] == span[-1] else f"{span[0]} to {span[-1]}"
    lines = [f"{number_text(len(span), 'run')}, {period}"]
    lines += [_change_text(each, known) for each in listed[:_MOST_LISTED]]
    if len(listed) > _MOST_LISTED:
        lines.append(f"… {len(listed) - _MOST_LISTED} earlier changes: see --json")
    return Row(
        group=group_of(history.series.case),
        id=history.series.case_id,
        details=(Detail(lines=tuple(lines)),),
    )


def _change_text(change: HistoricChange, known: Distances) -> str:
    found = change.found
    low, high = (change_text(end - 1) for end in found.interval)
    interval = "" if low == high else f" [{low}, {high}]"
    return (
        f"{change.after.when[:10]}: {change_text(found.change)}{interval} {found.fate.value}, "
        f"{between_text(change.before, change.after, known)}"
    )


def between_text(before: Origin, after: Origin, known: Distances) -> str:
    """What differs between two runs: commits and decisive facts of the environment."""
    facts = [
        f"{name} {old or 'unknown'} → {new or 'unknown'}"
        for name, path in DECISIVE.items()
        if (old := before.environment.fact(*path)) != (new := after.environment.fact(*path))
    ]
    return "; ".join([_commits_text(before, after, known), *facts])


def _commits_text(before: Origin, after: Origin, known: Distances) -> str:
    if before.commit is None or after.commit is None:
        return f"runs {before.run} and {after.run}"
    old, new = before.commit[:10], after.commit[:10]
    changed = " with changes" if after.is_dirty else ""
    if before.commit == after.commit:
        return f"within commit {new}{changed}"
    span = f"{old}..{new}{changed}"
    if (before.commit, after.commit) not in known:
        return span
    distance = known[before.commit, after.commit]
    if distance is None:
        return f"{span}, which are not on one line of commits"
    return f"{span}, {number_text(distance, 'commit')}"


def _notes(
    groups: Mapping[tuple[Quantity, str], Sequence[History]], known: Distances
) -> tuple[str, ...]:
    """Changes that most cases share."""
    notes = []
    for (quantity, _), histories in groups.items():
        origins = {each.after.run: each for history in histories for each in history.listed}
        shared = shared_changes(histories)
        for run, (count, present) in sorted(shared.items(), reverse=True)[:_MOST_SHARED]:
            between = between_text(origins[run].before, origins[run].after, known)
            notes.append(
                f"{count} of {present} cases changed their {quantity.value} at run {run} "
                f"({between}): suspect the machine or the environment before the code of one "
                "operator"
            )
    return tuple(notes)


def _summary(histories: Sequence[History]) -> str:
    fates = Counter(each.fate for history in histories for each in history.changes.points)
    runs = {point.origin.run for each in histories for point in each.series.points}
    parts = [f"{number_text(fates[fate], 'change')} {fate.value}" for fate in Fate if fates[fate]]
    count = number_text(len(histories), "series").replace("seriess", "series")
    return f"{count} of {number_text(len(runs), 'run')}: {', '.join(parts) or 'no change'}."


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
    levels = {
        index: segment.level
        for segment in changes.segments
        for index in range(segment.start, segment.stop)
    }
    by_index = {each.index: each for each in changes.points}
    values = [_chart_value(at, point, levels[at]) for at, point in enumerate(series.points)]
    rules = [
        {"at": index - 0.5, "change": change_text(each.change), "fate": each.fate.value}
        for index, each in by_index.items()
    ]
    x = {
        "type": "quantitative",
        "title": "run, in the order of the commits",
        "axis": {"tickMinStep": 1, "format": "d"},
        "scale": {"nice": False, "padding": 8},
    }
    y = {"type": "quantitative", "scale": {"zero": False}, "title": series.quantity.value}
    tooltip = [
        {"field": name, "type": "nominal"}
        for name in ("run", "date", "commit", "measured")
    ]  # fmt: skip
    spec: dict[str, Any] = {
        "data": {"values": values},
        "height": 180,
        "layer": [
            {
                "data": {"values": rules},
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--doubt)"},
                "encoding": {
                    "x": {**x, "field": "at"},
                    "tooltip": [{"field": name, "type": "nominal"} for name in ("change", "fate")],
                },
            },
            {
                "mark": {"type": "rule", "color": "var(--quiet)"},
                "encoding": {
                    "x": {**x, "field": "at"},
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "line", "interpolate": "step", "color": "var(--plot-2)"},
                "encoding": {"x": {**x, "field": "at"}, "y": {**y, "field": "level"}},
            },
            {
                "mark": {"type": "point", "color": "var(--plot-1)", "filled": True},
                "encoding": {
                    "x": {**x, "field": "at"},
                    "y": {**y, "field": "value"},
                    "tooltip": tooltip,
                },
            },
        ],
    }
    what = [f"{change_text(each.change)} at run {index + 1}" for index, each in by_index.items()]
    return Chart(
        id=chart_id,
        title=f"{series.quantity.value} on {series.machine}",
        description=f"{len(values)} runs; changes: {', '.join(what) or 'none'}.",
        spec=spec,
        note="The line is the level of each segment, dashes are changes.",
    )


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
        "commit": (origin.commit or "")[:10],
        "measured": f"{point.value:.5g}",
    }


_DATA = (
    "case", "title", "quantity", "machine", "run", "started", "commit", "committed", "branch",
    "value", "low", "high", "level", "change", "change_low", "change_high", "fate",
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
