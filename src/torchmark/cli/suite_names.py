"""The suites that are meant where none is named, and what lies beside those that are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.settings import Settings

_SHIPPED = ("standard",)


def default_suites(settings: Settings) -> tuple[str, ...]:
    """Those of the settings, whose paths start from their file; otherwise the one that ships."""
    if settings.file is None or not settings.suites:
        return _SHIPPED
    folder = settings.file.parent
    return tuple(
        str(folder / name) if (folder / name).exists() else name for name in settings.suites
    )


def let_cases_import_what_lies_beside(suites: Sequence[str]) -> None:
    """A setup may import a file beside its suite; children look where this process does.

    A trace has no setups of its own: what lies beside it is not for them.
    """
    for path in map(Path, suites):
        if path.is_dir() or (path.exists() and path.suffix == ".py"):
            sys.path.append(str((path if path.is_dir() else path.parent).resolve()))
