"""`torchmark show RUN`: what the command that made the run printed, in any format."""

from __future__ import annotations

import sys
from typing import Any

import click

from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.files import written
from torchmark.cli.following import files_in, with_outputs
from torchmark.cli.stores import columns, opened, store_option
from torchmark.report import render


@click.command("show")
@click.argument("name", metavar="[RUN]", default="latest")
@store_option
@with_outputs
def command(name: str, place: str | None, **arguments: Any) -> None:
    """Show a run of any kind again, or write it in other formats.

    RUN is an id, the beginning of one, a tag, or `latest`. Without a file to write, the report is
    printed as the command that made the run printed it.

    \b
    torchmark show
    torchmark show 20261117 --html run.html --csv run.csv
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    files = files_in(arguments)
    with opened(place) as store:
        run = store.run(name)
    if not any(files.values()):
        click.echo(render(run, "text", width=columns()), nl=False)
        return
    if not written(files, lambda form: render(run, form), remedy=lambda _: "name another file"):
        sys.exit(ExitCode.ENVIRONMENT)
