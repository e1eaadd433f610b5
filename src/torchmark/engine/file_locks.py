"""Locks that say who has something: held by an open file, gone with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def locked(path: Path) -> int | None:
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
    descriptor = locked(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None
