"""The commands that change the store: `tag`, `untag` and `rm`."""

from __future__ import annotations

import shutil

import click

from torchmark.cli.shell import echo, opened, store_option
from torchmark.engine.files import check_free
from torchmark.model.units import ordered_unique
from torchmark.store import artifact_folder


@click.command("tag")
@click.argument("name", metavar="RUN")
@click.argument("tag", metavar="TAG")
@store_option
def tag_command(name: str, tag: str, place: str | None) -> None:
    """Name a stored run, e.g. `before`. Other commands accept the name as RUN.

    RUN is an id, the beginning of an id, a tag, or `latest`. A tag belongs to one run: if another
    run has it, it moves. The id of a run cannot be a tag.

    \b
    torchmark tag latest before
    """
    with opened(place) as store:
        run_id = store.id_of(name)
        store.tag(run_id, tag)
    echo(f"tagged {run_id} {tag}")


@click.command("untag")
@click.argument("tag", metavar="TAG")
@store_option
def untag_command(tag: str, place: str | None) -> None:
    """Remove a name from its run. The run is kept."""
    with opened(place) as store:
        echo(f"{store.untag(tag)} no longer has the tag {tag}")


@click.command("rm")
@click.argument("names", metavar="RUN [RUN…]", nargs=-1, required=True)
@store_option
def rm_command(names: tuple[str, ...], place: str | None) -> None:
    """Remove stored runs with their results and files.

    RUN is an id, the beginning of an id, a tag, or `latest`. If one of them is unknown, no run is
    removed.
    """
    with opened(place) as store:
        run_ids = ordered_unique(store.id_of(name) for name in names)
        for run_id in run_ids:
            check_free(run_id)
        for run_id in run_ids:
            store.remove(run_id)
            shutil.rmtree(artifact_folder(store.where, run_id), ignore_errors=True)
            echo(f"removed {run_id}")
