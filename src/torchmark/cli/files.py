"""Files that a command is asked to write: looked at before the work, written after it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchmark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


STANDARD_OUTPUT = Path("-")
"""What stands for standard output in place of a file."""


def check_writable(files: Iterable[Path | None]) -> None:
    """A run of minutes must not end in a file name that does not work."""
    for file in filter(None, files):
        if file == STANDARD_OUTPUT:
            continue
        place = file if file.exists() else file.absolute().parent
        if not file.name or file.is_dir() or not os.access(place, os.W_OK):
            raise InvalidArgumentError(f"{file} cannot be written; is its folder there?")


def written(
    files: Mapping[str, Path | None],
    render: Callable[[str], str],
    *,
    remedy: Callable[[str], str],
) -> bool:
    """Write the documents by the names of their forms, each as far as possible; whether all are.

    `remedy` says how to get one that could not be written.
    """
    wrote_all = True
    for form, file in files.items():
        if file is None:
            continue
        if file == STANDARD_OUTPUT:
            click.echo(render(form), nl=False)
            continue
        try:
            file.write_text(render(form), encoding="utf-8")
        except OSError as error:
            wrote_all = False
            click.echo(
                f"torchmark: {file} cannot be written: {error.strerror}; {remedy(form)}", err=True
            )
    return wrote_all
