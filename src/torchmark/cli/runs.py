"""`torchmark runs`: what the store holds."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Any

import click
import msgspec

from torchmark.cli.stores import columns, opened, store_option
from torchmark.engine.files import is_owned
from torchmark.model.run import RunState
from torchmark.model.units import ordered_unique
from torchmark.report.formats import text
from torchmark.report.view import Cell, Column, Kind, Row, Section, Table, View, cells_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.report.view import Value
    from torchmark.store import RunSummary

_COLUMNS = (
    Column(name="run", kind=Kind.NUMBER),  # like a figure: an id in two lines is no id
    Column(name="kind"),
    Column(name="state"),
    Column(name="torch"),
    Column(name="tags"),
)


@click.command("runs")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print the runs and their environments.")
def command(place: str | None, as_json: bool) -> None:
    """List the runs of the store, the oldest first: of every command that measures."""
    with opened(place) as store:
        runs, where = store.runs(), store.where
    if as_json:
        click.echo(json.dumps([_record(run) for run in runs], indent=2))
    elif runs:
        click.echo(text.render(_view(runs, where), columns()), nl=False)
    else:
        click.echo(f"There are no runs in {where} yet; `torchmark run` makes one.", err=True)


def _view(runs: Sequence[RunSummary], where: str) -> View:
    table = Table(
        columns=_COLUMNS,
        rows=tuple(Row(cells=(Cell(text=run.id), *cells_of(_values(run)))) for run in runs),
    )
    count = f"{len(runs):,} runs" if len(runs) > 1 else "1 run"
    return View(
        title="",
        summary=f"{count} in {where}.",
        sections=(Section(id="runs", title="", table=table),),
        data=table,
    )


def _values(run: RunSummary) -> list[Value]:
    torch = [each.fact("torch", "version") for each in run.environments]
    return [
        run.kind.value,
        ", ".join(
            [
                f"{_state(run)} {run.done}/{run.planned}",
                *([f"{run.failed} failed"] if run.failed else []),
                *([f"{run.skipped} skipped"] if run.skipped else []),
            ]
        ),
        ", ".join(ordered_unique(str(version) for version in torch if version)),
        " ".join(run.tags),
    ]


def _state(run: RunSummary) -> str:
    """A run that was killed could not say so; that nobody carries it out tells it."""
    hosts = {each.fact("machine", "host") for each in run.environments}
    is_here = platform.node() in hosts
    if run.state is RunState.RUNNING and is_here and not is_owned(run.id):
        return "cut short"
    return run.state.value


def _record(run: RunSummary) -> dict[str, Any]:
    return {
        "id": run.id,
        "kind": run.kind.value,
        "started": run.started,
        "state": run.state.value,
        "tags": list(run.tags),
        "planned": run.planned,
        "done": run.done,
        "failed": run.failed,
        "skipped": run.skipped,
        "environments": msgspec.to_builtins(run.environments),
    }
