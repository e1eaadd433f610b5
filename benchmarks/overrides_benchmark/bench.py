"""The time of `torch.add` for the four kinds of input of seed 002, a line for each.

    cd benchmarks/overrides_benchmark
    python bench.py [--nreps N] [--nrepreps M]

N calls are timed together, M times over; what is told of the M times is for one call, whatever N
is. `torchmark overrides ladder` tells more: intervals, counts, and other kinds of input.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

import torch

from torchmark.define.suites.overrides import SEED_KINDS, SETUPS
from torchmark_probe.loops.snippets import PythonLoop, garbage_collection_off

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALL = "torch.add(x, y)"


def main() -> None:
    nreps, nrepreps = arguments()
    for kind in SEED_KINDS:
        print(line_of(kind, seconds_of_a_call(kind, nreps, nrepreps)), flush=True)


def arguments(given: Sequence[str] | None = None) -> tuple[int, int]:
    """N and M of the command line."""
    parser = argparse.ArgumentParser(description="Time torch.add, overridden and not.")
    parser.add_argument("-n", "--nreps", type=at_least_one, default=1000, metavar="N",
                        help="calls that are timed together (default: 1000)")  # fmt: skip
    parser.add_argument("-m", "--nrepreps", type=at_least_one, default=1000, metavar="M",
                        help="how often they are timed (default: 1000)")  # fmt: skip
    chosen = parser.parse_args(given)
    return chosen.nreps, chosen.nrepreps


def at_least_one(text: str) -> int:
    """The number in the text; what is none, or below 1, is a mistake of the call."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1 is needed, got {text!r}")
    return number


def seconds_of_a_call(
    kind: str, nreps: int, nrepreps: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """`nrepreps` times of `nreps` calls, each divided by the calls; one more goes before them."""
    blocks = PythonLoop(CALL, SETUPS[kind], clock, {"torch": torch}).blocks()
    with garbage_collection_off():
        blocks.run(nreps)
        return [blocks.run(nreps).wall / nreps for _ in range(nrepreps)]


def line_of(kind: str, seconds: Sequence[float]) -> str:
    """In the words of the original, for which the kind of a plain tensor is `torch.tensor`.

    >>> line_of("Tensor", [3e-6, 2e-6, 4e-6])
    'Type tensor had a minimum time of 2.000 us and a standard deviation of 1.000 us.'
    >>> line_of("SubTensor", [2e-6])
    'Type SubTensor had a minimum time of 2.000 us; a single time has no standard deviation.'
    """
    name = "tensor" if kind == "Tensor" else kind
    minimum = f"Type {name} had a minimum time of {min(seconds) * 1e6:.3f} us"
    if len(seconds) < 2:
        return f"{minimum}; a single time has no standard deviation."
    return f"{minimum} and a standard deviation of {statistics.stdev(seconds) * 1e6:.3f} us."


if __name__ == "__main__":
    main()
