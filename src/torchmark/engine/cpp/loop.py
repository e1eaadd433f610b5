"""A C++ statement as a loop of Timer: built at its first use, then timed in this process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from torchmark.engine.cpp.build import Built, build
from torchmark.engine.cpp.source import CppStatement
from torchmark_probe.loops.native import WARM_UP_RUNS, NativeLoop
from torchmark_probe.loops.snippets import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.engine.cpp.cache import Cache


class CppLoop:
    """`timeit`, and blocks with their CPU time. The setup runs again for every block.

    The time is that of the loop's own steady clock, unless a clock of another kind is given: one
    that waits for an accelerator, or the user's own. That one is read right outside of the loop.
    """

    def __init__(
        self,
        stmt: str = "",
        setup: str = "",
        global_setup: str = "",
        clock: Callable[[], float] = time.perf_counter,
        cache: Cache | None = None,
    ) -> None:
        self.statement = CppStatement(stmt, setup, global_setup)
        self._clock = None if clock is time.perf_counter else clock
        self._cache = cache
        self._built: Built | None = None
        self._native: NativeLoop | None = None

    @property
    def built(self) -> Built:
        """The library and symbol; compiles at the first use, or raises a CompileError."""
        if self._built is None:
            build_together([self])
        assert self._built is not None
        return self._built

    def timeit(self, number: int) -> float:
        """Run the setup, then the statement `number` times; seconds for all of them."""
        return self.run(number).wall

    def run(self, number: int) -> Block:
        """As `timeit`, with the CPU time of this thread beside it."""
        clock = self._clock or time.perf_counter
        cpu: list[float] = []
        wall: list[float] = []

        def before() -> None:
            cpu.append(time.thread_time())
            wall.append(clock())

        def after() -> None:
            wall.append(clock())
            cpu.append(time.thread_time())

        seconds = self._load().run(number, WARM_UP_RUNS, before, after)
        if self._clock is not None:
            seconds = wall[1] - wall[0]
        return Block(seconds, cpu[1] - cpu[0])

    def setup_seconds(self) -> float:
        """What a block costs before its first run."""
        return self._load().setup_seconds()

    def _load(self) -> NativeLoop:
        if self._native is None:
            self._native = NativeLoop(self.built.library, self.built.symbol)
        return self._native

    def close(self) -> None:
        """Nothing is held between blocks."""


def build_together(loops: Sequence[CppLoop]) -> None:
    """Build the loops that are not yet built as one batch; raise for the first that fails."""
    waiting = [loop for loop in loops if loop._built is None]  # noqa: SLF001 - same module
    if not waiting:
        return
    cache = waiting[0]._cache  # noqa: SLF001
    for loop, result in zip(
        waiting, build([loop.statement for loop in waiting], cache=cache), strict=True
    ):
        if not isinstance(result, Built):
            raise result.error()
        loop._built = result  # noqa: SLF001
