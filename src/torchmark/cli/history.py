"""`torchmark history`: how the figures of cases developed, and where they changed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from torchmark.analyse.change_points import SIGNIFICANCE
from torchmark.analyse.history import LEAST, History, history_of
from torchmark.cli.shell import (
    ExitCode,
    Percent,
    columns,
    combine,
    echo,
    fail,
    file_options,
    files_in,
    opened,
    store_option,
    tell_damage,
    write_documents,
)
from torchmark.define.selection import selected
from torchmark.engine.machine import count_commits
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.model.series import Quantity, choose_origins, comparable_time
from torchmark.report import render_view
from torchmark.report.formats.data import render_figures
from torchmark.report.view import View
from torchmark.report.views import history as history_view
from torchmark.report.views.between import Distances
from torchmark.store import Store
from torchmark.store.database import option_for

_MOST_COUNTED = 50
"""Most ranges of commits that git is asked about; each takes some milliseconds."""


class Date(click.ParamType[str]):
    """A date such as 2026-11-01, with or without a time; a time without an offset is in UTC."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        date = comparable_time(str(value))
        return date or self.fail(f"{value!r} is not a date such as 2026-11-01", param, ctx)


change_options = combine(
    click.option(
        "--least",
        type=Percent(),
        metavar="X%",
        help="Ignore changes smaller than X %.  [default: "
        f"{LEAST[Quantity.TIME] * 100:g}% for times, any difference for counts and memory]",
    ),
    click.option(
        "--significance",
        type=Percent(),
        metavar="X%",
        help="Accept a false change in X % of the cases that did not change.  "
        f"[default: {SIGNIFICANCE * 100:g}%]",
    ),
)


@click.command("history")
@click.argument("case", required=False, default="")
@click.option("-k", "pattern", metavar="PATTERN", default="", help="Show cases with these words.")
@click.option(
    "--metric",
    "quantities",
    type=click.Choice([each.value for each in Quantity]),
    multiple=True,
    help="Show only this figure; may be repeated.  [default: all that were measured]",
)
@click.option("--branch", metavar="BRANCH", help="Only runs on this branch.")
@click.option("--since", type=Date(), metavar="DATE", help="Only commits since DATE.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N of these runs."
)
@change_options
@store_option
@file_options
def history_command(
    case: str,
    pattern: str,
    quantities: tuple[str, ...],
    branch: str | None,
    since: str | None,
    limit: int | None,
    least: float | None,
    significance: float | None,
    place: str | None,
    **arguments: Any,
) -> None:
    """Show the times and counts of cases over all stored runs, and where they changed.

    Each case has its trend, its latest figure and its last change. Below it are its changes, the
    newest first, with the commits between the two runs. CASE is the id of a case, its beginning, or
    words of its title; without CASE and -k, all cases are shown.

    Runs are in the order of their commits; without git, in the order in which they were made. Each
    kind of machine has a table of its own. A change has "stayed", has "passed" (a later run undid
    it), or is "recent" (fewer than three runs follow).

    \b
    torchmark history "add C++" --metric instructions
    torchmark history -k "add not C++" --branch main --since 2026-10-01 --html history.html
    """
    files = files_in(arguments)
    wanted = [Quantity(each) for each in quantities] or None
    with opened(place, read_only=True) as store:
        cases = _choose_cases(store, case, pattern)
        origins = choose_origins(store.origins(), branch=branch, since=since, newest=limit)
        series = store.series(cases, wanted, origins=origins)
    found = [
        history_of(each, least=least, significance=significance or SIGNIFICANCE) for each in series
    ]
    if not found:
        _end_empty(store, branch, since, quantities)
    view = history_view.make_view(found, distances_between(found, Path.cwd()))
    if any(files.values()):
        wrote_all = write_documents(files, lambda form: _render(view, form))
    else:
        echo(render_view(view, "text", columns()), nl=False)
        wrote_all = True
    if tell_damage(store) or not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)


def _render(view: View, form: str) -> str:
    if form == "json":
        return render_figures(view, {"torchmark": "history", "version": 1})
    return render_view(view, form)


def _choose_cases(store: Store, name: str, pattern: str) -> list[str] | None:
    """The ids of the cases; None for all."""
    if not name and not pattern:
        return None
    known = store.cases()
    cases: Iterable[Case] = known.values()
    if name:
        by_id = [case for case_id, case in known.items() if case_id.startswith(name)]
        by_title = [case for case in cases if name in (case.title, case.name)]
        cases = by_id or by_title or selected(cases, name)
    chosen = [case.id for case in selected(cases, pattern)]
    if not chosen:
        words = " and ".join(repr(each) for each in (name, pattern) if each)
        _fail(
            store,
            f"no case with figures in {store.where} matches {words}; `torchmark history"
            f"{option_for(store.where)}` shows all",
        )
    return chosen


def _end_empty(
    store: Store, branch: str | None, since: str | None, quantities: Sequence[str]
) -> NoReturn:
    chosen = [
        *([f"on branch {branch}"] if branch else []),
        *([f"since {since[:10]}"] if since else []),
    ]
    if chosen or quantities:
        branches = sorted({each.branch for each in store.origins() if each.branch})
        known = f"; there are runs on {', '.join(branches)}" if branch and branches else ""
        figures = f"figures for {' or '.join(quantities)}" if quantities else "such figures"
        _fail(store, f"{' '.join(['no run', *chosen])} has {figures}{known}")
    if tell_damage(store):
        sys.exit(ExitCode.ENVIRONMENT)
    echo(
        f"No times or counts in {store.where} yet; "
        f"`torchmark run{option_for(store.where)}` measures some.",
        err=True,
    )
    sys.exit(ExitCode.FINE)


def _fail(store: Store, message: str) -> NoReturn:
    """Raise an error about the arguments, unless damage may be the reason."""
    if tell_damage(store):
        fail(message, ExitCode.ENVIRONMENT)
    raise InvalidArgumentError(message)


def distances_between(histories: Iterable[History], directory: Path) -> Distances:
    """The numbers of commits behind the newest changes, where the repository here has them."""
    ranges = {
        (each.before.commit, each.after.commit): each.after.when
        for history in histories
        for each in history.listed
        if each.before.commit and each.after.commit and each.before.commit != each.after.commit
    }
    newest = sorted(ranges, key=lambda each: ranges[each], reverse=True)[:_MOST_COUNTED]
    return count_commits(directory, newest)
