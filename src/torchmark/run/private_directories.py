"""Directories for what passes between processes, readable by this user alone.

Each has the number of its process in its name. A process that is killed cannot clean up after
itself, so the next one that makes a directory removes those whose process is gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

_NAME = re.compile(r"torchmark-(\d+)-")


def private_directory() -> Path:
    """A new one; whoever asks for it removes it in the end."""
    _remove_those_of_the_dead()
    return Path(tempfile.mkdtemp(prefix=f"torchmark-{os.getpid()}-"))


def _remove_those_of_the_dead() -> None:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            found = _NAME.match(entry.name)
            if found is None or os.path.exists(f"/proc/{found[1]}"):
                continue
            with contextlib.suppress(OSError):  # somebody else removed it just now
                is_ours = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
                if is_ours and entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
