"""Private directories, locks, and runs that are taken.

A lock is held by an open file, so it ends with the process that holds it, also where that one is
killed. A process id would not do: another container may share the directory and not the ids. So
whoever makes a private directory removes those that nobody holds any more. The lock of a run is
known on this machine alone: two machines that share a store do not see each other, and the store
keeps the first result of each case.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchmark.errors import RunInUseError
from torchmark.files import cache_directory, make_folder

_PREFIX = "torchmark-held-"

_locks: dict[Path, int] = {}
"""The descriptors that hold the locks of this process."""


@contextmanager
def private_directory() -> Iterator[Path]:
    """A new directory that is gone after the block."""
    folder = make_private_directory()
    try:
        yield folder
    finally:
        discard(folder)


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
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody holds it, or it is another user's, or a link
            _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


@contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Wait until nobody else holds the lock of a file, which is made, or of a folder.

    False where the file system has no locks (some network file systems): nobody waits there.
    """
    how = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, how, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def take_lock(path: Path) -> int | None:
    """A descriptor that holds the lock of a file until it is closed; None if it cannot be had."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of this file now."""
    if not path.exists():
        return False
    descriptor = take_lock(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


@contextmanager
def own_run(run_id: str) -> Iterator[None]:
    """Hold the run while it is carried out; an error if another process does."""
    check_free(run_id)
    path = _lock_of(run_id)
    with contextlib.suppress(OSError):
        make_folder(path.parent)
    descriptor = take_lock(path)
    try:
        yield
    finally:
        if descriptor is not None:
            path.unlink(missing_ok=True)
            os.close(descriptor)


def is_owned(run_id: str) -> bool:
    """Whether a process of this user carries the run out now, on this machine."""
    return is_locked(_lock_of(run_id))


def check_free(run_id: str) -> None:
    if is_owned(run_id):
        raise RunInUseError(
            f"run {run_id} is being measured by another process; wait until it has ended, "
            "or interrupt it with Ctrl-C"
        )


def _lock_of(run_id: str) -> Path:
    return cache_directory() / "runs" / run_id
