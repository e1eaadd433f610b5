"""`torchmark schema`: the form of the JSON that torchmark writes, for programs that read it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from torchmark.errors import InvalidArgumentError
from torchmark.model.codec import json_schema


@click.command("schema")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of standard output.",
)
def command(output: Path | None) -> None:
    """Print the JSON Schema of runs, results, measurements and instruction counts."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(
            f"{output} cannot be written: {error.strerror}; name another file with -o"
        ) from error
