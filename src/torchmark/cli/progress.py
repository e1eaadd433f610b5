"""One line on a terminal that says what goes on, for commands that make no run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from typing import Self


class Progress:
    """The line is gone when it ends, however it ends. A pipe gets nothing, unless lines are
    wanted there too.
    """

    def __init__(self, *, shows_lines: bool = False) -> None:
        self._shows_lines = shows_lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)

    def tell(self, text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{text} …", nl=False, err=True)
        elif self._shows_lines:
            click.echo(text, err=True)
