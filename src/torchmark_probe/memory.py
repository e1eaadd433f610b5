"""Controls memory layout: similar in two processes that are timed, equal before every count.

Times. A small op is faster or slower by 2 to 4 % for the life of a process because of where the
kernel happened to map torch's libraries, and by 0.5 % because of where its heap and its stack lie.
An A/B comparison should not measure any of that.

*Code.* Zygotes that are compared are started without random addresses, and load torch's libraries
before anything that may differ between them. So a library lies at the same address in both. Another
start uses other addresses, again the same in both.

*Heap and stack* lie elsewhere in every process pair, but at corresponding places in both of its
processes. A clone of 8 MB takes 230 or 340 us, depending on the offset of its result from its input
within a page of 4 KB. With independent places, pairs of clones spread 17 %; with equal places, they
spread 3 to 7 %. Pairs of a layer norm in 8 MB spread 1.2 and 0.4 %.

*Huge pages.* The pages that the kernel happens to give to a process decide where its data lies in
the caches: ten processes that copied the same 8 MB took 205 to 237 us, and each repeated its own
time. With pages of 2 MB, process pairs spread less than half as much. So the memory from the setup
is moved to such pages, and so is the memory that the first runs of the statement got, which the C
library keeps for the next runs. The kernel does it immediately and in place (MADV_COLLAPSE, Linux
6.1 and newer). If it cannot, nothing happens.

Counts. The cost of an allocation depends on what was allocated and freed before, even on the length
of a path or the names of the files in a directory on sys.path. This changed counts by up to 1.3 %,
which has nothing to do with the statement. Two allocators are involved.

*Python's* keeps objects of up to 512 bytes in pools, one size per pool. Freeing an object of a full
pool, or taking the last place in one, costs more than usual. A statement may do that in each of its
runs or in none. So the zygote fills some pools of every size with its own objects, and a child
frees every other one of them. The pools in which something was freed last are used next, and they
are far from both full and empty.

*The C library's* keeps freed memory in bins by size, and splits and joins it there. So everything
in the bins is taken and never given back, and later allocations are cut in order from one piece of
memory that begins at a page. The C library also uses faster paths in malloc and in mutexes until a
process has its first thread; a program that uses torch has several.
"""

import contextlib
import ctypes
import functools
import glob
import mmap
import os
import random
import re
import sys
from itertools import repeat
from typing import Any, Callable, Dict, List, NamedTuple, Sequence


class _Mallinfo(ctypes.Structure):
    """The C library's figures; the last is the size of the piece that it cuts new pieces from."""

    _fields_ = [(name, ctypes.c_int) for name in "abcdefghi"] + [("keepcost", ctypes.c_int)]


def _c_library() -> Any:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_size_t
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.restype = None
    libc.free.argtypes = [ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mremap.restype = ctypes.c_void_p
    libc.mremap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 2, ctypes.c_int, ctypes.c_void_p]
    libc.sbrk.restype = ctypes.c_size_t
    libc.sbrk.argtypes = [ctypes.c_ssize_t]
    if hasattr(libc, "mallinfo"):
        libc.mallinfo.restype = _Mallinfo
        libc.mallinfo.argtypes = []
    return libc


libc = _c_library()

_PAGES = 549
"""Pages by which the libraries move down from one layout to the next: 2 MiB, to which the largest
libraries are aligned, plus an odd number, which moves the others."""

_held: List[Any] = []

_ADDR_NO_RANDOMIZE = 0x0040000

HUGE_PAGE = 2 << 20
_MADV_COLLAPSE = 25

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_NEVER_TRIMMED = 1 << 30
"""Bytes at the end of the heap that are not returned."""

_LARGEST_IN_HEAP = 32 << 20
"""Bytes of a piece; the C library's maximum. Larger pieces are mapped separately."""

_MOST_COLLAPSED = 256 << 20
"""Bytes. Larger ranges do not fit into any cache, and moving them takes milliseconds per page."""

_WRITTEN = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0\b")
"""In /proc/self/maps: ranges that this process can write to and that have no file."""


def choose_addresses(layout: int, torch_file: str) -> None:
    """Choose the addresses of later mappings by this layout; torch's libraries come first."""
    if layout:
        _held.append(mmap.mmap(-1, layout * _PAGES * mmap.PAGESIZE))
    for extension in glob.glob(os.path.join(os.path.dirname(torch_file), "_C.*so")):
        # A torch that must be imported first cannot be loaded this way: its address stays random.
        with contextlib.suppress(OSError):
            _held.append(ctypes.CDLL(extension))


def are_addresses_fixed() -> bool:
    """Whether the kernel was told not to choose random addresses for this process."""
    try:
        with open("/proc/self/personality") as file:
            return bool(int(file.read(), 16) & _ADDR_NO_RANDOMIZE)
    except (OSError, ValueError):
        return False


def move_heap(rng: random.Random) -> int:
    """Take some memory of every small size, and some larger pieces, to move what comes later.

    Returns the offset in a page at which the heap continues. Another process that draws the same
    numbers can place its heap there too.
    """
    for size in range(1, 512, 16):
        _held.append([bytes(size) for _ in range(rng.randrange(64))])
    for _ in range(rng.randrange(16)):
        _held.append(bytearray(rng.randrange(1024, 65536)))
    place = rng.randrange(0, mmap.PAGESIZE, 16)
    place_heap(place)
    return place


def keep_heap() -> None:
    """Let the C library keep freed memory and not return the end of the heap to the kernel.

    By default it returns more than twice the largest piece so far, and a run that allocates a few
    pieces gets their pages again and again. This happened in a third of the runs of a backward pass
    in 2 MB, at addresses that change with every run.
    """
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIMMED)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_IN_HEAP)


def place_heap(place: int) -> bool:
    """Let the next large piece of memory begin this many bytes after the start of a page.

    A large piece is then the last of all, and returns to where it was cut from. A small piece after
    it would prevent its reuse, and the heap would grow with every run: the C library asks for
    slightly more than it needs, to align it, and keeps the rest in its fastest bins. So these bins
    are filled, and small pieces come from elsewhere.

    Returns False if the C library does not allow it: an unknown one, or one from which other code
    takes memory at the same time. `place` is a multiple of 16.
    """
    if not hasattr(libc, "mallinfo"):
        return False
    _end_heap_at(place)
    small = [libc.malloc(_PLACING - 8) for _ in range(_PLACED_PIECES)]
    is_placed = _end_heap_at(place)
    for each in small:
        libc.free(each)
    for size in _CACHED:
        small = [libc.malloc(size) for _ in range(_QUICKEST)]
        for each in small:
            libc.free(each)
    return is_placed


def _end_heap_at(place: int) -> bool:
    """Take pieces until the last one, which new ones are cut from, begins there in a page."""
    for _ in repeat(None, _MOST_LARGE):
        # It may come from a bin: then the next one comes from another bin, or from the last piece.
        libc.malloc(_PLACING + (place - end_of_heap()) % mmap.PAGESIZE - 8)
        if end_of_heap() % mmap.PAGESIZE == place:
            return True
    return False


def end_of_heap() -> int:
    """Return where the last piece of memory begins, from which new ones are cut."""
    return int(libc.sbrk(0) - libc.mallinfo().keepcost)


def with_moved_stack(rng: random.Random, work: Callable[[], Any]) -> Any:
    """Do the work some C calls deeper, each of which takes a piece of the stack."""
    return _deeper(rng.randrange(32), work)


def _deeper(calls: int, work: Callable[[], Any]) -> Any:
    if calls == 0:
        return work()
    return functools.reduce(lambda _, __: _deeper(calls - 1, work), (None, None))


class Range(NamedTuple):
    """Addresses from `start` up to, but not including, `end`."""

    start: int
    end: int


def written_memory() -> List[Range]:
    """Return the memory for this process's data, by address."""
    with open("/proc/self/maps") as maps:
        found = [_WRITTEN.match(line) for line in maps]
    return [Range(int(each[1], 16), int(each[2], 16)) for each in found if each]


def collapse(ranges: Sequence[Range]) -> None:
    """Move these ranges to huge pages, if they fill such pages and the kernel can do it."""
    if sum(end - start for start, end in ranges) > _MOST_COLLAPSED:
        return
    for start, end in ranges:
        first, last = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if first < last:
            libc.madvise(first, last - first, _MADV_COLLAPSE)


def new_since(before: Sequence[Range], now: Sequence[Range]) -> List[Range]:
    """Return the parts of `now` that `before` lacks; both are ordered, without overlaps.

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


_POOL = 16384 if sys.version_info >= (3, 10) else 4096
"""Bytes of a pool of Python's allocator, which is aligned to its size."""

_HEADER = 48
"""Bytes at the beginning of a pool that contain no object."""

_ALIGNMENT = 16
_LARGEST = 512

_ROUNDS = 100
"""How many times more objects are made if the existing pools have room for all so far. After
importing torch 2.13 in Python 3.11, once is enough."""

_OWN_POOLS = 5
"""Pools of each size of which a child gets half: four before the setup, one before the loop."""

_CACHED = tuple(range(1032, 23, -16))
"""Sizes that the C library keeps in its fastest bins."""

_BINNED = tuple(range(32768, 1032, -2048))
"""Larger sizes, in coarse steps, because loops rarely allocate them."""

_PIECE = 96 * 1024
"""Bytes of the piece that a loop's allocations are cut from. The C library gets slightly more than
twice as much at a time: the request and 128 KiB."""

_SMALLEST = 4096
"""Minimum bytes to cut off: anything above the sizes of the fastest bins will do."""

_GROWTH = 100_000
"""Below 128 KiB; larger requests are mapped separately."""

_MOST = 20_000
"""Maximum number of pieces of one size to take, in case a C library works differently."""


_PLACING = 64 * 1024
"""Bytes to take to move later pieces: more than most pieces in the bins, and less than pieces that
are mapped separately."""

_QUICKEST = 7
"""Pieces of one size that the C library keeps in its fastest bins."""

_PLACED_PIECES = 16
"""Number of pieces of that size to keep for small allocations."""

_MOST_LARGE = 200
"""Maximum number of large pieces to take; after importing torch about thirty lie in the bins."""


class Reserve:
    """Objects to be freed later: made once in the zygote, freed in a child."""

    def __init__(self) -> None:
        self._kept: List[Any] = []
        self._before_setup: List[Any] = []
        self._before_loop: List[Any] = []
        for size in range(_ALIGNMENT, _LARGEST + 1, _ALIGNMENT):
            self._fill(size)
        self._nothing = [None] * len(self._before_loop)

    def free_before_setup(self) -> None:
        self._before_setup.clear()

    def free_before_loop(self) -> None:
        """Free objects right before the loop; freeing anything later would reorder the pools.

        The list itself is kept: its own memory would go into a bin of the C library.
        """
        self._before_loop[:] = self._nothing

    def _fill(self, size: int) -> None:
        places = (_POOL - _HEADER) // size
        for _ in range(_ROUNDS):
            made = _objects(size, (_OWN_POOLS + 2) * places)
            self._kept.append(made)
            own = _whole_pools(made, places)[-_OWN_POOLS:]
            if len(own) == _OWN_POOLS:
                break
        for number, indices in enumerate(own):
            freed = self._before_loop if number == len(own) - 1 else self._before_setup
            for index in indices[::2]:
                freed.append(made[index])
                made[index] = None


def _whole_pools(made: List[Any], places: int) -> List[List[int]]:
    """Return pools that contain only these objects, as lists of indexes into `made`."""
    by_pool: Dict[int, List[int]] = {}
    for index, thing in enumerate(made):
        by_pool.setdefault(id(thing) // _POOL, []).append(index)
    return [indices for indices in by_pool.values() if len(indices) == places]


def _objects(size: int, count: int) -> List[Any]:
    """Make objects of exactly this size, without allocating anything else between them."""
    if size == 16:
        return list(map(object.__new__, repeat(object, count)))
    if size == 32:
        return list(map(int, repeat("1000000", count)))
    return list(map(bytes, repeat(size - sys.getsizeof(b""), count)))


def have_had_a_thread() -> None:
    """Start a thread that does nothing and wait for it; the C library then avoids its fast paths.

    numpy's BLAS has threads after its import, and autograd after the first backward pass, so counts
    without threads would not represent real programs. A forked process may have no threads again.
    If the library says that it still avoids the fast paths, this saves 40 ms.
    """
    if _says_that_there_were_threads():
        return
    thread = ctypes.c_size_t()
    body = ctypes.cast(libc.getpid, ctypes.c_void_p)  # no Python code, which would need the GIL
    if libc.pthread_create(ctypes.byref(thread), None, body, None) == 0:
        libc.pthread_join(thread, None)


def _says_that_there_were_threads() -> bool:
    try:
        return ctypes.c_char.in_dll(libc, "__libc_single_threaded").value == b"\0"
    except ValueError:  # glibc before 2.32
        return False


def empty_the_bins() -> None:
    """Take everything from the C library's bins, and leave one piece of memory to cut from.

    That piece always has the same size, so it begins at the same place in a page.
    """
    if not hasattr(libc, "mallinfo"):  # an unknown C library
        return
    start = _cut_to(2 * _PIECE)
    if start == 0:
        return
    for size in _BINNED:
        # The piece that is not from a bin returns to where it was cut from.
        libc.free(_take_all(size, start))
    for size in _CACHED:
        _take_all(size, start)
    _cut_to(_PIECE)


def _cut_to(wanted: int) -> int:
    """Bring the last piece of memory to this size; return its address, 0 if that fails.

    It fails outside of valgrind: there the C library returns the end of that piece to the kernel.
    """
    for _ in repeat(None, _MOST_LARGE):
        before = libc.mallinfo().keepcost
        surplus = before - wanted
        # A request has 8 bytes of bookkeeping, and is rounded up to a multiple of 16.
        address = libc.malloc(surplus - 8 if surplus >= _SMALLEST else _GROWTH)
        after = libc.mallinfo().keepcost
        if after == wanted:
            return int(address + surplus)
        if after not in (before, before - _GROWTH - 16):
            # It comes neither from a bin nor from the rest of the last piece, so it begins a new
            # one; when freed, it becomes part of it again.
            libc.free(address)
    return 0


def _take_all(size: int, start: int) -> int:
    """Take pieces of this size until one is cut from the last piece of memory; return that one."""
    address = 0
    for _ in repeat(None, _MOST):
        address = int(libc.malloc(size))
        if start <= address < start + 2 * _PIECE:
            break
    return address
