"""`torchmark export RUN`: a run for other programs, or as a document, on standard output."""

from __future__ import annotations

from pathlib import Path

import click

from torchmark.cli.stores import opened, store_option
from torchmark.errors import InvalidArgumentError
from torchmark.report import FORMATS, render


@click.command("export")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="json: every sample, count and output; csv: a line for each result; html: one page.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of standard output.",
)
@store_option
def command(name: str, form: str, output: Path | None, place: str | None) -> None:
    """Write a run of any kind as JSON, CSV, Markdown, text or an HTML page.

    RUN is an id, the beginning of one, a tag, or `latest`.
    """
    with opened(place) as store:
        text = render(store.run(name), form)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(
            f"{output} cannot be written: {error.strerror}; name another file with -o"
        ) from error
