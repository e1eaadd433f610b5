"""Cores that take times are reserved, so that two runs of one user do not time on the same ones.

A reservation is a lock on a file in the user's cache, and ends with the process that holds it.
Where all cores are taken, or no lock can be had, the run goes on all the same: the metronome shows
that something else used the core, and the results carry that doubt.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchmark.engine.cores import divided
from torchmark.engine.file_locks import is_locked, locked
from torchmark.engine.user_directories import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchmark.engine.cores import Core, Division


@contextmanager
def reserved(cores: Sequence[Core], widest: int) -> Iterator[Division]:
    """The division of these cores, its lanes on cores that nobody else has reserved if possible."""
    folder = cache_directory() / "cores"
    held: list[int] = []
    try:
        with _turn(folder):
            taken = {core.number for core in cores if is_locked(folder / str(core.number))}
            division = divided(cores, widest, taken)
            for number in (number for lane in division.lanes for number in lane):
                descriptor = locked(folder / str(number))
                held += [descriptor] if descriptor is not None else []
        yield division
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One process after the other looks and reserves."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a cache that cannot be written: nobody is asked
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(folder / "turn", os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
