"""A run belongs to the process that carries it out: another may not go on with it or remove it.

The lock is a file in the user's cache, so it is known on this machine alone; two machines that
share a store do not see each other, and the store then keeps the first result of each case.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchmark.engine.file_locks import is_locked, locked
from torchmark.engine.user_directories import cache_directory
from torchmark.errors import RunInUseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def owned(run_id: str) -> Iterator[None]:
    """Hold the run while it is carried out; an error if another process does."""
    check_free(run_id)
    path = _lock_of(run_id)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = locked(path)
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
