"""One line on a terminal that says what goes on; elsewhere nothing."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


class Progress:
    """The line is gone when it ends, however it ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._show("")

    def tell(self, stage: str) -> None:
        self._show(f"{stage} …")

    @contextlib.contextmanager
    def stage(self, text: str) -> Iterator[None]:
        self.tell(text)
        yield

    def _show(self, line: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{line}", nl=False, err=True)
