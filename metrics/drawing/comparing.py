"""A rough look at the ratio of B to A, by plain loops: whether an injection does what it says."""

from __future__ import annotations

import random
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from drawing.children import run_in_child
from drawing.fitting import time_here
from torchmark_probe.loops.snippets import PythonLoop, garbage_collection_off

if TYPE_CHECKING:
    from drawing.op import Op

PROCESSES = 10
"""Where memory lies differs from process to process and can change a ratio by some per cent."""

BLOCK_SECONDS = 500e-6

MOST_SECONDS = 60.0
"""Of a process."""


def compare(op: Op, more: float, seconds: float) -> tuple[float, float]:
    """The median of ten ratios and its standard error, after so many seconds of A and of B."""
    look = compare_processes if op.rows else compare_within
    ratios = [look(op, more, seconds / PROCESSES, number) for number in range(PROCESSES)]
    return statistics.median(ratios), 1.25 * statistics.stdev(ratios) / len(ratios) ** 0.5


def compare_processes(op: Op, more: float, seconds: float, number: int) -> float:
    """The ratio of a process of B to one of A, in turns of who is first.

    Larger inputs of the one would change how the other gets its memory in the same process.
    """
    cases = op.pair(more)
    times = {}
    for side in (1, 0) if number % 2 else (0, 1):
        case = cases[side]
        times[side] = run_in_child(partial(time_here, case.stmt, case.setup, seconds), MOST_SECONDS)
    return times[1] / times[0]


def compare_within(op: Op, more: float, seconds: float, number: int) -> float:
    """The ratio in one process, with the same arguments for both."""
    return run_in_child(partial(alternate, op, more, seconds, number), MOST_SECONDS)


def alternate(op: Op, more: float, seconds: float, number: int) -> float:
    """The ratio in this process, in rounds of A, B, B, A."""
    torch.set_num_threads(1)
    rng = random.Random(number)
    padding: list[Any] = [bytearray(rng.randrange(1 << 12)) for _ in range(20)]
    padding.append(torch.empty(rng.randrange(1 << 16)))  # so that memory lies elsewhere
    cases = op.pair(more)
    shared: dict[str, Any] = {"torch": torch}
    exec(cases[0].setup, shared)
    names = [name for name in shared if not name.startswith("__")]
    setup = "; ".join(f"{name} = shared[{name!r}]" for name in names)
    ratios: list[float] = []
    with garbage_collection_off():
        a, b = (PythonLoop(case.stmt, setup, globals={"shared": shared}).blocks() for case in cases)
        runs = max(1, round(BLOCK_SECONDS / op.seconds))
        for blocks in (a, b, a, b):
            blocks.run(runs)
        stop = time.perf_counter() + 2 * seconds
        while len(ratios) < 5 or time.perf_counter() < stop:
            one, other, third, last = (each.run(runs).wall for each in (a, b, b, a))
            ratios.append((other + third) / (one + last))
    return statistics.median(ratios)
