"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(file: Path, content: bytes) -> None:
    """All of it or nothing, whenever Ctrl-C comes: it gets its name when it is complete.

    A pipe or a device is written as it is: whoever renames a file to it puts an end to it.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    part = file.with_name(f".{file.name}.part{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
