"""`torchmark rm RUN`: forget a run."""

from __future__ import annotations

import shutil

import click

from torchmark.cli.stores import opened, store_option
from torchmark.engine.files import check_free
from torchmark.store import artifact_folder


@click.command("rm")
@click.argument("names", metavar="RUN [RUN…]", nargs=-1, required=True)
@store_option
def command(names: tuple[str, ...], place: str | None) -> None:
    """Remove runs, their results and their files.

    RUN is an id, the beginning of one, a tag, or `latest`. If one of them is not known, none is
    removed.
    """
    with opened(place) as store:
        run_ids = [*dict.fromkeys(store.id_of(name) for name in names)]
        for run_id in run_ids:
            check_free(run_id)
        for run_id in run_ids:
            store.remove(run_id)
            shutil.rmtree(artifact_folder(store.where, run_id), ignore_errors=True)
            click.echo(f"removed {run_id}")
