"""The suites that are meant where none is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
