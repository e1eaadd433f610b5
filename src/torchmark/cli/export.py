"""`torchmark export RUN`: all that the store has of a run, for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from torchmark.cli.stores import opened, store_option
from torchmark.errors import InvalidArgumentError
from torchmark.report import run_csv, run_json


@click.command("export")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv"]),
    required=True,
    help="json: every sample, count and output; csv: a line for each result.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file."
)
@store_option
def command(name: str, form: str, output: Path | None, place: str | None) -> None:
    """Write a run as JSON or CSV.

    RUN is an id, the beginning of one, a tag, or `latest`.
    """
    with opened(place) as store:
        run = store.run(name)
        results = store.results(run.id)
    if form == "json":
        text = run_json.render(run, results, samples=True)
    else:
        text = run_csv.render(run, results)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(
            f"{output} cannot be written: {error.strerror}; name another file with -o"
        ) from error
