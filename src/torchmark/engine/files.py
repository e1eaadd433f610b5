"""Private directories, file locks, and locks on runs.

A lock is held by an open file, so it ends with its process, even if the process is killed. Process
ids are not used, because another container may share the directory but not the ids. Creating a
private directory removes abandoned ones that nobody holds. The lock on a run only works on this
machine: two machines that share a store do not see each other's locks, and the store keeps the
first result of each case.
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
"""The file descriptors that hold the locks of this process."""


@contextmanager
def private_directory() -> Iterator[Path]:
    """Create a directory that is removed after the block."""
    folder = make_private_directory()
    try:
        yield folder
    finally:
        discard(folder)


def make_private_directory() -> Path:
    """Create a private directory; the caller must pass it to `discard` in the end."""
    _remove_abandoned()
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Until it is locked it looks abandoned, and another thread or process may remove it.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):  # a file system without locks: use it unlocked
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                _locks[path] = descriptor
                return path
            os.close(descriptor)


def discard(path: Path) -> None:
    """Remove a directory and everything in it."""
    shutil.rmtree(path, ignore_errors=True)
    descriptor = _locks.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is held, belongs to another user, or is a link
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
    """Wait for the lock of a folder, or of a file, which is created if it is missing.

    Yield False without waiting if the file system has no locks (some network file systems).
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
    """Return a descriptor that holds the file's lock until it is closed; None if it is taken."""
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
    """Whether a process holds the lock of this file."""
    if not path.exists():
        return False
    descriptor = take_lock(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


@contextmanager
def own_run(run_id: str) -> Iterator[None]:
    """Hold the lock of the run during the block; raise if another process holds it."""
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
    """Whether a process of this user on this machine is measuring the run."""
    return is_locked(_lock_of(run_id))


def check_free(run_id: str) -> None:
    if is_owned(run_id):
        raise RunInUseError(
            f"run {run_id} is being measured by another process; wait until it ends, "
            "or interrupt it with Ctrl-C"
        )


def _lock_of(run_id: str) -> Path:
    return cache_directory() / "runs" / run_id
