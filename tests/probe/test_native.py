"""Compiled statements whose setup serves many blocks, by the real compiler, without torch."""

from __future__ import annotations

import ctypes
import mmap
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.light_cpp import compile_light
from torchmark.engine.cpp.source import CppStatement
from torchmark_probe.loops.native import NativeLoop
from torchmark_probe.memory import with_moved_stack

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from torchmark_probe.zygote.messages import NativeCase

    Loops: TypeAlias = Callable[[str], NativeLoop]
    Counts: TypeAlias = Callable[[], tuple[int, int, int]]

_COUNTED = """
#include <cstdint>
static int64_t setups, alive, runs;
struct Counted { Counted() { ++setups; ++alive; } ~Counted() { --alive; } };
#define READ(name) \\
  __attribute__((visibility("default"))) int64_t name(int what) asm(#name); \\
  int64_t name(int what) { return what == 0 ? setups : what == 1 ? alive : runs; }
"""
"""How often the setup has run, how many of its variables are there, how often the statement ran."""

_THROWING = "#include <cstdint>\n#include <stdexcept>\n#include <string>\n"

STATEMENTS = {
    "counts": CppStatement("++runs;", "Counted counted;", f"{_COUNTED}READ(read_counts)"),
    "fails late": CppStatement(
        'if (++runs % 10 == 0) throw std::runtime_error("run " + std::to_string(runs));',
        "Counted counted;",
        f"{_THROWING}{_COUNTED}READ(read_fails_late)",
    ),
    "fails in setup": CppStatement("", 'throw std::runtime_error("no setup");', _THROWING),
    "breaks": CppStatement("if (++own > 3) break;", "int own = 0;"),
    "tells its stack": CppStatement(
        "throw std::runtime_error(std::to_string(reinterpret_cast<uintptr_t>(&own)));",
        "volatile char own = 0;",
        _THROWING,
    ),
    "recurses": CppStatement(
        "down(own);",
        "volatile int own = 1;",
        "__attribute__((noinline)) int down(volatile int& n) {"
        " volatile char piece[1000] = {}; return n ? down(n) + piece[0] : 0; }",
    ),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NativeCase]:
    folder = tmp_path_factory.mktemp("native")
    return dict(zip(STATEMENTS, compile_light(folder, list(STATEMENTS.values())), strict=True))


@pytest.fixture
def loop_of(built: dict[str, NativeCase]) -> Loops:
    return lambda name: NativeLoop(str(built[name].library), built[name].symbol)


def counts_of(built: NativeCase, symbol: str) -> Counts:
    """What happens from now on: setups, variables that are there, runs."""
    read = getattr(ctypes.CDLL(str(built.library)), symbol)
    read.restype = ctypes.c_int64
    before = [read(what) for what in range(3)]
    return lambda: (read(0) - before[0], read(1) - before[1], read(2) - before[2])


@pytest.fixture
def counts(built: dict[str, NativeCase]) -> Counts:
    return counts_of(built["counts"], "read_counts")


def test_one_setup_serves_all_blocks_and_its_variables_live_until_the_end(
    loop_of: Loops, counts: Counts
) -> None:
    with closing(loop_of("counts").blocks()) as blocks:
        assert counts() == (1, 1, 0)
        for number in (1, 10, 0, 1000):
            assert blocks.run(number).wall >= 0
        assert counts() == (1, 1, 1011)
    assert counts() == (1, 0, 1011)


def test_the_warm_up_belongs_to_the_setup(loop_of: Loops, counts: Counts) -> None:
    with closing(loop_of("counts").blocks(warmup=3)) as blocks:
        assert counts() == (1, 1, 3)
        blocks.run(2)
    assert counts() == (1, 0, 5)


def test_two_of_one_statement_are_open_at_once_and_end_in_any_order(
    loop_of: Loops, counts: Counts
) -> None:
    loop = loop_of("counts")
    first, second = loop.blocks(), loop.blocks()
    for _ in range(3):
        first.run(1)
        second.run(10)
    assert counts() == (2, 2, 33)
    first.close()
    second.run(1)
    assert counts() == (2, 1, 34)
    second.close()
    second.close()
    assert counts() == (2, 0, 34)


def test_a_whole_run_beside_open_blocks_has_a_setup_of_its_own(
    loop_of: Loops, counts: Counts
) -> None:
    loop = loop_of("counts")
    with closing(loop.blocks()) as blocks:
        loop.run(5, 1)
        blocks.run(1)
        assert counts() == (2, 1, 7)


def test_what_a_statement_throws_in_a_later_block_is_an_error_and_its_variables_are_gone(
    built: dict[str, NativeCase], loop_of: Loops
) -> None:
    counts = counts_of(built["fails late"], "read_fails_late")
    with closing(loop_of("fails late").blocks()) as blocks:
        for _ in range(2):
            blocks.run(4)
        with pytest.raises(RuntimeError, match="run 10"):
            blocks.run(4)
        assert counts() == (1, 0, 10)
        with pytest.raises(RuntimeError, match="run 10"):
            blocks.run(1)
        assert counts() == (1, 0, 10), "it is over"


def test_what_a_setup_throws_is_an_error(loop_of: Loops) -> None:
    with pytest.raises(RuntimeError, match="no setup"):
        loop_of("fails in setup").blocks()


def test_a_break_in_a_later_block_is_an_error(loop_of: Loops) -> None:
    with closing(loop_of("breaks").blocks()) as blocks:
        blocks.run(3)
        with pytest.raises(RuntimeError, match="left its loop with break"):
            blocks.run(3)


def test_a_block_has_its_time_on_the_wall_and_of_its_thread(loop_of: Loops) -> None:
    with closing(loop_of("counts").blocks()) as blocks:
        start, cpu_start = time.perf_counter(), time.thread_time()
        block = blocks.run(10**6)
        assert 0 < block.wall <= time.perf_counter() - start
        assert 0 < block.cpu <= time.thread_time() - cpu_start


def test_another_clock_is_read_right_outside_of_each_block(loop_of: Loops, counts: Counts) -> None:
    readings: list[int] = []

    def clock() -> float:
        readings.append(counts()[2])
        return float(len(readings) ** 2)

    with closing(loop_of("counts").blocks(1, clock)) as blocks:
        assert blocks.run(7).wall == 3.0
    assert readings == [1, 8]


def test_the_stack_moves_with_that_of_the_caller(loop_of: Loops) -> None:
    """A place in a page is what it is moved by: both lie at the same, a fixed piece apart."""

    class Calls:
        """As many more calls in C as the test says."""

        def __init__(self, calls: int) -> None:
            self._calls = calls

        def randrange(self, most: int) -> int:
            assert self._calls < most
            return self._calls

    def place() -> int:
        with closing(loop_of("tells its stack").blocks()) as blocks:
            with pytest.raises(RuntimeError) as caught:
                blocks.run(1)
            return int(str(caught.value)) % mmap.PAGESIZE

    def moved_by(calls: int) -> int:
        rng: random.Random = Calls(calls)  # type: ignore[assignment]
        return int(with_moved_stack(rng, place))

    # All from one line: once torch.compile was used, a comprehension is a call in C too.
    *places, third_again = [moved_by(calls) for calls in (*range(8), 3)]
    steps = {(one - next_one) % mmap.PAGESIZE for one, next_one in pairwise(places)}
    assert len(steps) == 1
    assert 0 not in steps
    assert third_again == places[3]


_PROGRAM = """
    import sys
    from torchmark_probe.loops.native import NativeLoop
    blocks = NativeLoop(*sys.argv[1:]).blocks()
    blocks.run(3)
    print("done", flush=True)
"""


def run_in_a_process(native: NativeCase) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), native.library, native.symbol],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_process_ends_well_with_blocks_that_nobody_has_closed(
    built: dict[str, NativeCase],
) -> None:
    done = run_in_a_process(built["counts"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_recursion_without_end_crashes_and_writes_over_nothing(
    built: dict[str, NativeCase],
) -> None:
    done = run_in_a_process(built["recurses"])
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "")
