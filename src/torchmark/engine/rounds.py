"""Samples statements in rounds in this process and returns their measurements."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple, Protocol

from torchmark.engine.cpp.build import CppLoop, build_together
from torchmark.engine.pace import process_reference_loop, remember_pace
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import TaskSpec
from torchmark.model.measurement import Measurement
from torchmark_probe.loops.clocks import ClockFacts, StoppedClockError, clock_facts
from torchmark_probe.loops.native import NativeBlocks
from torchmark_probe.loops.sampling import Limits, sample
from torchmark_probe.loops.snippets import Block, Blocks, PythonLoop, garbage_collection_off


class Loop(Protocol):
    """The part of `timeit.Timer` that every loop provides."""

    def timeit(self, number: int) -> float:
        """Return the seconds for `number` runs of the statement, without the setup."""


class Task(NamedTuple):
    """A statement that is ready to be sampled."""

    spec: TaskSpec
    loop: Loop
    clock: Callable[[], float]


class _BlocksByTimeit:
    """Blocks from a loop that only has `timeit`: a fake, or a user's `_timer_cls`.

    The setup runs again for every block.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def run(self, number: int) -> Block:
        cpu = time.thread_time()
        wall = self._loop.timeit(number)
        return Block(wall, time.thread_time() - cpu)

    def close(self) -> None:
        """Nothing is held between blocks."""


def measure_in_rounds(
    tasks: Sequence[Task], limits: Limits, rng: random.Random
) -> list[Measurement]:
    """Return one measurement for each task, all sampled in the same rounds."""
    with garbage_collection_off(), ExitStack() as stack:  # a setup may switch garbage collection
        build_together([task.loop for task in tasks if isinstance(task.loop, CppLoop)])
        facts = [_facts_of(task) for task in tasks]
        clock = ClockFacts(
            resolution=max(fact.resolution for fact in facts), cost=max(fact.cost for fact in facts)
        )
        started = [stack.enter_context(closing(_start(task.loop))) for task in tasks]
        reference = process_reference_loop()
        samplings = sample(started, limits, rng, clock, reference)
        remember_pace(reference.quiet_pace)
    return [
        Measurement.from_sampling(task.spec, sampling)
        for task, sampling in zip(tasks, samplings, strict=True)
    ]


def time_blocks(loop: Loop, number: int, blocks: int) -> list[float]:
    """Return the seconds of several blocks, which share one setup if the loop supports it."""
    with garbage_collection_off(), closing(_start(loop)) as started:
        return [started.run(number).wall for _ in range(blocks)]


def _start(loop: Loop) -> Blocks | NativeBlocks | _BlocksByTimeit:
    # A subclass may define its own `timeit`, which must then be called.
    if type(loop) is PythonLoop or isinstance(loop, CppLoop):
        return loop.blocks()
    return _BlocksByTimeit(loop)


def _facts_of(task: Task) -> ClockFacts:
    # The steady clock of a C++ loop is the clock behind `time.perf_counter`.
    if not isinstance(task.loop, (PythonLoop, CppLoop)):
        return ClockFacts(resolution=0.0, cost=0.0)
    try:
        return clock_facts(task.clock)
    except StoppedClockError:
        raise InvalidArgumentError(
            f"the clock {task.clock!r} does not advance; timer= must return increasing seconds"
        ) from None
