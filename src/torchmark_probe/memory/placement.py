"""Where code, heap and stack lie: alike in two processes, or elsewhere on purpose.

A small op is faster or slower by two to four per cent for the life of a process because of where
the kernel happened to put torch's libraries, and by half a per cent because of where its heap and
its stack lie. None of that is what an A/B comparison asks for.

*Code.* Zygotes that are compared are started without random addresses, and load torch's libraries
before anything that may differ between them: the same library then lies at the same place in both.
Another start has them elsewhere, again in both.

*Heap and stack* differ between any two environments, so every process draws its own.

*Huge pages.* Which pages the kernel happens to give to a process decides where its data lies in the
caches: ten processes that copied the same 8 MB took 205 to 237 us, each of them the same time again
and again. In pages of 2 MB process pairs spread less than half as much. Only what the setup made is
moved: what a statement allocates it allocates as always, in other pages at every run. The kernel
does it at once and in place (MADV_COLLAPSE, Linux 6.1 and newer). Where it cannot, nothing happens.
"""

import contextlib
import ctypes
import functools
import glob
import mmap
import os
import random
import re
from typing import Any, Callable, List, NamedTuple, Sequence

_PAGES = 549
"""Pages by which one layout's libraries lie below those of the one before: 2 MiB, to which the
largest libraries are aligned, and an odd number more, which moves the others."""

_held: List[Any] = []

_ADDR_NO_RANDOMIZE = 0x0040000

HUGE_PAGE = 2 << 20
_MADV_COLLAPSE = 25

_MOST = 256 << 20
"""Bytes. What is larger lies in no cache, and moving it takes milliseconds for each page."""

_WRITTEN = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0\b")
"""In /proc/self/maps: what this process may write to, with no file behind it."""

_libc = ctypes.CDLL(None)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


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


class Range(NamedTuple):
    """Addresses from `start` on, up to `end`."""

    start: int
    end: int


def written_memory() -> List[Range]:
    """What this process has for its data, by address."""
    with open("/proc/self/maps") as maps:
        found = [_WRITTEN.match(line) for line in maps]
    return [Range(int(each[1], 16), int(each[2], 16)) for each in found if each]


def collapse(ranges: Sequence[Range]) -> None:
    """Put these into huge pages, as far as they fill such pages and the kernel can."""
    if sum(end - start for start, end in ranges) > _MOST:
        return
    for start, end in ranges:
        first, last = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if first < last:
            _libc.madvise(first, last - first, _MADV_COLLAPSE)


def new_since(before: Sequence[Range], now: Sequence[Range]) -> List[Range]:
    """What of `now` was not there before; both by address, without overlaps.

    >>> new_since([Range(0, 4), Range(8, 12)], [Range(0, 6), Range(7, 16)])
    [Range(start=4, end=6), Range(start=7, end=8), Range(start=12, end=16)]
    """
    new = []
    for each in now:
        start, end = each
        for old in before:
            if old.end <= start or end <= old.start:
                continue
            if start < old.start:
                new.append(Range(start, old.start))
            start = old.end
        if start < end:
            new.append(Range(start, end))
    return new
