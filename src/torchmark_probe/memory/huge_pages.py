"""The memory that a setup has made, put into huge pages.

Which pages the kernel happens to give to a process decides where its data lies in the caches: ten
processes that copied the same 8 MB took 205 to 237 us, each of them the same time again and again.
In pages of 2 MB process pairs spread less than half as much. Only what the setup made is moved:
what a statement allocates it allocates as always, in other pages at every run.

The kernel does it at once and in place (MADV_COLLAPSE, Linux 6.1 and newer). Where it cannot,
nothing happens.
"""

import ctypes
import re
from typing import List, NamedTuple, Sequence

HUGE_PAGE = 2 << 20
_MADV_COLLAPSE = 25

_MOST = 256 << 20
"""Bytes. What is larger lies in no cache, and moving it takes milliseconds for each page."""

_WRITTEN = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0\b")
"""In /proc/self/maps: what this process may write to, with no file behind it."""

_libc = ctypes.CDLL(None)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Range(NamedTuple):
    """Addresses from `start` on, up to `end`."""

    start: int
    end: int


def memory() -> List[Range]:
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
