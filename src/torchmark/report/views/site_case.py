"""The page of a case on a site: its history, newest samples and counts, code and environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torchmark.analyse.estimates import time_of
from torchmark.analyse.history import History
from torchmark.model.case import Case
from torchmark.model.result import Counts, Result, Timing
from torchmark.model.series import Origin
from torchmark.report.figures import (
    environment_line,
    number_text,
    seconds_text,
    short_seconds_text,
)
from torchmark.report.view import (
    Cell,
    Chart,
    Column,
    Field,
    Kind,
    Picture,
    Row,
    Section,
    Table,
    View,
    field,
    make_table,
)
from torchmark.report.views.charts import SECONDS_LABEL
from torchmark.report.views.common import code_details, fact_table, function_cell
from torchmark.report.views.history import (
    KINDS,
    TITLES,
    chart_history,
    figure_text,
    point_cell,
)
from torchmark.report.views.site import (
    NOTHING,
    SHORT,
    Links,
    ListedChange,
    change_cell,
    date_text,
    list_change,
)

_MOST_FUNCTIONS = 40
"""Functions in the table of counts, the largest first."""

_FEWEST_BINS, _MOST_BINS, _IN_A_BIN = 5, 40, 3
"""Bars in the distribution of samples: one for three of them, so that few samples have no gaps."""

_MOST_POINTS = 25
"""Runs in the table of a case, the newest; the data of the chart have all."""


def case_view(
    histories: Sequence[History],
    results: Sequence[Result],
    links: Links,
    pictures: Sequence[Picture] = (),
) -> View:
    """Everything about one case; `results` are its newest results."""
    case = histories[0].series.case
    newest = max((each.latest.origin for each in histories), key=lambda each: each.place)
    told = [
        f"{SHORT[each.series.quantity]} {figure_text(each.series.quantity, each.latest.value)}"
        for each in histories
        if each.latest.origin.run == newest.run
    ]
    runs = {point.origin.run for each in histories for point in each.series.points}
    is_alone = len({each.series.machine for each in histories}) == 1
    sections = [
        _history_section(at, each, links, is_alone=is_alone) for at, each in enumerate(histories, 1)
    ]
    return View(
        title=case.title,
        summary=f"{', '.join(told)}.",
        lead=(
            f"newest of {number_text(len(runs), 'run')}: {newest.run}, {date_text(newest.started)}",
            environment_line(newest.environment.facts),
        ),
        sections=(
            *sections,
            *(each for result in results for each in _result_sections(result)),
            Section("flame", "Instructions by caller", pictures=tuple(pictures)),
            _code_section(case),
            _points_section(histories, links),
        ),
        environments=fact_table([newest.environment]),
        data=NOTHING,
    )


def _history_section(number: int, history: History, links: Links, *, is_alone: bool) -> Section:
    """`is_alone` says that all histories of the case are of one class of machines."""
    series = history.series
    listed = [list_change(history, each) for each in history.listed[::-1]]
    title = TITLES[series.quantity]
    is_first = len(series.points) == 1
    told = "One run so far; a history needs a second one." if is_first else "No change was found."
    return Section(
        id=f"history-{number}",
        title=title if is_alone else f"{title} · {series.machine}",
        paragraphs=() if listed else (told,),
        chart=None if is_first else chart_history(history, f"history-{number}"),
        table=_own_changes(listed, links) if listed else None,
    )


def _own_changes(changes: Sequence[ListedChange], links: Links) -> Table:
    fields: list[Field[ListedChange]] = [
        field("when", lambda each: Cell(each.when, each.when[:10]), Kind.NAME),
        field("change", change_cell, Kind.CHANGE, "With its 95 % interval"),
        field("fate", lambda each: each.fate.value),
        field("between", lambda each: Cell(each.between, href=links.commit(each.commit))),
        field("first run", lambda each: Cell(each.run, href=links.run(each.run)), Kind.NAME),
    ]
    return make_table(changes, fields)


def _result_sections(result: Result) -> list[Section]:
    if isinstance(result.payload, Timing):
        chart = chart_samples(result)
        return [Section("samples", "Samples of the newest run", chart=chart)] if chart else []
    if isinstance(result.payload, Counts):
        return [_functions(result.payload)]
    return []


def chart_samples(result: Result) -> Chart | None:
    """The distribution of the samples; None if there are too few to have one."""
    measurement, time = result.measurement, time_of(result)
    if measurement is None or time is None or time.median <= 0:
        return None
    samples = sorted(measurement.times)
    low, high = samples[0], samples[min(len(samples) - 1, int(0.99 * len(samples)))]
    if len(samples) < 2 or high <= low:
        return None
    bins = max(_FEWEST_BINS, min(_MOST_BINS, len(samples) // _IN_A_BIN))
    width = (high - low) / bins
    counts = [0] * bins
    for each in samples:
        if each <= high:
            counts[min(int((each - low) / width), bins - 1)] += 1
    values = [
        {
            "from": low + at * width,
            "to": low + (at + 1) * width,
            "samples": count,
            "time": short_seconds_text(low + (at + 0.5) * width),
        }
        for at, count in enumerate(counts)
    ]
    axis = {"labelExpr": SECONDS_LABEL, "grid": False}
    spec: dict[str, Any] = {
        "data": {"values": values},
        "height": 160,
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "from", "type": "quantitative", "bin": {"binned": True}, "axis": axis,
                  "title": "time of one run"},
            "x2": {"field": "to"},
            "y": {"field": "samples", "type": "quantitative", "title": "samples",
                  "axis": {"labelExpr": "datum.value % 1 ? '' : datum.value"}},
            "tooltip": [{"field": name, "type": "nominal"} for name in ("time", "samples")],
        },
    }  # fmt: skip
    beyond = sum(each > high for each in samples)
    return Chart(
        id="samples",
        title="Distribution",
        description=f"{len(samples)} samples; the median is {seconds_text(time.median)}.",
        spec=spec,
        note=f"{beyond} slower samples are not shown." if beyond else "",
    )


def _functions(counts: Counts) -> Section:
    shown = counts.statement.exclusive[:_MOST_FUNCTIONS]
    total = sum(count for count, _ in counts.statement.exclusive) or 1
    columns = (
        Column("function", Kind.CODE),
        Column("instructions", Kind.INSTRUCTIONS, "Of one run, without callees, with the loop"),
        Column("share", Kind.SHARE),
    )
    rows = tuple(
        Row(cells=(function_cell(name), Cell(count / counts.runs), Cell(count / total)))
        for count, name in shown
    )
    more = len(counts.statement.exclusive) - len(shown)
    return Section(
        "functions",
        "Instructions by function in the newest run",
        table=Table(columns=columns, rows=rows),
        footnotes=(f"{number_text(more, 'more function')}",) if more else (),
    )


def _code_section(case: Case) -> Section:
    columns = (Column("what"), Column("value", Kind.CODE))
    facts = [("id", case.id), ("facts", ", ".join(case.facts))]
    facts += [(name, str(value)) for name, value in case.params]
    row = Row(cells=(Cell("code"), Cell(case.stmt)), details=code_details(case))
    rows = (row, *(Row(cells=(Cell(name), Cell(value))) for name, value in facts if value))
    return Section("case", "Case", table=Table(columns=columns, rows=rows))


def _points_section(histories: Sequence[History], links: Links) -> Section:
    """All figures, the newest run first."""
    runs: dict[str, Origin] = {}
    values: dict[tuple[str, int], Cell] = {}
    for at, history in enumerate(histories):
        for point in history.series.points[-_MOST_POINTS:]:
            runs[point.origin.run] = point.origin
            values[point.origin.run, at] = point_cell(point)
    several = len({each.series.machine for each in histories}) > 1
    columns = [
        Column(
            f"{each.series.quantity.value}{f', {each.series.machine}' if several else ''}",
            KINDS[each.series.quantity],
        )
        for each in histories
    ]
    rows = tuple(
        Row(
            cells=(
                Cell(origin.run, href=links.run(origin.run)),
                Cell(origin.when, origin.when[:10]),
                Cell((origin.commit or "")[:10], href=links.commit(origin.commit)),
                *(values.get((origin.run, at), Cell()) for at in range(len(histories))),
            )
        )
        for origin in _newest_first(runs.values())[:_MOST_POINTS]
    )
    heads = (
        Column("run", Kind.NAME),
        Column("date", Kind.NAME),
        Column("commit", Kind.CODE),
        *columns,
    )
    is_cut = any(len(each.series.points) > _MOST_POINTS for each in histories)
    return Section(
        "points",
        f"The newest {_MOST_POINTS} runs" if is_cut else "Runs",
        table=Table(columns=heads, rows=rows),
        footnotes=("The data below each chart have all runs.",) if is_cut else (),
    )


def _newest_first(origins: Iterable[Origin]) -> list[Origin]:
    return sorted(origins, key=lambda each: each.place, reverse=True)
