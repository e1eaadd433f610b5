"""Where libraries and the heap lie: the same at every start, or elsewhere on purpose.

The kernel draws new addresses at every start of a program, and a small op is faster or slower by
one per cent for the life of a process because of it. Two zygotes that are compared are therefore
started without that, at the same addresses; and at other ones, again for both, after a while.
"""

import mmap
from typing import List

_PAGES = 549
"""Pages by which one layout's libraries lie below those of the one before: 2 MiB, to which the
largest libraries are aligned, and an odd number more, which moves the others."""

_held: List[mmap.mmap] = []

_ADDR_NO_RANDOMIZE = 0x0040000


def move_what_comes(layout: int) -> None:
    """Take a piece of the address space, so that what is mapped from now on lies elsewhere."""
    if layout:
        _held.append(mmap.mmap(-1, layout * _PAGES * mmap.PAGESIZE))


def are_fixed() -> bool:
    """Whether the kernel was told to draw no addresses for this process."""
    try:
        with open("/proc/self/personality") as file:
            return bool(int(file.read(), 16) & _ADDR_NO_RANDOMIZE)
    except (OSError, ValueError):
        return False
