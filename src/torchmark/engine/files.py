"""Files and directories of this user: the cache, private directories, and writes that are whole.

Whoever makes a private directory holds a lock on it. A process that is killed cannot clean up after
itself, but its locks go with it, so the next process that makes a directory removes those that
nobody holds. A process id would not do: another container may share the directory and not the ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """The directory, which need not exist; below nowhere for a user without a home."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root if os.path.isabs(root) else os.devnull) / "torchmark"


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


_PREFIX = "torchmark-held-"

_locks: dict[Path, int] = {}
"""The descriptors that hold the locks of this process."""


def make_private_directory() -> Path:
    """A new one; whoever asks for it gives it to `discard` in the end."""
    _remove_abandoned()
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Until it is locked it looks abandoned, and another thread or process may remove it.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):  # a file system without locks: it is simply kept
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                _locks[path] = descriptor
                return path
            os.close(descriptor)


def discard(path: Path) -> None:
    """Remove a directory with all that is in it."""
    shutil.rmtree(path, ignore_errors=True)
    descriptor = _locks.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


def _remove_abandoned() -> None:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):  # somebody holds it, or it is another user's
                    _remove_if_free(entry.path)


def _remove_if_free(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
