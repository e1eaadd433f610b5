"""Many measurements, one table: two ways to add, several sizes, and three "branches" of torch.

    python -m examples.compare

The branches are played by a stand-in that wastes time in proportion to the size of its result,
so that the table has something to show. Results travel as JSON, as they would between machines.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

import torchmark as benchmark

BRANCHES = {"main": 0.0, "my_branch": 1.0, "severe_regression": 5.0}
"""Nanoseconds that a branch wastes for each element of a result."""

STATEMENTS = {"add": "torch.add(x, y)", "add (extra + 0)": "torch.add(x, y + zero)"}
SIZES = (1, 100, 10_000, 50_000)
REPEATS = 2


class SlowedTorch:
    """torch.add, and then nothing for a while."""

    def __init__(self, wasted_ns_per_element: float) -> None:
        self._wasted = wasted_ns_per_element * 1e-9

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = torch.add(x, y)
        until = time.perf_counter() + self._wasted * result.numel()
        while time.perf_counter() < until:
            pass
        return result


def timers() -> list[benchmark.Timer]:
    return [
        benchmark.Timer(
            stmt=stmt,
            globals={
                "torch": torch if not wasted else SlowedTorch(wasted),
                "x": torch.ones((size, 4)),
                "y": torch.ones((1, 4)),
                "zero": torch.zeros(()),
            },
            label="add",
            sub_label=name,
            description=f"size: {size}",
            env=branch,
            num_threads=threads,
        )
        for branch, wasted in BRANCHES.items()
        for name, stmt in STATEMENTS.items()
        for size in SIZES
        for threads in (1, 2)
    ]


def main() -> None:
    todo = timers() * REPEATS
    lines: list[str] = []
    for done, timer in enumerate(todo, start=1):
        lines.append(timer.blocked_autorange(min_run_time=0.02).to_json())
        print(f"\r{done} / {len(todo)}", end="", file=sys.stderr)
    print(file=sys.stderr)

    results = [benchmark.Measurement.from_json(line) for line in lines]
    show("As it comes", benchmark.Compare(results))

    coloured = benchmark.Compare(results)
    coloured.trim_significant_figures()
    coloured.colorize()
    show("Significant figures and colours", coloured)

    relative = benchmark.Compare(results)
    relative.relative_to("add", env="main")
    show("Relative to add on main", relative)


def show(title: str, compare: Any) -> None:
    print(f"== {title} {'=' * (76 - len(title))}\n")
    compare.print()


if __name__ == "__main__":
    main()
