"""Which physical pages the code and data of a process lie in, at unchanged addresses.

A processor cache finds data by its physical address, so the pages that the kernel happens to give
to a process decide how well its data fits. That is chance, not what a comparison should measure,
and it stays the same as long as the pages do. So the pages are exchanged: the time of a process is
then a mean over many placements.

*Data.* A clone of 200 KB differs between processes by 3 % (standard deviation of process pairs;
the rounds of a pair would explain 0.3 %). So between blocks the data of a statement is moved to
other pages, repeatedly: what its variables contain, and the free memory that its results are taken
from. With that, pairs spread 0.6 to 1.0 %. Data much larger than a core's own cache is not moved:
moving it took long and did not help.

*Code.* The kernel decides page by page where the code of a library lies when it reads the file. The
pages stay until the file is read again, perhaps hours later. Two builds of torch are two sets of
files. After reading them again, one was between 2 % slower and 6 % faster than the other (a view in
C++, 200 ns), and no replicate showed this, because each found the files in the same pages. So to
compare two builds, every process copies the code that its statement runs into new pages. Huge pages
would answer another question: the cost of code that is spread over many pages is part of what a
build costs its users.
"""

import contextlib
import ctypes
import gc
import mmap
import os
import random
import re
import resource
import time
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Set

from torchmark_probe.memory import Range, end_of_heap, libc, written_memory

_LEAST_MOVED = 8 * mmap.PAGESIZE
"""Bytes. Smaller tensors lie in the first-level cache, which finds data by its virtual address."""


def _own_cache() -> int:
    """Bytes of the second-level cache, which each core has; a typical size if unknown."""
    try:
        return os.sysconf("SC_LEVEL2_CACHE_SIZE") or _USUAL_CACHE
    except (ValueError, OSError):
        return _USUAL_CACHE


_USUAL_CACHE = 1 << 20

_MOST_MOVED = 2 * _own_cache()
"""Maximum bytes that a statement uses. Pages do not fill a cache evenly: with a cache of 2 MB,
process pairs of `add` in 0.7 to 1.1 MB spread 8 % without moving, and 1 to 1.6 % with it."""

_SHARE = 0.25
"""The share of a process's time that moving may take. With 0.4 instead of 0.15, process pairs of
`add` spread 1.0 instead of 1.5 %; those of other statements spread the same."""

_MOST_RUNS = 5
_FEW_FAULTS = 4
"""After its data was moved, a statement runs until it gets fewer new pages than this, but at most
this many times. A backward pass uses other free memory in each run. With a single run its blocks
had page faults, and its process pairs spread twice as much as without moving anything."""

_MOST_OBJECTS = 20_000
"""Number of objects that are searched for tensors; each takes a fraction of a microsecond."""

_NO_DATA = (ModuleType, type, FunctionType, BuiltinFunctionType, str, bytes, int, float)
"""Types whose objects lead to the whole interpreter, but not to data of the statement."""

_WRITABLE = mmap.PROT_READ | mmap.PROT_WRITE
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_MAP_FAILED = ctypes.c_void_p(-1).value
_MADV_DONTNEED, _MADV_NOHUGEPAGE = 4, 15
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2

_READ = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-(x|-)p \S+ \S+ [1-9]\d* +(/.*)")
"""In /proc/self/maps: read-only file mappings, and whether they contain code."""


class DataMover:
    """Moves the data of a statement to other pages, as often as its share of the time allows."""

    def __init__(
        self,
        held: Sequence[object],
        torch: Any,
        rng: random.Random,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`held` leads to the statement's variables. Nothing is moved before `start`."""
        self._tensors = tensor_memory(held, torch)
        """They are kept alive: the memory of a dropped tensor would belong to somebody else."""
        self._rng = rng
        self._clock = clock
        self._due = float("inf")
        self.is_small = False
        """Whether the caches of a core are large enough for the data; known after `start`."""

    def start(self, run: Callable[[], object]) -> None:
        """Move the data once and run the statement; continue moving only if that is useful."""
        size = sum(end - start for start, end in self._tensor_pages())
        if size > _MOST_MOVED or not hasattr(libc, "mallinfo"):
            return
        size += self._move(run) * mmap.PAGESIZE
        self.is_small = size <= _MOST_MOVED
        if size < _LEAST_MOVED or not self.is_small:
            self._due = float("inf")

    def move_if_due(self, run: Callable[[], object]) -> None:
        """Move the data if the last move was long enough ago, and run the statement."""
        if self._clock() >= self._due:
            self._move(run)

    def _move(self, run: Callable[[], object]) -> int:
        """Move the data; return the number of pages that the run got for its results."""
        begun = self._clock()
        free = _take_free_memory()
        for start, end in map(_whole_pages, free):
            libc.madvise(start, end - start, _MADV_DONTNEED)
        # The kernel first hands out what was freed last. Some of it is held for now, so that the
        # same pages are not returned.
        held_size = self._rng.randrange(mmap.PAGESIZE, 2 * _MOST_MOVED)
        held = _new_pages(held_size)
        if held:
            ctypes.memset(held, 0, held_size)
        for each in self._tensor_pages():
            _copy_in_place(each, _WRITABLE, self._rng)
        for each in free:
            libc.free(each.start)
        got = _run_until_settled(run)
        if held:
            libc.munmap(held, held_size)
        now = self._clock()
        self._due = now + (now - begun) * (1 / _SHARE - 1)
        return got

    def _tensor_pages(self) -> List[Range]:
        """The pages of tensors that have not moved: a resized one has other memory."""
        return [each.pages for each in self._tensors if each.storage.data_ptr() == each.address]


def _run_until_settled(run: Callable[[], object]) -> int:
    """Run until the statement gets no new pages; return how many it got."""
    start = page_faults()
    for _ in range(_MOST_RUNS):
        before = page_faults()
        run()
        if page_faults() - before < _FEW_FAULTS:
            break
    return page_faults() - start


def page_faults() -> int:
    """Return the number of page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _take_free_memory() -> List[Range]:
    """Take the large free blocks that the C library would hand out next.

    Nothing else can use them until they are freed.
    """
    taken: List[Range] = []
    end, size = end_of_heap(), _MOST_MOVED
    while size >= _LEAST_MOVED:
        piece = int(libc.malloc(size))
        if piece:
            taken.append(Range(piece, piece + size))
        if not 0 < piece < end:  # no bin has such a piece any more: this one is from the end
            size //= 2
    return taken


class TensorMemory(NamedTuple):
    """The memory of a tensor."""

    storage: Any
    """The storage that owns it."""

    address: int
    pages: Range
    """Whole pages, which contain nothing else."""


def tensor_memory(held: Sequence[object], torch: Any) -> List[TensorMemory]:
    """Return the memory of the tensors that these objects lead to.

    Only private memory of this process is included: no files, and nothing that is shared. Empty if
    an accelerator is in use, because it may write to host memory too.
    """
    cuda = getattr(torch, "cuda", None)
    is_initialized = getattr(cuda, "is_initialized", None)
    if is_initialized is None or is_initialized():
        return []
    found: Dict[int, TensorMemory] = {}
    for tensor in _tensors_of(held, torch):
        with contextlib.suppress(Exception):  # tensors without memory raise various exceptions
            is_new = hasattr(tensor, "untyped_storage")  # torch 2.0
            whole = tensor.untyped_storage() if is_new else tensor.storage()
            start, size = whole.data_ptr(), len(whole) * whole.element_size()
            found[start] = TensorMemory(whole, start, _whole_pages(Range(start, start + size)))
    own = _joined(written_memory())
    return [
        each
        for _, each in sorted(found.items())
        if each.pages.end - each.pages.start >= _LEAST_MOVED
        and any(part.start <= each.pages.start and each.pages.end <= part.end for part in own)
    ]


def _joined(ranges: Sequence[Range]) -> List[Range]:
    """Merge ranges that touch; they are ordered by address.

    >>> _joined([Range(0, 4), Range(4, 6), Range(8, 9)])
    [Range(start=0, end=6), Range(start=8, end=9)]
    """
    joined: List[Range] = []
    for each in ranges:
        if joined and joined[-1].end == each.start:
            joined[-1] = Range(joined[-1].start, each.end)
        else:
            joined.append(each)
    return joined


def _tensors_of(held: Sequence[object], torch: Any) -> List[Any]:
    tensors: List[Any] = []
    seen: Set[int] = set()
    waiting = list(held)
    while waiting and len(seen) < _MOST_OBJECTS:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _NO_DATA):
            continue
        seen.add(id(each))
        if type(each) in (torch.Tensor, torch.nn.Parameter):
            tensors.append(each)
        waiting += gc.get_referents(each)
    return tensors


def _whole_pages(part: Range) -> Range:
    start, end = -(-part.start // mmap.PAGESIZE), part.end // mmap.PAGESIZE
    return Range(start * mmap.PAGESIZE, max(start, end) * mmap.PAGESIZE)


def copy_code(rng: random.Random) -> None:
    """Copy the code that this process has run since its fork, and its constants, to other pages.

    The addresses do not change; the new pages are random. If the kernel or a lack of memory
    prevents this, nothing happens.
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
    """Return those pages that this process has used; consecutive pages form one range."""
    pagemap.seek(mapped.start // mmap.PAGESIZE * 8)
    # The highest bit of each 8-byte entry says whether this process has the page.
    states = pagemap.read((mapped.end - mapped.start) // mmap.PAGESIZE * 8)[7::8]
    pages = (each.span() for each in re.finditer(b"[\x80-\xff]+", states))
    return [Range(*(mapped.start + place * mmap.PAGESIZE for place in each)) for each in pages]


def _copy_in_place(part: Range, access: int, rng: random.Random) -> None:
    size = part.end - part.start
    copy = _new_pages(size)
    if not copy:
        return
    # A page is assigned when it is first written: in order, they would often be consecutive.
    for page in rng.sample(range(0, size, mmap.PAGESIZE), size // mmap.PAGESIZE):
        ctypes.memmove(copy + page, part.start + page, mmap.PAGESIZE)
    moves = _MREMAP_MAYMOVE | _MREMAP_FIXED
    is_allowed = libc.mprotect(copy, size, access) == 0
    if not is_allowed or libc.mremap(copy, size, size, moves, part.start) != part.start:
        libc.munmap(copy, size)


def _new_pages(size: int) -> int:
    """Return the address of this many bytes in small pages; 0 if there are none."""
    address = libc.mmap(None, size, _WRITABLE, _PRIVATE, -1, 0)
    if address == _MAP_FAILED:
        return 0
    libc.madvise(address, size, _MADV_NOHUGEPAGE)
    return int(address)
