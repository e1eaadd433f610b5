"""Where memory lies: alike in two real zygotes of one layout, elsewhere in those of another."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import light_torch
from tests.engine.zygote_cases import case
from torchmark.engine.environments import activate_environment
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark_probe import memory
from torchmark_probe.memory import (
    HUGE_PAGE,
    Range,
    collapse,
    empty_the_bins,
    new_since,
    written_memory,
)

MAPS = case("print(open('/proc/self/maps').read())")


def libraries(zygote: Zygote) -> dict[str, int]:
    """Where each of torch's libraries begins."""
    places: dict[str, int] = {}
    for line in zygote.run(MAPS).stdout.splitlines():
        found = re.match(r"([0-9a-f]+)-.* (/\S*/torch/\S+\.so\S*)$", line)
        if found:
            places.setdefault(os.path.basename(found[2]), int(found[1], 16))
    return places


@pytest.fixture(scope="module")
def layouts() -> dict[str, dict[str, int]]:
    """Two starts of one layout, of which one has more variables, and one of another layout."""
    found = {}
    for name, layout, variables in (
        ("one", 1, {}),
        ("with variables", 1, {"SOMETHING": "x" * 1000, "PYTHONPATH": "/nowhere/at/all"}),
        ("other layout", 2, {}),
    ):
        with Zygote(Launch(layout=layout, environment=tuple(variables.items()))) as zygote:
            assert zygote.start()["fixed_addresses"], "this machine lets us choose"
            found[name] = libraries(zygote)
    return found


def test_libraries_lie_at_the_same_places_whatever_the_variables(
    layouts: dict[str, dict[str, int]],
) -> None:
    assert {"libtorch_cpu.so", "libtorch_python.so", "libc10.so"} <= layouts["one"].keys()
    assert layouts["one"] == layouts["with variables"]


def test_another_layout_has_every_one_of_them_elsewhere(
    layouts: dict[str, dict[str, int]],
) -> None:
    one, other = layouts["one"], layouts["other layout"]
    assert one.keys() == other.keys()
    # This one has no code, and finds room in the same hole.
    same = {name for name in one if one[name] == other[name]} - {"libtorch_global_deps.so"}
    assert same == set()


@pytest.mark.parametrize(("layout", "fixed"), [(None, False), (0, True)])
def test_without_a_layout_the_kernel_draws(
    tmp_path: Path, layout: int | None, *, fixed: bool
) -> None:
    light = activate_environment("A", light_torch.put_into(tmp_path))
    with Zygote(Launch(interpreter=light.interpreter, layout=layout)) as zygote:
        assert zygote.start()["fixed_addresses"] is fixed


def moved(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sizes of all that is taken from the heap by this seed."""
    held: list[list[bytes] | bytearray] = []
    monkeypatch.setattr(memory, "_held", held)
    memory.move_heap(random.Random(seed))
    return [[len(each)] if isinstance(each, bytearray) else list(map(len, each)) for each in held]


def test_a_seed_moves_the_heap_and_another_moves_it_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, again, other = (moved(seed, monkeypatch) for seed in (1, 1, 2))
    assert one == again != other
    small = {size for sizes in one for size in sizes if size < 512}
    assert len(small) > 20, "of nearly every size for which Python has its own places"
    assert max(map(max, filter(None, one))) > 1024


_PLACED = """
import ctypes, random
from torchmark_probe import memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_size_t
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_size_t]
kept = [libc.malloc(size) for size in range(1024, 200_000, 4096)]
for address in kept[::2]:  # what lies in the bins is not what comes next
    libc.free(address)
LARGE = 8_000_000
libc.free(libc.malloc(2 * LARGE))  # from now on so large a piece is cut from the heap
for seed in range(20):
    place = memory.move_heap(random.Random(seed))
    assert place % 16 == 0 and 0 <= place < 4096
    large = libc.malloc(LARGE)
    assert (large - 16) % 4096 == place, (seed, place)
    libc.free(large)
    assert memory.place_heap(48)
    aligned = ctypes.c_size_t()
    seen = set()
    for _ in range(50):  # as torch asks for it: what is left over is small, and is freed
        assert libc.posix_memalign(ctypes.byref(aligned), 64, LARGE) == 0
        seen.add(aligned.value)
        libc.free(aligned.value)
    assert len(seen) <= 2, "it returns to where it was, so the heap does not grow"
    assert any((each - 64) % 4096 == 0 for each in seen)
"""


def test_large_pieces_begin_where_a_seed_has_them_whatever_was_allocated_before() -> None:
    """Of glibc, whose pieces have 16 bytes of bookkeeping before them."""
    subprocess.run([sys.executable, "-c", _PLACED], check=True)


_KEPT = """
import ctypes
from torchmark_probe import memory

libc = memory.libc
PIECE = 4_000_000
libc.free(libc.malloc(PIECE + 100_000))  # from now on so large a piece is cut from the heap

def shrinks():
    pieces = [libc.malloc(PIECE) for _ in range(5)]
    full = libc.sbrk(0)
    for piece in reversed(pieces):
        libc.free(piece)
    return libc.sbrk(0) < full

assert shrinks(), "as the C library does by itself"
memory.keep_heap()
assert not shrinks()
"""


def test_a_heap_that_is_kept_does_not_shrink() -> None:
    """Of glibc."""
    subprocess.run([sys.executable, "-c", _KEPT], check=True)


def depth() -> int:
    frame = sys._getframe()
    count = 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_the_stack_is_moved_by_what_is_drawn_and_the_result_comes_back() -> None:
    depths = [memory.with_moved_stack(random.Random(seed), depth) for seed in range(20)]
    assert len(set(depths)) > 10
    again = [memory.with_moved_stack(random.Random(seed), depth) for seed in range(20)]
    assert depths == again


def test_what_the_work_raises_passes_through_and_it_runs_once() -> None:
    runs = []

    def work() -> None:
        runs.append(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        memory.with_moved_stack(random.Random(1), work)
    assert runs == [1]


def test_a_torch_without_a_library_is_left_to_itself() -> None:
    memory.choose_addresses(0, "/nowhere/torch/__init__.py")


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
    monkeypatch.setattr(memory, "libc", libc)
    page = HUGE_PAGE
    collapse([Range(page - 1, 3 * page + 1), Range(5 * page + 1, 7 * page - 1)])
    assert libc.asked == [(page, 2 * page)]


def test_more_than_any_cache_holds_is_left_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = Advised()
    monkeypatch.setattr(memory, "libc", libc)
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
    before = written_memory()
    with mmap.mmap(-1, 8 * MEGABYTE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as made:
        made.write(bytes(range(256)) * (8 * MEGABYTE // 256))
        view = (ctypes.c_char * len(made)).from_buffer(made)
        address = ctypes.addressof(view) + 4 * MEGABYTE
        collapse(new_since(before, written_memory()))
        assert huge_bytes(Path("/proc/self/smaps").read_text(), address) >= 4 * MEGABYTE
        assert made[:] == bytes(range(256)) * (8 * MEGABYTE // 256)
        del view


_HALF_TAKEN = """
import sys
from torchmark_probe.memory import _POOL, Reserve

reserve = Reserve()
pools = {id(thing) // _POOL for thing in reserve._before_loop}
lengths = [size - sys.getsizeof(b"") for size in range(48, 513, 16)]
reserve.free_before_setup()
reserve.free_before_loop()
made = list(map(bytes, lengths))  # with nothing freed in between
assert len(pools) == 32
assert all(id(thing) // _POOL in pools for thing in made)
"""


def test_what_is_freed_last_is_where_the_next_objects_lie() -> None:
    subprocess.run([sys.executable, "-c", _HALF_TAKEN], check=True)


def test_emptying_the_bins_harms_nobody() -> None:
    for _ in range(3):
        empty_the_bins()
    assert bytearray(100_000) == bytes(100_000)


_SINGLE = "import ctypes; seen = ctypes.c_char.in_dll(ctypes.CDLL(None), '__libc_single_threaded')"


def test_the_c_library_takes_no_short_ways_after_a_thread() -> None:
    script = f"""
from torchmark_probe.memory import have_had_a_thread
{_SINGLE}
assert seen.value == b"\\x01"
have_had_a_thread()
assert seen.value == b"\\x00"
"""
    subprocess.run([sys.executable, "-c", script], check=True)
