"""The views of a site: overview, changes, runs, and the page of each run.

`site_case` has the page of a case, `site_feed` the feed.

Nothing here depends on the time at which the site is made, so the same store gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from torchmark.analyse.change_points import Fate
from torchmark.analyse.history import HistoricChange, History
from torchmark.model.case import Case, digest
from torchmark.model.run import Run, RunKind, RunSummary
from torchmark.model.series import Quantity, Series
from torchmark.model.units import collect
from torchmark.report.figures import environment_line, number_text
from torchmark.report.names import group_of, name_in_group
from torchmark.report.view import (
    Cell,
    Column,
    Field,
    Kind,
    Mark,
    Row,
    Section,
    Table,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.common import fact_table, failure_section, skip_section
from torchmark.report.views.history import KINDS, between_text, point_cell
from torchmark.report.views.trend import trend_svg

_OF_STATEMENTS = (RunKind.TIME, RunKind.COUNT)
"""Runs that have a statement instead of a suite."""

NOTHING = data_table((), ())
"""Pages of a site are not exported as CSV."""


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The latest figure of a series, for the overview."""

    quantity: Quantity
    machine: str
    value: float
    when: str
    points: int
    trend: str
    """The SVG of the trend."""

    change: float | None
    """The last lasting change; None if there was none."""

    changed: str
    """When that was."""


class ListedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change, for the list of changes and the feed."""

    case_id: str
    title: str
    quantity: Quantity
    machine: str
    change: float
    low: float
    high: float
    fate: Fate
    when: str
    """When the first commit with the change was made."""

    run: str
    """The first run with the change."""

    commit: str | None
    between: str
    """What differs between the runs on both sides."""


class CaseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the other pages show of a case."""

    case: Case
    suite: str
    """The suites of its newest run; empty for a statement that belongs to none."""

    latest: tuple[Latest, ...]
    changes: tuple[ListedChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Addresses of pages, seen from one page."""

    root: str
    """The way to the root of the site."""

    commit_url: str
    """The address of a commit, with {commit} in it; empty if commits are not linked."""

    def case(self, case_id: str) -> str:
        return f"{self.root}{case_page(case_id)}"

    def run(self, run_id: str) -> str:
        return f"{self.root}{run_page(run_id)}"

    def commit(self, commit: str | None) -> str:
        """The address of a commit; empty for what is not one."""
        if not self.commit_url or not commit or not re.fullmatch(r"[0-9a-fA-F]{7,64}", commit):
            return ""
        return self.commit_url.replace("{commit}", commit)


def case_page(case_id: str) -> str:
    return f"cases/{_file_name(case_id)}.html"


def run_page(run_id: str) -> str:
    return f"runs/{_file_name(run_id)}.html"


def _file_name(text: str) -> str:
    """IDs are names of files as they are; what else a store may have gets a name of its own."""
    plain = re.sub(r"[^0-9A-Za-z_-]", "_", text)[:100]
    return plain if plain == text else f"{plain}-{digest([text])}"


def summarise(case: Case, histories: Sequence[History]) -> CaseSummary:
    """What other pages need of the histories of a case."""
    newest = max((each.latest.origin for each in histories), key=lambda each: each.place)
    return CaseSummary(
        case=case,
        suite="" if newest.kind in _OF_STATEMENTS else newest.suite,
        latest=tuple(_latest(each) for each in histories),
        changes=tuple(list_change(each, change) for each in histories for change in each.listed),
    )


def _latest(history: History) -> Latest:
    lasting = [each for each in history.listed if each.found.fate is not Fate.PASSED]
    last = lasting[-1] if lasting else None
    return Latest(
        quantity=history.series.quantity,
        machine=history.series.machine,
        value=history.latest.value,
        when=history.latest.origin.when,
        points=len(history.series.points),
        trend=trend_svg(history.series.values, _mark_of(last).value if last else ""),
        change=last.found.change if last else None,
        changed=last.after.when if last else "",
    )


def _mark_of(change: HistoricChange | ListedChange) -> Mark:
    size = change.found.change if isinstance(change, HistoricChange) else change.change
    return Mark.BAD if size > 0 else Mark.GOOD


def list_change(history: History, change: HistoricChange) -> ListedChange:
    found = change.found
    return ListedChange(
        case_id=history.series.case_id,
        title=history.series.case.title,
        quantity=history.series.quantity,
        machine=history.series.machine,
        change=found.change,
        low=found.interval.low - 1,
        high=found.interval.high - 1,
        fate=found.fate,
        when=change.after.when,
        run=change.after.run,
        commit=change.after.commit,
        between=between_text(change.before, change.after, {}),
    )


def overview(title: str, cases: Sequence[CaseSummary], runs: int, links: Links) -> View:
    """All cases by suite, each with its trends and last changes."""
    suites = collect((each.suite, each) for each in cases)
    sections = [
        Section(
            id=f"suite-{number}",
            title=suite or "Single statements",
            table=_grid(members, links),
        )
        for number, (suite, members) in enumerate(sorted(suites.items()), 1)
    ]
    changes = [change for each in cases for change in each.changes]
    lasting = [each for each in changes if each.fate is not Fate.PASSED]
    newest = max((each.when for case in cases for each in case.latest), default="")
    what = f"{number_text(len(cases), 'case')} in {number_text(runs, 'run')}"
    return View(
        title=title,
        summary=f"{what}; {number_text(len(lasting), 'lasting change')}."
        if cases
        else f"{what}: the store has no times or counts yet.",
        lead=(f"newest commit or run: {date_text(newest)}",)
        if newest
        else ("`torchmark run` measures some; publish again afterwards.",),
        sections=tuple(sections),
        search="Search all cases",
        data=NOTHING,
    )


def date_text(when: str) -> str:
    """Date and time, without seconds and offset."""
    return when[:16].replace("T", " ")


SHORT = {
    Quantity.TIME: "time",
    Quantity.INSTRUCTIONS: "instructions",
    Quantity.MEMORY: "memory",
}


def _grid(cases: Sequence[CaseSummary], links: Links) -> Table:
    present = {latest.quantity for each in cases for latest in each.latest}
    fields: list[Field[CaseSummary]] = [
        field("case", lambda each: Cell(name_in_group(each.case), href=links.case(each.case.id)))
    ]
    for quantity in (each for each in Quantity if each in present):
        fields += _grid_fields(quantity)
    ordered = sorted(cases, key=lambda each: (group_of(each.case), each.case.title, each.case.id))
    return make_table(ordered, fields, lambda each: Row(group=group_of(each.case)))


def _grid_fields(quantity: Quantity) -> list[Field[CaseSummary]]:
    name = SHORT[quantity]

    def latest_of(case: CaseSummary) -> Latest | None:
        """On the machines that were used last."""
        found = [each for each in case.latest if each.quantity is quantity]
        return max(found, key=lambda each: each.when, default=None)

    def trend(case: CaseSummary) -> Cell:
        latest = latest_of(case)
        return Cell() if latest is None else Cell(text="", svg=latest.trend)

    def value(case: CaseSummary) -> Cell:
        latest = latest_of(case)
        return Cell() if latest is None else Cell(latest.value)

    def change(case: CaseSummary) -> Cell:
        latest = latest_of(case)
        if latest is None or latest.change is None:
            return Cell()
        mark = Mark.BAD if latest.change > 0 else Mark.GOOD
        return Cell(latest.change, mark=mark, hint=f"since {latest.changed[:10]}")

    return [
        field(f"{name}: trend", trend),
        field(name, value, KINDS[quantity], "The newest figure"),
        field(f"{name}: last change", change, Kind.CHANGE, "The last change that stayed"),
    ]


def changes_page(changes: Iterable[ListedChange], links: Links) -> View:
    """Regressions and improvements, the newest first, and changes that passed."""
    changes = sort_changes(changes)
    parts = {
        "Regressions": [e for e in changes if e.fate is not Fate.PASSED and e.change > 0],
        "Improvements": [e for e in changes if e.fate is not Fate.PASSED and e.change <= 0],
        "Passed": [e for e in changes if e.fate is Fate.PASSED],
    }
    regressions, improvements, passed = map(len, parts.values())
    return View(
        title="Changes",
        summary=f"{number_text(regressions, 'regression')}, "
        f"{number_text(improvements, 'improvement')}, {passed:,} passed.",
        sections=tuple(
            Section(
                id=name.lower(),
                title=name,
                table=_change_table(each, links) if each else None,
                is_folded=name == "Passed",
            )
            for name, each in parts.items()
        ),
        data=NOTHING,
    )


def sort_changes(changes: Iterable[ListedChange]) -> list[ListedChange]:
    """The newest first."""
    return sorted(
        changes,
        key=lambda each: (each.when, each.run, each.case_id, each.quantity.value, each.machine),
        reverse=True,
    )


def _change_table(changes: Sequence[ListedChange], links: Links) -> Table:
    fields: list[Field[ListedChange]] = [
        field("case", lambda each: Cell(each.title, href=links.case(each.case_id))),
        field("when", lambda each: Cell(each.when, each.when[:10]), Kind.NAME),
        field("figure", lambda each: each.quantity.value),
        field("change", change_cell, Kind.CHANGE, "With its 95 % interval"),
        field("fate", lambda each: each.fate.value),
        field("between", lambda each: Cell(each.between, href=links.commit(each.commit))),
        field("first run", lambda each: Cell(each.run, href=links.run(each.run))),
    ]
    if len({each.machine for each in changes}) > 1:
        fields.append(field("machine", lambda each: each.machine))
    return make_table(changes, fields)


def change_cell(each: ListedChange) -> Cell:
    interval = None if each.low == each.high else (each.low, each.high)
    return Cell(each.change, interval=interval, mark=_mark_of(each))


def runs_page(runs: Sequence[RunSummary], links: Links) -> View:
    """All runs, the newest first."""
    fields: list[Field[RunSummary]] = [
        field("run", lambda each: Cell(each.id, href=links.run(each.id)), Kind.NAME),
        field("date", lambda each: Cell(each.started, date_text(each.started)), Kind.NAME),
        field("kind", lambda each: each.kind.value),
        field("suite", lambda each: each.suite),
        field("done", lambda each: each.done, Kind.INTEGER),
        field("failed", lambda each: each.failed or None, Kind.INTEGER),
        field("torch", lambda each: _fact(each, "torch", "version")),
        field("commit", lambda each: _commit_cell(each, links), Kind.CODE),
        field("branch", lambda each: _fact(each, "git", "branch")),
        field("tags", lambda each: ", ".join(each.tags)),
    ]
    ordered = sorted(runs, key=lambda each: (each.started, each.id), reverse=True)
    return View(
        title="Runs",
        summary=f"{number_text(len(runs), 'run')}." if runs else "The store has no runs yet.",
        sections=(Section("runs", "Runs", table=make_table(ordered, fields) if runs else None),),
        data=NOTHING,
    )


def _fact(run: RunSummary, *path: str) -> str:
    found = [each.fact(*path) for each in run.environments]
    return ", ".join(dict.fromkeys(str(each) for each in found if each))


def _commit_cell(run: RunSummary, links: Links) -> Cell:
    commit = run.environments[0].fact("git", "commit") if run.environments else None
    known = commit if isinstance(commit, str) else None
    return Cell((known or "")[:10], href=links.commit(known))


def run_view(
    run: RunSummary, series: Sequence[Series], links: Links, *, whole: Run | None = None
) -> View:
    """A run with the figures of its cases, without samples and counts by function.

    `series` have the points of this run only. `whole` is the run with its results, if some failed
    or were skipped.
    """
    figures = {(each.case_id, each.quantity): point_cell(each.points[-1]) for each in series}
    present = [each for each in Quantity if any(each is quantity for _, quantity in figures)]
    cases = {each.case_id: each.case for each in series}
    columns = (Column("case"), *(Column(SHORT[each], KINDS[each]) for each in present))
    ordered = sorted(cases.items(), key=lambda each: (group_of(each[1]), each[1].title, each[0]))
    rows = tuple(
        Row(
            group=group_of(case),
            cells=(
                Cell(name_in_group(case), href=links.case(case_id)),
                *(figures.get((case_id, each), Cell()) for each in present),
            ),
        )
        for case_id, case in ordered
    )
    counts = [
        f"{count} {status}"
        for status, count in (
            ("done", run.done),
            ("failed", run.failed),
            ("skipped", run.skipped),
            ("partial", run.partial),
        )
        if count
    ]
    tags = f" ({', '.join(run.tags)})" if run.tags else ""
    return View(
        title=f"Run {run.id}{tags}",
        summary=f"{', '.join(counts) or 'no result'}.",
        lead=(
            f"{run.suite or run.kind.value}; {run.state.value}, started {run.started}",
            *(environment_line(each.facts) for each in run.environments),
        ),
        sections=(
            Section(
                "results",
                "Results",
                table=Table(columns=columns, rows=rows) if rows else None,
                footnotes=(f"`torchmark show {run.id}` shows samples and warnings.",),
            ),
            *((failure_section(whole), skip_section(whole)) if whole else ()),
        ),
        environments=fact_table(run.environments),
        data=NOTHING,
    )


def is_run_of_cases(run: RunSummary) -> bool:
    """Whether the page of a run has figures only; other kinds of runs have their own report."""
    return run.kind is RunKind.RUN
