"""What a setup made is put into huge pages, and nothing else."""

from __future__ import annotations

import ctypes
import mmap
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from torchmark_probe.memory import huge_pages
from torchmark_probe.memory.huge_pages import HUGE_PAGE, Range, collapse, memory, new_since

if TYPE_CHECKING:
    import pytest

MEGABYTE = 1 << 20


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    """By address, without overlaps."""
    bounds = sorted(draw(st.sets(st.integers(0, 40), max_size=10)))
    return [Range(*pair) for pair in zip(bounds[::2], bounds[1::2], strict=False)]


def addresses(of: list[Range]) -> list[int]:
    return [address for start, end in of for address in range(start, end)]


@given(before=ranges(), now=ranges())
def test_what_is_new_is_what_was_not_there_before(before: list[Range], now: list[Range]) -> None:
    assert addresses(new_since(before, now)) == sorted(set(addresses(now)) - set(addresses(before)))


class Advised:
    """Takes the place of libc, and notes what the kernel is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def madvise(self, start: int, length: int, advice: int) -> int:
        assert advice == 25, "MADV_COLLAPSE"
        self.asked.append((start, length))
        return -1


def test_only_whole_pages_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = Advised()
    monkeypatch.setattr(huge_pages, "_libc", libc)
    page = HUGE_PAGE
    collapse([Range(page - 1, 3 * page + 1), Range(5 * page + 1, 7 * page - 1)])
    assert libc.asked == [(page, 2 * page)]


def test_more_than_any_cache_holds_is_left_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = Advised()
    monkeypatch.setattr(huge_pages, "_libc", libc)
    collapse([Range(0, 200 * MEGABYTE), Range(300 * MEGABYTE, 400 * MEGABYTE)])
    assert libc.asked == []


def huge_bytes(maps: str, address: int) -> int:
    """Of the mapping at this address, by what the kernel says of it."""
    for mapping in re.split(r"^(?=[0-9a-f]+-)", maps, flags=re.MULTILINE):
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", mapping)
        if bounds and int(bounds[1], 16) <= address < int(bounds[2], 16):
            huge = re.search(r"AnonHugePages:\s+(\d+) kB", mapping)
            assert huge is not None
            return 1024 * int(huge[1])
    raise AssertionError(f"nothing is mapped at {address:#x}")


def test_new_memory_is_huge_afterwards_and_holds_what_it_held() -> None:
    """On the kernels that can (Linux 6.1 and newer): CI's is one."""
    before = memory()
    with mmap.mmap(-1, 8 * MEGABYTE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as made:
        made.write(bytes(range(256)) * (8 * MEGABYTE // 256))
        view = (ctypes.c_char * len(made)).from_buffer(made)
        address = ctypes.addressof(view) + 4 * MEGABYTE
        collapse(new_since(before, memory()))
        assert huge_bytes(Path("/proc/self/smaps").read_text(), address) >= 4 * MEGABYTE
        assert made[:] == bytes(range(256)) * (8 * MEGABYTE // 256)
        del view
