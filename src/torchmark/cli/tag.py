"""`torchmark tag RUN TAG`: give a run a name."""

from __future__ import annotations

import click

from torchmark.cli.stores import opened, store_option


@click.command("tag")
@click.argument("name", metavar="RUN")
@click.argument("tag", metavar="TAG")
@store_option
def command(name: str, tag: str, place: str | None) -> None:
    """Give a run a name by which the other commands know it, such as `before`.

    RUN is an id, the beginning of one, a tag, or `latest`.
    """
    with opened(place) as store:
        run_id = store.id_of(name)
        store.tag(run_id, tag)
        others = [run.id for run in store.runs() if tag in run.tags and run.id != run_id]
    click.echo(f"tagged {run_id} {tag}")
    if others:
        click.echo(f"{tag} is also a tag of {', '.join(others)}: give the id there", err=True)
