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

from torchmark.run.user_directories import cache_directory
from torchmark.runner.cores import divided

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchmark.runner.cores import Core, Division


@contextmanager
def reserved(cores: Sequence[Core], widest: int) -> Iterator[Division]:
    """The division of these cores, its lanes on cores that nobody else has reserved if possible."""
    folder = cache_directory() / "cores"
    held: list[int] = []
    try:
        with _turn(folder):
            taken = {core.number for core in cores if _is_taken(folder, core.number)}
            division = divided(cores, widest, taken)
            for number in (number for lane in division.lanes for number in lane):
                held += _locked(folder, number)
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


def _is_taken(folder: Path, number: int) -> bool:
    descriptors = _locked(folder, number)
    for descriptor in descriptors:
        os.close(descriptor)
    return not descriptors and (folder / str(number)).exists()


def _locked(folder: Path, number: int) -> list[int]:
    """The descriptor that holds the lock of a core; none if somebody else has it."""
    try:
        descriptor = os.open(folder / str(number), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return []
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return []
    return [descriptor]
