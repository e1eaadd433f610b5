"""What one process of this user has for itself: cores that take times, and the run it carries out.

A reservation is a lock on a file in the user's cache, held by an open file: it ends with the
process that holds it, and is known on this machine alone. Two machines that share a store do not
see each other; the store then keeps the first result of each case. Where all cores are taken, or no
lock can be had, a run goes on all the same: the reference loop shows that something else used the
core, and the results carry that warning.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchmark.engine.cores import divide_cores
from torchmark.engine.files import cache_directory
from torchmark.errors import RunInUseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchmark.engine.cores import Core, Division


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
def reserve_lanes(cores: Sequence[Core], widest: int) -> Iterator[Division]:
    """Divide these cores; lanes are on cores that nobody else has reserved, if possible."""
    folder = cache_directory() / "cores"
    held: list[int] = []
    try:
        with _one_at_a_time(folder):
            taken = {core.number for core in cores if is_locked(folder / str(core.number))}
            division = divide_cores(cores, widest, taken)
            for number in (number for lane in division.lanes for number in lane):
                descriptor = take_lock(folder / str(number))
                held += [descriptor] if descriptor is not None else []
        yield division
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time look at the locks and take some."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a cache that cannot be written: nobody is asked
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def own_run(run_id: str) -> Iterator[None]:
    """Hold the run while it is carried out; an error if another process does."""
    check_free(run_id)
    path = _lock_of(run_id)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
