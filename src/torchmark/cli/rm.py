"""`torchmark rm RUN`: forget a run."""

from __future__ import annotations

import click

from torchmark.cli.stores import opened, store_option


@click.command("rm")
@click.argument("names", metavar="RUN [RUN…]", nargs=-1, required=True)
@store_option
def command(names: tuple[str, ...], place: str | None) -> None:
    """Remove runs and their results from the store.

    RUN is an id, the beginning of one, a tag, or `latest`. If one of them is not known, none is
    removed.
    """
    with opened(place) as store:
        for run_id in dict.fromkeys([store.id_of(name) for name in names]):
            store.remove(run_id)
            click.echo(f"removed {run_id}")
