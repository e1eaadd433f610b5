"""What the commands that read the store share: the option that names it, and how it is opened."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchmark.settings import settings_for
from torchmark.store import open_store

if TYPE_CHECKING:
    from torchmark.store import Store

_NARROWEST, _WIDEST = 60, 140
"""Columns between which a table reads well."""

store_option = click.option(
    "--store",
    "place",
    metavar="URL",
    help="A file or URL; otherwise that of the settings, or the user's own.",
)


def opened(place: str | None) -> Store:
    """The store that the option names, or the settings of this directory, or the user's own."""
    named = place if place is not None else settings_for(Path.cwd()).store
    return open_store(named, create=named is None)


def columns() -> int:
    """The width of the terminal; 80 where the output goes elsewhere."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return 80
    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
