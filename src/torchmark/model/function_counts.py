"""Instructions by function, with operators on them: `+ - *`, filter, transform and others.

Interface, order and printed text are the same as those of `torch.utils.benchmark.FunctionCounts`.

`denoise` removes Python's lookups of names in dictionaries, as torch's does. torch searches for
`dictobject.c:lookdict_unicode`, which is the name of the loop up to CPython 3.10, and removes
nothing on later versions. This module knows the names of the loop in CPython 3.8 to 3.14, with and
without debug symbols.

`without_layout` removes instructions whose number depends on memory addresses and not on the work:

*Dictionary probing.* The positions of entries in a dictionary depend on the hash seed and on
addresses, so the number of probes differs between runs of the same code. On CPython 3.8, 3.11 and
3.13 with other seeds and environments (11 to 14 million instructions), at least 85 % of the
difference was in the probing loops.

*Misses of the type attribute cache.* Which attributes share an entry of this cache depends on the
addresses of their names. Another version of torchmark's probe changed `BatchNorm2d` by 2.9 %,
nearly all of it in the search after a miss (`find_name_in_mro`). The cache lookup itself
(`_PyType_Lookup`) stays, because it is part of the measured work.

*Bookkeeping of the C library.* Which freed chunk an allocation gets, how chunks are split and
merged, and the padding to an alignment of 64 depend on all that the process did before. Between
torch's counting process and torchmark's, this changed `torch.cat` of two small tensors by 2 %;
without it ten statements agree within 0.4 %. `malloc`, `free` and `posix_memalign` themselves
stay, so an additional allocation still shows.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex, overload

from torchmark.errors import MixedCountsError

_LINE_WIDTH = 80
"""torch's default, for a process in which torch is not loaded."""

_SHORTEST_NAME = 40
"""Minimum width of a function's name, even if the line is narrow."""

_ROWS_SHOWN = 9
"""Rows at the top and at the bottom of a long table."""

_TORCHS_NOISE = r"(?:dictobject\.c|^\?{3}):lookdict_unicode"
"""Up to CPython 3.10. As in torch, code that is inlined from another file stays
(`eq.h:lookdict_unicode`). Without debug symbols the file is `???`."""

_LOOKUPS_OF_NAMES = (
    r"_Py_dict_lookup\w*",  # 3.11 on, where the next is inlined; 3.13 adds _threadsafe and others
    r"unicodekeys_lookup_unicode\w*",
    r"dictkeys_string_?lookup\w*",
    r"_PyDictKeys_StringLookup\w*",  # 3.11 on; 3.14 adds AndVersion and Split
)

_PROBING_LOOPS = (
    *_LOOKUPS_OF_NAMES,
    r"lookdict\w*",  # 3.8 to 3.10: lookdict, _unicode, _split; later _index
    r"unicodekeys_lookup_\w+",  # 3.11 on: _generic; later _split and _threadsafe
    r"dictkeys_generic_?lookup\w*",  # 3.10 on, where the compiler did not inline it
    r"find_empty_slot",  # every version: the same loop, for a key that is new
)

_MISSED_TYPE_CACHE = (
    r"find_name_in_mro",
    r"assign_version_tag",
)

_BOOKKEEPING = (
    r"_int_(?:malloc|free|realloc|memalign)\w*",  # 2.40 has more: _int_free_merge_chunk and others
    r"unlink_chunk",
    r"malloc_consolidate",
    r"sysmalloc\w*",
    r"systrim",
)


def _any_of(names: Iterable[str]) -> str:
    return (
        # One colon before the name: `space::lookdict` is a user's C++ and not CPython.
        rf"(?:^|[^:]):(?:{'|'.join(names)})"
        # What compilers (`.constprop.0`), callgrind (`'2`) and callgrind_annotate (` [lib.so]`)
        # append.
        r"(?:\.\w+)*(?:'\d+)?(?: \[.*\])?$"
    )


_NOISE = re.compile(f"{_TORCHS_NOISE}|{_any_of(_LOOKUPS_OF_NAMES)}")
_LAYOUT = re.compile(_any_of((*_PROBING_LOOPS, *_MISSED_TYPE_CACHE, *_BOOKKEEPING)))


class FunctionCount(NamedTuple):
    """One function and its instructions."""

    count: int  # type: ignore[assignment] # torch's name; it hides tuple.count
    """Instructions; may be negative in a difference."""

    function: str
    """`file:function [object]`, or the name that a transform returned."""


@dataclass(frozen=True, repr=False)
class FunctionCounts:
    """Counts by function, largest first.

    >>> counts = FunctionCounts((FunctionCount(30, "a.c:f"), FunctionCount(12, "b.c:g")), False)
    >>> (counts - counts.filter(lambda name: name.endswith("g"))).sum()
    30
    >>> counts[0].function, len(counts[1:])
    ('a.c:f', 1)
    """

    _data: tuple[FunctionCount, ...]

    inclusive: bool
    """Whether counts include the callees of each function."""

    truncate_rows: bool = True
    """Whether the printed table leaves out the middle of a long list."""

    _linewidth: int | None = None
    """Width of the printed table; None uses the line width that torch prints tensors with."""

    def __iter__(self) -> Iterator[FunctionCount]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    @overload
    def __getitem__(self, item: SupportsIndex) -> FunctionCount: ...

    @overload
    def __getitem__(self, item: slice) -> FunctionCounts: ...

    def __getitem__(self, item: SupportsIndex | slice) -> FunctionCount | FunctionCounts:
        """An entry, or the FunctionCounts of a slice, which is printed in full."""
        if isinstance(item, slice):
            return FunctionCounts(self._data[item], self.inclusive, truncate_rows=False)
        return self._data[item]

    def __add__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, 1)

    def __sub__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, -1)

    def __mul__(self, other: float) -> FunctionCounts:
        """Multiply each count and truncate it to an integer, for example to get counts per run."""
        if not isinstance(other, (int, float)):
            return NotImplemented
        products = {name: int(count * other) for count, name in self}
        return counts_of(((count, name) for name, count in products.items()), self.inclusive)

    def filter(self, filter_fn: Callable[[str], bool]) -> FunctionCounts:
        """The entries whose name satisfies `filter_fn`."""
        return FunctionCounts(
            tuple(each for each in self if filter_fn(each.function)), self.inclusive
        )

    def transform(self, map_fn: Callable[[str], str]) -> FunctionCounts:
        """Rename the functions with `map_fn`; counts of equal names are added up."""
        return counts_of(((count, map_fn(name)) for count, name in self), self.inclusive)

    def sum(self) -> int:
        """The total number of instructions; not meaningful for inclusive counts."""
        return sum(count for count, _ in self)

    def denoise(self) -> FunctionCounts:
        """The counts without Python's lookups of names, as in torch; C++ functions all stay.

        >>> noisy = FunctionCount(7, "Objects/dictobject.c:unicodekeys_lookup_unicode [libpython]")
        >>> FunctionCounts((noisy, FunctionCount(5, "a.c:f")), False).denoise().sum()
        5
        """
        return self.filter(lambda name: _NOISE.search(name) is None)

    def without_layout(self) -> FunctionCounts:
        """The counts without functions whose count depends on memory addresses.

        The docstring of this module lists these functions and says why.

        >>> noisy = FunctionCount(7, "malloc/malloc.c:_int_malloc [libc.so.6]")
        >>> FunctionCounts((noisy, FunctionCount(5, "a.c:f")), False).without_layout().sum()
        5
        """
        return self.filter(lambda name: _LAYOUT.search(name) is None)

    def _merge(self, other: FunctionCounts, sign: int) -> FunctionCounts:
        if not isinstance(other, FunctionCounts):
            return NotImplemented
        if self.inclusive != other.inclusive:
            raise MixedCountsError(
                "inclusive and exclusive counts cannot be added or subtracted; "
                "take both from stats(inclusive=True) or both from stats()"
            )
        signed = [(sign * count, name) for count, name in other]
        return counts_of([*self, *signed], self.inclusive)

    def __repr__(self) -> str:
        # torch adds a column for a minus sign that len() already counts; the text must be equal.
        width = max((len(str(count)) + (count < 0) for count, _ in self), default=0)
        room = max((self._linewidth or _line_width()) - width - 4, _SHORTEST_NAME)
        lines = [f"  {count:>{width}}  {_shortened(name, room)}" for count, name in self]
        if self.truncate_rows and len(lines) > 2 * _ROWS_SHOWN:
            lines[_ROWS_SHOWN:-_ROWS_SHOWN] = ["...".rjust(width + 2)]
        if not self.inclusive:
            lines += ["", f"Total: {self.sum()}"]
        return "\n".join([object.__repr__(self), *lines])


def counts_of(counts: Iterable[tuple[int, str]], inclusive: bool) -> FunctionCounts:
    """Add up counts by name, largest first, without zeros."""
    sums: dict[str, int] = defaultdict(int)
    for count, name in counts:
        sums[name] += count
    entries = (FunctionCount(count, name) for name, count in sums.items() if count)
    return FunctionCounts(tuple(sorted(entries, reverse=True)), inclusive)


def _shortened(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    left = (room - 5) // 2
    return f"{name[:left]} ... {name[-(room - left - 5) :]}"


def _line_width() -> int:
    """The line width that torch prints with, without importing torch."""
    torch: Any = sys.modules.get("torch")
    options = getattr(getattr(torch, "_tensor_str", None), "PRINT_OPTS", None)
    return int(getattr(options, "linewidth", _LINE_WIDTH))
