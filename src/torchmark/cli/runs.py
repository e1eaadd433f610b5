"""`torchmark runs`: what the store holds."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.stores import columns, opened, store_option
from torchmark.engine.reservations import is_owned
from torchmark.model.run import RunState
from torchmark.report.columns import lined_up
from torchmark.report.figures import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.store import RunSummary


@click.command("runs")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print the runs and their environments.")
def command(place: str | None, as_json: bool) -> None:
    """List the runs of the store, the oldest first."""
    with opened(place) as store:
        runs, where = store.runs(), store.where
    if as_json:
        click.echo(json.dumps([_record(run) for run in runs], indent=2))
    elif runs:
        click.echo(_table(runs))
    else:
        click.echo(f"There are no runs in {where} yet; `torchmark run` makes one.", err=True)


def _table(runs: Sequence[RunSummary]) -> str:
    rows = [(f"{run.id} {' '.join(run.tags)}".rstrip(), _cells(run)) for run in runs]
    headings = ["state", "done", "failed", "skipped", "torch"]
    return printable("\n".join(lined_up(headings, [("run and tags", rows)], columns())))


def _cells(run: RunSummary) -> list[str]:
    torch = run.environment.get("torch")
    version = torch.get("version", "") if isinstance(torch, dict) else ""
    return [
        _state(run),
        f"{run.done} of {run.planned}",
        str(run.failed) if run.failed else "",
        str(run.skipped) if run.skipped else "",
        str(version),
    ]


def _state(run: RunSummary) -> str:
    """A run that was killed could not say so; that nobody carries it out tells it."""
    is_here = run.environment.get("machine", {}).get("host") == platform.node()
    if run.state is RunState.RUNNING and is_here and not is_owned(run.id):
        return "cut short"
    return run.state.value


def _record(run: RunSummary) -> dict[str, Any]:
    return {
        "id": run.id,
        "started": run.started,
        "state": run.state.value,
        "tags": list(run.tags),
        "planned": run.planned,
        "done": run.done,
        "failed": run.failed,
        "skipped": run.skipped,
        "environment": dict(run.environment),
    }
