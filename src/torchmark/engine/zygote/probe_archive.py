"""The probe as one zip file that any Python can run.

Nothing is installed in an environment under test, and nothing is written there: a zygote reads
the file from memory. Its bytes are the same wherever it is built.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.abc import Traversable

_ENTRY = b"""\
import os
from torchmark_probe.__main__ import main
main()
os._exit(0)
"""


@cache
def archive_bytes() -> bytes:
    """The zip file's bytes: sorted names, one date for all, and no compression.

    Under valgrind the inflating of a few kilobytes would be felt.
    """
    files = dict(_sources_in(resources.files("torchmark_probe"), "torchmark_probe"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**files, "__main__.py": _ENTRY}.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def _sources_in(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Every module below the folder, but for the backport, which no zygote runs."""
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_file() and entry.name.endswith(".py"):
            yield path, entry.read_bytes()
        elif entry.is_dir() and entry.name not in {"backport", "__pycache__"}:
            yield from _sources_in(entry, path)
