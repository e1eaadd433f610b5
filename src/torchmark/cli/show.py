"""`torchmark show RUN`: the results of a run."""

from __future__ import annotations

import click

from torchmark.cli.stores import columns, opened, store_option
from torchmark.report import run_json, run_text


@click.command("show")
@click.argument("name", metavar="[RUN]", default="latest")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(name: str, place: str | None, as_json: bool) -> None:
    """Show the results of a run: times with intervals, instructions, doubts and failures.

    RUN is an id, the beginning of one, a tag, or `latest`.
    """
    with opened(place) as store:
        run = store.run(name)
        results = store.results(run.id)
    text = (
        run_json.render(run, results) if as_json else run_text.render(run, results, width=columns())
    )
    click.echo(text, nl=False)
