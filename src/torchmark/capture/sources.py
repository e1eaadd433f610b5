"""Find the source line of the user that makes a call, such as "train.py:41".

It is the innermost line that is not in torch, torchmark or the standard library. For a model of a
public library, it is a line in the library's model file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from types import FrameType

import torch

Source = tuple[str, int]
"""The shown name of a file, and a line."""

_TORCH_AND_TORCHMARK = (
    f"{Path(torch.__file__).parent}{os.sep}",
    f"{Path(__file__).parents[1]}{os.sep}",
)
_STANDARD = f"{Path(os.__file__).parent}{os.sep}"
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


class SourceLines:
    """Finds the line. The name of each file is computed once."""

    def __init__(self) -> None:
        self._shown: dict[str, str | None] = {}
        """The shown name of each file; None for files that are not the user's."""

    def here(self) -> Source | None:
        """The user's line that this thread runs now."""
        shown = self._shown
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file not in shown:
                shown[file] = show_file(file)
            name = shown[file]
            # Generated code, such as the methods of a dataclass, also has a name like <string>.
            if name and (name[0] != "<" or frame.f_globals.get("__name__") == "__main__"):
                return name, frame.f_lineno
            frame = frame.f_back
        return None


def show_file(file: str) -> str | None:
    """The name of a file without the part that differs between machines; None if not the user's.

    The name is relative to the installed packages, to the working directory, or to the folder that
    the file was imported from. For any other file, it is the last part of the path.
    """
    if file.startswith("<"):
        return None if file.startswith("<frozen ") else file
    if file.startswith(_TORCH_AND_TORCHMARK):
        return None
    for folder in _INSTALLED:
        _, found, inside = file.rpartition(folder)
        if found:
            return inside.replace(os.sep, "/")
    if file.startswith(_STANDARD):
        return None
    with contextlib.suppress(OSError):  # the working directory may be gone
        path = os.path.abspath(file)
        longest_first = sorted(filter(os.path.isabs, sys.path), key=len, reverse=True)
        for folder in (os.getcwd(), *longest_first):
            if path.startswith(os.path.join(folder, "")):
                return os.path.relpath(path, folder).replace(os.sep, "/")
    return os.path.basename(file)
