"""Where memory lies: alike in two processes that are timed, and the same before every count.

Times. A small op is faster or slower by two to four per cent for the life of a process because of
where the kernel happened to put torch's libraries, and by half a per cent because of where its heap
and its stack lie. None of that is what an A/B comparison asks for.

*Code.* Zygotes that are compared are started without random addresses, and load torch's libraries
before anything that may differ between them: the same library then lies at the same place in both.
Another start has them elsewhere, again in both.

That is where code lies in a process. Where it lies in the machine's memory is decided when the
kernel reads the file, page by page, and stays so until it is read again, perhaps hours later. Two
builds of torch are two sets of files. Read anew, one was slower than the other by 2 per cent or
faster by 6 (a view in C++, 200 ns), and no replicate showed it: each found the files where they
were. So where two builds are compared, every process copies the code that its statement runs into
pages of its own, which lie elsewhere each time, and the mean over processes is over their places.
Huge pages would not spread, and would answer another question: what a build costs because its code
is spread over many pages is a part of what its users pay.

*Heap and stack* lie elsewhere in every process pair, but at like places in both of its processes.
A clone of 8 MB takes 230 or 340 us, by how far its result lies behind its input within a page of
4 KB. Where each process had a place of its own, pairs of clones spread 17 %, and 3 to 7 % where
both have the same; those of a layer norm in 8 MB 1.2 and 0.4 %.

*Huge pages.* Which pages the kernel happens to give to a process decides where its data lies in the
caches: ten processes that copied the same 8 MB took 205 to 237 us, each of them the same time again
and again. In pages of 2 MB process pairs spread less than half as much. What the setup made is
moved there, and what the first runs of the statement got: the C library keeps that for the next
runs. The kernel does it at once and in place (MADV_COLLAPSE, Linux 6.1 and newer). Where it cannot,
nothing happens.

Counts. What an allocation costs depends on what was allocated and freed before, down to the length
of a path or the names of the files in a directory on sys.path. It moved counts by up to 1.3 %, and
it says nothing about the statement. Two allocators are at work.

*Python's* keeps objects of up to 512 bytes in pools, one size to a pool. To free an object of a
full pool, or to take the last place in one, costs more than usual, and a statement may run into
that in each of its runs or in none. So the zygote fills some pools of every size with objects of
its own, and a child frees every other one of them: the pools that were freed into last are the
ones that are used next, and they are far from both full and empty.

*The C library's* keeps what was freed in bins by size, and splits and joins what lies there. So
whatever lies there is taken and never given back, and what comes next is cut in order from a
piece of memory that begins at a page of its own. It also takes shorter ways, in malloc and in
mutexes, until a process has its first thread; a program with torch in it has several.
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
    """The C library's own numbers; the last is the size of what it cuts new pieces from."""

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


_libc = _c_library()

_PAGES = 549
"""Pages by which one layout's libraries lie below those of the one before: 2 MiB, to which the
largest libraries are aligned, and an odd number more, which moves the others."""

_held: List[Any] = []

_ADDR_NO_RANDOMIZE = 0x0040000

HUGE_PAGE = 2 << 20
_MADV_NOHUGEPAGE = 15
_MADV_COLLAPSE = 25

_MAP_FAILED = ctypes.c_void_p(-1).value
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2

_READ = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-(x|-)p \S+ \S+ [1-9]\d* +(/.*)")
"""In /proc/self/maps: what comes from a file and is not written to, and whether it is code."""

_M_TRIM_THRESHOLD = -1
_NEVER_TRIMMED = 1 << 30
"""Bytes at the end of the heap that are kept."""

_MOST_COLLAPSED = 256 << 20
"""Bytes. What is larger lies in no cache, and moving it takes milliseconds for each page."""

_WRITTEN = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0\b")
"""In /proc/self/maps: what this process may write to, with no file behind it."""


def choose_addresses(layout: int, torch_file: str) -> None:
    """Let what is mapped from now on lie where this layout has it, torch's libraries first."""
    if layout:
        _held.append(mmap.mmap(-1, layout * _PAGES * mmap.PAGESIZE))
    for extension in glob.glob(os.path.join(os.path.dirname(torch_file), "_C.*so")):
        # A torch that must be imported first cannot be loaded so: its place is left to chance.
        with contextlib.suppress(OSError):
            _held.append(ctypes.CDLL(extension))


def are_addresses_fixed() -> bool:
    """Whether the kernel was told to draw no addresses for this process."""
    try:
        with open("/proc/self/personality") as file:
            return bool(int(file.read(), 16) & _ADDR_NO_RANDOMIZE)
    except (OSError, ValueError):
        return False


def move_heap(rng: random.Random) -> int:
    """Take some memory of every small size, and some larger pieces, so that what comes is moved.

    Returns where in a page the heap goes on: another process that draws the same has it there too.
    """
    for size in range(1, 512, 16):
        _held.append([bytes(size) for _ in range(rng.randrange(64))])
    for _ in range(rng.randrange(16)):
        _held.append(bytearray(rng.randrange(1024, 65536)))
    place = rng.randrange(0, mmap.PAGESIZE, 16)
    place_heap(place)
    return place


def keep_heap() -> None:
    """Let the C library keep what was freed, and not give the end of the heap back.

    It gives back what is more than twice the largest piece so far, and a run that allocates a few
    pieces then gets their pages again and again: a third of the runs of a backward pass in 2 MB,
    at addresses that change with every run.
    """
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIMMED)


def place_heap(place: int) -> bool:
    """Let the next large piece of memory begin so many bytes behind the start of a page.

    A large piece is the last of all then, and returns to where it was cut from. Something small
    behind it would keep it from being used again, and the heap would grow with every run: the C
    library asks for a little more than it needs, to align it, and keeps the rest in its quickest
    bins. So these are filled, and what is small comes from elsewhere.

    False where the C library does not let that happen: another one, whose ways are not known here,
    or one that something else takes memory away from. `place` is a multiple of 16.
    """
    if not hasattr(_libc, "mallinfo"):
        return False
    _end_heap_at(place)
    small = [_libc.malloc(_PLACING - 8) for _ in range(_PLACED_PIECES)]
    is_placed = _end_heap_at(place)
    for each in small:
        _libc.free(each)
    for size in _CACHED:
        small = [_libc.malloc(size) for _ in range(_QUICKEST)]
        for each in small:
            _libc.free(each)
    return is_placed


def _end_heap_at(place: int) -> bool:
    """Take pieces until the last one, which new ones are cut from, begins there in a page."""
    for _ in repeat(None, _MOST_LARGE):
        # It may come from a bin: the next one then comes from another, or from the last piece.
        _libc.malloc(_PLACING + (place - _end_of_heap()) % mmap.PAGESIZE - 8)
        if _end_of_heap() % mmap.PAGESIZE == place:
            return True
    return False


def _end_of_heap() -> int:
    """Where the last piece of memory begins that new ones are cut from."""
    return int(_libc.sbrk(0) - _libc.mallinfo().keepcost)


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
    if sum(end - start for start, end in ranges) > _MOST_COLLAPSED:
        return
    for start, end in ranges:
        first, last = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if first < last:
            _libc.madvise(first, last - first, _MADV_COLLAPSE)


def copy_code(rng: random.Random) -> None:
    """Put the code that this process has run since its fork, and its constants, into other pages.

    It stays at its addresses; which page it gets is up to chance. Where the kernel or a lack of
    memory is against it, nothing happens.
    """
    try:
        with open("/proc/self/maps") as maps:
            found = [each for each in map(_READ.match, maps) if each]
        programs = {each[4] for each in found if each[3] == "x"}
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            for each in found:
                if each[4] in programs:
                    access = mmap.PROT_READ | (mmap.PROT_EXEC if each[3] == "x" else 0)
                    for part in _used_parts(Range(int(each[1], 16), int(each[2], 16)), pagemap):
                        _copy_in_place(part, access, rng)
    except OSError:
        return


def _used_parts(mapped: Range, pagemap: Any) -> List[Range]:
    """Those pages of it that this process has used; pages in a row are one part."""
    pagemap.seek(mapped.start // mmap.PAGESIZE * 8)
    # The highest bit of each entry of 8 bytes says whether this process has the page.
    states = pagemap.read((mapped.end - mapped.start) // mmap.PAGESIZE * 8)[7::8]
    pages = (each.span() for each in re.finditer(b"[\x80-\xff]+", states))
    return [Range(*(mapped.start + place * mmap.PAGESIZE for place in each)) for each in pages]


def _copy_in_place(part: Range, access: int, rng: random.Random) -> None:
    size = part.end - part.start
    writable, private = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    copy = _libc.mmap(None, size, writable, private, -1, 0)
    if copy == _MAP_FAILED:
        return
    _libc.madvise(copy, size, _MADV_NOHUGEPAGE)
    # A page is given when it is first written to: in order, the next page would often lie next.
    for page in rng.sample(range(0, size, mmap.PAGESIZE), size // mmap.PAGESIZE):
        ctypes.memmove(copy + page, part.start + page, mmap.PAGESIZE)
    moves = _MREMAP_MAYMOVE | _MREMAP_FIXED
    is_allowed = _libc.mprotect(copy, size, access) == 0
    if not is_allowed or _libc.mremap(copy, size, size, moves, part.start) != part.start:
        _libc.munmap(copy, size)


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


_POOL = 16384 if sys.version_info >= (3, 10) else 4096
"""Bytes of a pool of Python's, at a multiple of its size."""

_HEADER = 48
"""Bytes at the beginning of a pool that hold no object."""

_ALIGNMENT = 16
_LARGEST = 512

_ROUNDS = 100
"""How often more objects are made where the pools in use have room for all so far; after
importing torch 2.13 under Python 3.11 one round fills them."""

_OWN_POOLS = 5
"""Pools of each size that a child gets half of: four before the setup, one before the loop."""

_CACHED = tuple(range(1032, 23, -16))
"""Sizes that the C library keeps in its quickest bins."""

_BINNED = tuple(range(32768, 1032, -2048))
"""Larger sizes, coarsely: these are rarely asked for in a loop."""

_PIECE = 96 * 1024
"""Bytes that a loop finds to cut from. What the C library gets at a time is twice that and a
little: the request and 128 KiB."""

_SMALLEST = 4096
"""Bytes that are cut off at least: anything above the sizes of the quickest bins will do."""

_GROWTH = 100_000
"""Below 128 KiB, from where on a request gets pages of its own."""

_MOST = 20_000
"""Pieces of one size that are taken at most, for a C library that works otherwise."""


_PLACING = 64 * 1024
"""Bytes that are taken to move what comes next: more than most of what lies in the bins, and less
than what gets pages of its own."""

_QUICKEST = 7
"""Pieces of one size that the C library keeps in its quickest bins."""

_PLACED_PIECES = 16
"""Of that size, for what is small."""

_MOST_LARGE = 200
"""The same for the large pieces: after importing torch some thirty lie in the bins."""


class Reserve:
    """Objects that are there to be freed: made once in the zygote, freed in a child."""

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
        """To be called last: what is freed after it brings another pool to the front.

        The objects go and the list stays: its own memory would lie in a bin of the C library.
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
    """The pools that hold nothing but these objects, as the places of theirs in the list."""
    by_pool: Dict[int, List[int]] = {}
    for index, thing in enumerate(made):
        by_pool.setdefault(id(thing) // _POOL, []).append(index)
    return [indices for indices in by_pool.values() if len(indices) == places]


def _objects(size: int, count: int) -> List[Any]:
    """Objects of exactly this size, with nothing else allocated between them."""
    if size == 16:
        return list(map(object.__new__, repeat(object, count)))
    if size == 32:
        return list(map(int, repeat("1000000", count)))
    return list(map(bytes, repeat(size - sys.getsizeof(b""), count)))


def have_had_a_thread() -> None:
    """Start a thread that does nothing and wait for it: the C library then forgoes its short ways.

    numpy's BLAS has threads from its import on, autograd from the first backward, so to count
    without them would be to count what no program runs. A fork may begin with none again; where
    the library tells that it does not, the forty milliseconds are saved.
    """
    if _says_that_there_were_threads():
        return
    thread = ctypes.c_size_t()
    body = ctypes.cast(_libc.getpid, ctypes.c_void_p)  # no code of ours: it would need the GIL
    if _libc.pthread_create(ctypes.byref(thread), None, body, None) == 0:
        _libc.pthread_join(thread, None)


def _says_that_there_were_threads() -> bool:
    try:
        return ctypes.c_char.in_dll(_libc, "__libc_single_threaded").value == b"\0"
    except ValueError:  # glibc before 2.32
        return False


def empty_the_bins() -> None:
    """Take all that lies in the C library's bins, and leave one piece of memory to cut from.

    That piece has the same size every time, so it begins at the same place in a page.
    """
    if not hasattr(_libc, "mallinfo"):  # another C library, whose ways are not known here
        return
    start = _cut_to(2 * _PIECE)
    if start == 0:
        return
    for size in _BINNED:
        # The one that is not from a bin goes back to where it was cut off.
        _libc.free(_take_all(size, start))
    for size in _CACHED:
        _take_all(size, start)
    _cut_to(_PIECE)


def _cut_to(wanted: int) -> int:
    """Bring the last piece of memory to the wanted size; where it begins, 0 if it cannot be done.

    Outside valgrind it cannot: there the C library gives the end of that piece back.
    """
    for _ in repeat(None, _MOST_LARGE):
        before = _libc.mallinfo().keepcost
        surplus = before - wanted
        # A request has 8 bytes of bookkeeping before it, and is rounded up to 16.
        address = _libc.malloc(surplus - 8 if surplus >= _SMALLEST else _GROWTH)
        after = _libc.mallinfo().keepcost
        if after == wanted:
            return int(address + surplus)
        if after not in (before, before - _GROWTH - 16):
            # Neither from a bin nor from what was left of the last piece, so it begins a new one;
            # freed, it is a part of it again.
            _libc.free(address)
    return 0


def _take_all(size: int, start: int) -> int:
    """Take pieces of this size until one is cut from the last piece of memory; that one."""
    address = 0
    for _ in repeat(None, _MOST):
        address = int(_libc.malloc(size))
        if start <= address < start + 2 * _PIECE:
            break
    return address
