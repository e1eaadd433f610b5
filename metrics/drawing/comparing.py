"""A rough look at the ratio of B to A, by a plain loop: whether an injection does what it says."""

from __future__ import annotations

import random
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from drawing.children import run_in_child
from torchmark_probe.loops.snippets import Blocks, PythonLoop, garbage_collection_off

if TYPE_CHECKING:
    from drawing.op import Op

PROCESSES = 10
"""Where memory lies differs from process to process and can change a ratio by some per cent."""

BLOCK_SECONDS = 500e-6


def compare(op: Op, more: float, seconds: float) -> tuple[float, float]:
    """The median ratio of the processes and its standard error, after so many seconds of each."""
    ratios = [
        run_in_child(partial(compare_once, op, more, seconds / PROCESSES, number), 60.0)
        for number in range(PROCESSES)
    ]
    return statistics.median(ratios), 1.25 * statistics.stdev(ratios) / len(ratios) ** 0.5


def compare_once(op: Op, more: float, seconds: float, number: int) -> float:
    """The ratio in this process, in rounds of A, B, B, A. Every other process sets B up first."""
    torch.set_num_threads(1)
    rng = random.Random(number)
    padding: list[Any] = [bytearray(rng.randrange(1 << 12)) for _ in range(20)]
    padding.append(torch.empty(rng.randrange(1 << 16)))
    ratios: list[float] = []
    with garbage_collection_off():
        a, b = ready(op, more, is_b_first=bool(number % 2))
        runs = max(1, round(BLOCK_SECONDS / op.seconds))
        for blocks in (a, b, a, b):
            blocks.run(runs)
        stop = time.perf_counter() + 2 * seconds
        while len(ratios) < 5 or time.perf_counter() < stop:
            one, other, third, last = (each.run(runs).wall for each in (a, b, b, a))
            ratios.append((other + third) / (one + last))
    return statistics.median(ratios)


def ready(op: Op, more: float, *, is_b_first: bool) -> tuple[Blocks, Blocks]:
    """Both loops. They share the arguments unless B's are larger."""
    cases = op.pair(more)
    if op.rows:
        order = cases[::-1] if is_b_first else cases
        loops = [PythonLoop(each.stmt, each.setup, globals={"torch": torch}) for each in order]
    else:
        shared: dict[str, Any] = {"torch": torch}
        exec(cases[0].setup, shared)
        names = [name for name in shared if not name.startswith("__")]
        setup = "; ".join(f"{name} = shared[{name!r}]" for name in names)
        order = cases[::-1] if is_b_first else cases
        loops = [PythonLoop(each.stmt, setup, globals={"shared": shared}) for each in order]
    one, other = (each.blocks() for each in loops)
    return (other, one) if is_b_first else (one, other)
