"""How much do repeated results differ? `Timer.measure` beside torch's `blocked_autorange`.

    python metrics/timer_vs_torch.py [--repeats N] [--seconds S]

Both get the same statements and the same time, in turns, in random order, in one process. The
spread is that of the medians over the repeats: their standard deviation, and the width of their
middle half, as a share of their median. The ratio is torchmark's over torch's: below 1 means that
torchmark's results agree better with each other.
"""

from __future__ import annotations

import argparse
import math
import platform
import random
import statistics
import time
from typing import TYPE_CHECKING

import torch
import torch.utils.benchmark

import torchmark
from torchmark.report.formats.markdown import pipe_table
from torchmark_probe.loops.intervals import quantile_of_sorted

if TYPE_CHECKING:
    from collections.abc import Callable

STATEMENTS = {
    "x + y (4x4)": ("x + y", {"x": torch.ones(4, 4), "y": torch.ones(4, 4)}),
    "x + y (512x512)": ("x + y", {"x": torch.ones(512, 512), "y": torch.ones(512, 512)}),
    "x @ y (64x64)": ("x @ y", {"x": torch.ones(64, 64), "y": torch.ones(64, 64)}),
    "softmax (128x256)": ("torch.softmax(x, 1)", {"x": torch.ones(128, 256)}),
    "layer_norm (32x512)": (
        "torch.nn.functional.layer_norm(x, (512,))",
        {"x": torch.ones(32, 512)},
    ),
}


def results(
    stmt: str, names: dict[str, torch.Tensor], repeats: int, seconds: float
) -> tuple[list[float], list[float], list[float]]:
    """Medians by torchmark and by torch, and torchmark's total time over torch's."""
    ours = torchmark.Timer(stmt, globals=names)
    theirs = torch.utils.benchmark.Timer(stmt, globals=names)

    def by_torchmark() -> float:
        return ours.measure(min_run_time=seconds, max_run_time=seconds).median

    def by_torch() -> float:
        return theirs.blocked_autorange(min_run_time=seconds).median

    medians: dict[Callable[[], float], list[float]] = {by_torchmark: [], by_torch: []}
    spent: dict[Callable[[], float], float] = {by_torchmark: 0.0, by_torch: 0.0}
    order = [by_torchmark, by_torch]
    for _ in range(repeats):
        random.shuffle(order)
        for measure in order:
            start = time.perf_counter()
            medians[measure].append(measure())
            spent[measure] += time.perf_counter() - start
    return medians[by_torchmark], medians[by_torch], [spent[by_torchmark] / spent[by_torch]]


def deviation(medians: list[float]) -> float:
    return statistics.pstdev(math.log(value) for value in medians)


def middle_half(medians: list[float]) -> float:
    logs = sorted(math.log(value) for value in medians)
    return quantile_of_sorted(logs, 0.75) - quantile_of_sorted(logs, 0.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=0.2, help="budget of one result")
    options = parser.parse_args()

    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}")
    print(f"{options.repeats} results of {options.seconds} s each, by turns\n")
    rows, ratios = [], []
    for title, (stmt, names) in STATEMENTS.items():
        ours, theirs, (time_ratio,) = results(stmt, names, options.repeats, options.seconds)
        ratios.append(
            (deviation(ours) / deviation(theirs), middle_half(ours) / middle_half(theirs))
        )
        rows.append(
            [title, f"{middle_half(theirs):.2%}", f"{middle_half(ours):.2%}",
             f"{ratios[-1][1]:.2f}", f"{deviation(theirs):.2%}", f"{deviation(ours):.2%}",
             f"{ratios[-1][0]:.2f}", f"{time_ratio:.2f}"]
        )  # fmt: skip
    header = ["statement", "middle half, torch", "torchmark", "ratio",
              "deviation, torch", "torchmark", "ratio", "time ratio"]  # fmt: skip
    print(pipe_table(header, rows))
    by_deviation, by_half = (
        math.exp(statistics.fmean(math.log(max(pair[i], 1e-9)) for pair in ratios)) for i in (0, 1)
    )
    print(
        f"\nSpread of results, torchmark over torch (geometric mean): "
        f"{by_half:.2f} by middle half, {by_deviation:.2f} by standard deviation"
    )


if __name__ == "__main__":
    main()
