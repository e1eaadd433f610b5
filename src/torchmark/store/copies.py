"""A copy of a SQLite store, put beside it before its tables are changed."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
from typing import TYPE_CHECKING

from torchmark.errors import StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path


def copy_beside(path: Path, version: int) -> Path:
    """The path of a new copy, `store.sqlite3.version-1`; an earlier one is left alone.

    The caller holds the lock of writers, so the copy has what is in the write-ahead log too, and
    nobody else makes one at the same time. A copy that is cut short never has the final name.
    """
    part = path.with_name(f"{path.name}.copying")
    try:
        _discard(part)
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(part)) as target,
        ):
            source.backup(target)
        shutil.copymode(path, part)
        return part.rename(_free_name(path, version))
    except (sqlite3.Error, OSError) as error:
        with contextlib.suppress(OSError):
            _discard(part)
        raise StoreUnavailableError(
            f"the store {path} is of version {version} and is not converted, because it cannot be "
            f"copied first ({error}); make room beside it and let this user write there"
        ) from error


def _discard(part: Path) -> None:
    """With its journal, which SQLite would otherwise apply to the next file of that name."""
    for name in (part.name, f"{part.name}-journal"):
        part.with_name(name).unlink(missing_ok=True)


def _free_name(path: Path, version: int) -> Path:
    first = path.with_name(f"{path.name}.version-{version}")
    others = (first.with_name(f"{first.name}.{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([first], others) if not name.exists())
