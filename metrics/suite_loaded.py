"""Are the standard suite's times the same on a loaded machine, or marked as not to be trusted?

    python metrics/suite_loaded.py [--pattern C++] [--rounds 3] [--busy 2] [--quick]

The suite is timed twice with nothing else running and then `--rounds` times next to processes that
never pause, one for each core; the cases that the second calm run confirms within 10 % are judged.
A loaded time is right if it is within 10 % of the calm one, and honest if it is not but carries a
warning. What is neither is listed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from ab_truth import busy

import torchmark
from torchmark.analyse.estimates import MeasuredTime, time_of
from torchmark.engine.cores import usable_cores
from torchmark.engine.machine import cpu_model

NEAR = 0.1
"""Share by which a loaded time may differ from the calm one."""


def times_of_suite(pattern: str, store: Path, *, quick: bool) -> dict[str, MeasuredTime]:
    """The times of its cases, by title."""
    run = torchmark.run(pattern=pattern, metrics=["time"], quick=quick, store=store)
    times = ((each.case.title, time_of(each)) for each in run.results)
    return {title: time for title, time in times if time is not None}


def differ(one: MeasuredTime, other: MeasuredTime) -> bool:
    return abs(one.median / other.median - 1) > NEAR


def print_round(
    number: int, calm: dict[str, MeasuredTime], loaded: dict[str, MeasuredTime]
) -> None:
    both = {title: (calm[title], loaded[title]) for title in calm if title in loaded}
    far = {title: times for title, times in both.items() if differ(*times)}
    unmarked = {title: times for title, times in far.items() if not times[1].warnings}
    marked = sum(bool(times[1].warnings) for times in both.values())
    print(
        f"loaded {number}: {len(both) - len(far)} of {len(both)} within {NEAR:.0%} of the calm "
        f"time, {len(far) - len(unmarked)} more are marked, {len(unmarked)} are neither "
        f"({marked} marked in all)",
        flush=True,
    )
    for title, (before, after) in unmarked.items():
        print(f"  {title}: {before.median * 1e6:.3f} us calm, {after.median * 1e6:.3f} us loaded")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pattern", default="C++", help="cases, as of `torchmark run -k`")
    parser.add_argument("--rounds", type=int, default=3, help="loaded runs")
    parser.add_argument("--busy", type=int, default=len(usable_cores()), help="busy processes")
    parser.add_argument("--quick", action="store_true", help="the quick part of the suite")
    options = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {cpu_model()}, load {os.getloadavg()[0]:.2f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"

        def measure() -> dict[str, MeasuredTime]:
            return times_of_suite(options.pattern, store, quick=options.quick)

        first, second = measure(), measure()
        calm = {title: time for title, time in first.items() if not differ(time, second[title])}
        print(f"calm: {len(calm)} of {len(first)} cases confirmed", flush=True)
        for number in range(1, options.rounds + 1):
            with busy(tuple(core.number for core in usable_cores())[: options.busy]):
                loaded = measure()
            print_round(number, calm, loaded)


if __name__ == "__main__":
    main()
