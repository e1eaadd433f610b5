"""The view of several runs on one page: a common table, and then the report of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from torchmark.analyse.estimates import instructions_of, time_of
from torchmark.model.result import Counts, Metric, Result, Status
from torchmark.model.run import Environment, Run, RunKind
from torchmark.report import view_of
from torchmark.report.figures import number_text
from torchmark.report.names import group_of, name_in_group
from torchmark.report.view import (
    Cell,
    Column,
    Kind,
    Row,
    Section,
    Table,
    View,
    data_table,
)
from torchmark.report.views.common import fact_table, measured_cell

_FEWEST = 2


def view_runs(runs: Sequence[Run]) -> View:
    """The view of one or several runs of any kind; one run has its usual report."""
    if len(runs) == 1:
        return view_of(runs[0])
    views = [view_of(run) for run in runs]
    numbered = enumerate(zip(runs, views, strict=True), 1)
    parts = [each for number, (run, view) in numbered for each in _part(run, view, number)]
    return View(
        title=f"Report of {number_text(len(runs), 'run')}",
        summary=f"{len(runs)} runs: {', '.join(_short(run) for run in runs)}.",
        warnings=tuple(
            f"{_short(run)}: {text}"
            for run, view in zip(runs, views, strict=True)
            for text in view.warnings
        ),
        sections=(*_common(runs), *parts),
        environments=fact_table([_named(run, each) for run in runs for each in run.environments]),
        data=data_table((), ()),
    )


def _short(run: Run) -> str:
    """The tags of a run, or its id."""
    return ", ".join(run.tags) or run.id


def _part(run: Run, view: View, number: int) -> list[Section]:
    """The sections of one run, under its name and with ids of their own."""
    first = Section(
        id=f"run-{number}",
        title=view.title if _short(run) in view.title else f"{_short(run)}: {view.title}",
        paragraphs=(view.summary, *view.lead, *(f"Note: {note}" for note in view.notes)),
    )
    settings = Section("settings", "Settings", table=_settings(view), is_folded=True)
    return [first, *(_renamed(each, f"run-{number}-") for each in (*view.sections, settings))]


def _settings(view: View) -> Table | None:
    rows = tuple(Row(cells=(Cell(name), Cell(value))) for name, value in view.settings)
    return Table(columns=(Column("setting"), Column("value")), rows=rows) if rows else None


def _renamed(section: Section, prefix: str) -> Section:
    """The section with ids that are unique on the page; its links lead to them."""
    table, chart = section.table, section.chart
    return replace(
        section,
        id=f"{prefix}{section.id}",
        table=_renamed_table(table, prefix) if table else None,
        chart=replace(chart, id=f"{prefix}{chart.id}") if chart else None,
    )


def _renamed_table(table: Table, prefix: str) -> Table:
    rows = tuple(
        replace(
            row,
            id=f"{prefix}{row.id}" if row.id else "",
            cells=tuple(
                replace(cell, link=f"{prefix}{cell.link}") if cell.link else cell
                for cell in row.cells
            ),
            details=tuple(
                replace(each, table=_renamed_table(each.table, prefix)) if each.table else each
                for each in row.details
            ),
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def _common(runs: Sequence[Run]) -> list[Section]:
    """A table for each metric, with a column for each run of suites or statements."""
    chosen = [run for run in runs if run.kind in _OF_CASES]
    if len(chosen) < _FEWEST:
        return []
    sections = [
        _common_section(chosen, Metric.TIME, "Times of all runs", Kind.SECONDS),
        _common_section(chosen, Metric.INSTRUCTIONS, "Instructions of all runs", Kind.INSTRUCTIONS),
    ]
    return [each for each in sections if each is not None]


_OF_CASES = (RunKind.RUN, RunKind.TIME, RunKind.COUNT)


def _common_section(runs: Sequence[Run], metric: Metric, title: str, kind: Kind) -> Section | None:
    found = {
        (run.id, each.case.id): each
        for run in runs
        for each in run.results
        if each.metric is metric and len(each.environments) == 1
    }
    cases = {each.case.id: each.case for each in found.values()}
    if not cases:
        return None
    rows = tuple(
        Row(
            group=group_of(case),
            cells=(
                Cell(name_in_group(case)),
                *(_figure(found.get((run.id, case.id))) for run in runs),
            ),
        )
        for case in sorted(cases.values(), key=group_of)
    )
    columns = (Column("case"), *(Column(_short(run), kind) for run in runs))
    return Section(f"all-{metric.value}", title, table=Table(columns=columns, rows=rows))


def _figure(result: Result | None) -> Cell:
    if result is None or result.status is not Status.DONE:
        return Cell(text="" if result is None else result.status.value)
    if isinstance(result.payload, Counts):
        return Cell(float(instructions_of(result.payload)))
    time = time_of(result)
    return Cell() if time is None else measured_cell(time)


def _named(run: Run, environment: Environment) -> Environment:
    return msgspec.structs.replace(environment, name=f"{_short(run)} {environment.name}".strip())
