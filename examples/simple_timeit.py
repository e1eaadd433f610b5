"""The least one can do with Timer: three ways to time one statement.

python -m examples.simple_timeit
"""

from __future__ import annotations

import torch

import torchmark as benchmark


def main() -> None:
    timer = benchmark.Timer(
        stmt="x + y",
        globals={"x": torch.ones((4, 8)), "y": torch.ones((1, 8))},
        label="Broadcasting add (4x8)",
    )
    for run in range(3):
        print(f"Run {run}\n{'-' * 40}")
        print(f"timeit:\n{timer.timeit(10_000)}\n")
        print(f"blocked_autorange:\n{timer.blocked_autorange()}\n")
        print(f"measure:\n{timer.measure()}\n")


if __name__ == "__main__":
    main()
