"""Where code, heap and stack lie: alike in two processes, or elsewhere on purpose.

A small op is faster or slower by two to four per cent for the life of a process because of where
the kernel happened to put torch's libraries, and by half a per cent because of where its heap and
its stack lie. None of that is what an A/B comparison asks for.

*Code.* Zygotes that are compared are started without random addresses, and load torch's libraries
before anything that may differ between them: the same library then lies at the same place in both.
Another start has them elsewhere, again in both.

*Heap and stack* differ between any two environments, so every process draws its own.
"""

import contextlib
import ctypes
import functools
import glob
import mmap
import os
import random
from typing import Any, Callable, List

_PAGES = 549
"""Pages by which one layout's libraries lie below those of the one before: 2 MiB, to which the
largest libraries are aligned, and an odd number more, which moves the others."""

_held: List[Any] = []

_ADDR_NO_RANDOMIZE = 0x0040000


def choose(layout: int, torch_file: str) -> None:
    """Let what is mapped from now on lie where this layout has it, torch's libraries first."""
    if layout:
        _held.append(mmap.mmap(-1, layout * _PAGES * mmap.PAGESIZE))
    for extension in glob.glob(os.path.join(os.path.dirname(torch_file), "_C.*so")):
        # A torch that must be imported first cannot be loaded so: its place is left to chance.
        with contextlib.suppress(OSError):
            _held.append(ctypes.CDLL(extension))


def are_fixed() -> bool:
    """Whether the kernel was told to draw no addresses for this process."""
    try:
        with open("/proc/self/personality") as file:
            return bool(int(file.read(), 16) & _ADDR_NO_RANDOMIZE)
    except (OSError, ValueError):
        return False


def move_heap(rng: random.Random) -> None:
    """Take some memory of every small size, and some larger pieces, so that what comes is moved."""
    for size in range(1, 512, 16):
        _held.append([bytes(size) for _ in range(rng.randrange(64))])
    for _ in range(rng.randrange(16)):
        _held.append(bytearray(rng.randrange(1024, 65536)))


def with_moved_stack(rng: random.Random, work: Callable[[], Any]) -> Any:
    """Do the work some calls of C deeper, each of which takes a piece of the stack."""
    return _deeper(rng.randrange(32), work)


def _deeper(calls: int, work: Callable[[], Any]) -> Any:
    if calls == 0:
        return work()
    return functools.reduce(lambda _, __: _deeper(calls - 1, work), (None, None))
