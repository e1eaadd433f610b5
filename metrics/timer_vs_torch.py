"""Do `Timer.measure`'s intervals hold, and how much do its results differ? Compared with torch.

    python metrics/timer_vs_torch.py [--repeats N] [--seconds S] [--most S] [--load N] [--steady N]
        [--held-out] [--language LANGUAGE] [--alone] [--seed N] [--record FILE]
    python metrics/timer_vs_torch.py --read FILE ...

Both get the same statements and the same time, in turns, in random order, in one process; the
statements take turns too, so the results of one are spread over the whole run. `--load` starts
processes that come and go (busy for 20 to 500 ms, idle for 20 to 500 ms), `--steady` ones that
never pause; half of them copy memory, the others add numbers, and the system places them. `--most`
lets torchmark go on for that long where it sees that the machine is busy. `--held-out` takes
statements that nothing was tuned on.

*Coverage* is the share of torchmark's 95 % intervals that hold the long-run median. That is the
median of the medians of all results: in the pooled samples a result would count the more, the
longer it took. The spread is that of the medians: their standard deviation, and the width of their
middle half, both of logarithms, so as a share. The ratio is torchmark's over torch's: below 1 means
that torchmark's results agree better with each other. *Unclear* are the results that say themselves
that the machine was too busy.

`--record` keeps every result with all its samples. `--read` judges recorded results, of one run or
several, by the code as it is now: that is how the rules were tuned.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.utils.benchmark

import torchmark
from torchmark.model.measurement import Measurement
from torchmark.model.result_warnings import WarningKind
from torchmark.report.formats.markdown import pipe_table
from torchmark_probe.loops.intervals import quantile_of_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Statement(NamedTuple):
    """What both measure."""

    stmt: str
    setup: str
    language: str = "python"

    def timer_arguments(self) -> dict[str, Any]:
        """In Python both use the same objects throughout: where they lie is part of the time."""
        if self.language == "cpp":
            return {"stmt": self.stmt, "setup": self.setup, "language": "cpp"}
        names = {"torch": torch}
        exec(self.setup, names)
        return {"stmt": self.stmt, "globals": names}


STATEMENTS = {
    "x + y (4x4)": Statement("x + y", "x, y = torch.ones(4, 4), torch.ones(4, 4)"),
    "x + y (512x512)": Statement("x + y", "x, y = torch.ones(512, 512), torch.ones(512, 512)"),
    "x @ y (64x64)": Statement("x @ y", "x, y = torch.ones(64, 64), torch.ones(64, 64)"),
    "softmax (128x256)": Statement("torch.softmax(x, 1)", "x = torch.ones(128, 256)"),
    "layer_norm (32x512)": Statement(
        "torch.nn.functional.layer_norm(x, (512,))", "x = torch.ones(32, 512)"
    ),
    "backward (8)": Statement("w.sum().backward()", "w = torch.ones(8, requires_grad=True)"),
    "add in 4 MB": Statement(
        "torch.add(x, y, out=z)", "x, y, z = (torch.ones(600, 512) for _ in range(3))"
    ),
    "sorted (1000)": Statement(
        "sorted(xs)", "import random; xs = [random.Random(1).random() for _ in range(1000)]"
    ),
    "C++ x + y (4x4)": Statement(
        "x + y;", "auto x = torch::ones({4, 4}), y = torch::ones({4, 4});", "cpp"
    ),
    "C++ x.mm(y) (64x64)": Statement(
        "x.mm(y);", "auto x = torch::ones({64, 64}), y = torch::ones({64, 64});", "cpp"
    ),
    "x * y (64)": Statement("x * y", "x, y = torch.ones(64), torch.ones(64)"),
    "cumsum (256x256)": Statement("x.cumsum(1)", "x = torch.ones(256, 256)"),
    "conv1d (4x8x128)": Statement(
        "torch.conv1d(x, w)", "x, w = torch.ones(4, 8, 128), torch.ones(8, 8, 3)"
    ),
    "gelu (64x512)": Statement("torch.nn.functional.gelu(x)", "x = torch.ones(64, 512)"),
    "Linear and backward (32)": Statement(
        "m(x).sum().backward()", "m = torch.nn.Linear(32, 32); x = torch.ones(16, 32)"
    ),
    "copy in 16 MB": Statement("y.copy_(x)", "x, y = (torch.ones(2000, 1000) for _ in range(2))"),
    "index_select (4096x64)": Statement(
        "x.index_select(0, i)", "x, i = torch.ones(4096, 64), torch.arange(0, 4096, 2)"
    ),
    "dict of 300": Statement("{k: str(k) for k in keys}", "keys = list(range(300))"),
    "C++ sum (512)": Statement("x.sum();", "auto x = torch::ones({512});", "cpp"),
    "C++ add_ in 1 MB": Statement("x.add_(1);", "auto x = torch::ones({512, 512});", "cpp"),
    "relu (2048)": Statement("x.relu()", "x = torch.ones(2048)"),
    "transposed copy (256x256)": Statement("x.t().contiguous()", "x = torch.ones(256, 256)"),
    "cat (2x1000)": Statement("torch.cat((x, y))", "x, y = torch.ones(1000), torch.ones(1000)"),
    "sort (2000)": Statement("x.sort()", "x = torch.arange(2000) * 7919 % 2003"),
    "max_pool2d (2x8x32x32)": Statement(
        "torch.nn.functional.max_pool2d(x, 2)", "x = torch.ones(2, 8, 32, 32)"
    ),
    "bmm (16x32x32)": Statement(
        "torch.bmm(x, y)", "x, y = torch.ones(16, 32, 32), torch.ones(16, 32, 32)"
    ),
    "json.dumps": Statement(
        "json.dumps(d)", "import json; d = {str(k): [k] * 5 for k in range(60)}"
    ),
    "C++ exp (4096)": Statement("x.exp();", "auto x = torch::ones({4096});", "cpp"),
    "C++ cat (2x100)": Statement(
        "torch::cat({x, y});", "auto x = torch::ones({100}), y = torch::ones({100});", "cpp"
    ),
    "C++ matmul and backward (16)": Statement(
        "x.matmul(w).sum().backward();",
        "auto x = torch::ones({8, 16}), w = torch::ones({16, 16}).requires_grad_();",
        "cpp",
    ),
}
"""The rules were tuned on these, or a change was judged by them."""

HELD_OUT = {
    "sigmoid (1024)": Statement("x.sigmoid()", "x = torch.ones(1024)"),
    "addmm (48x48)": Statement(
        "torch.addmm(b, x, y)", "b, x, y = (torch.ones(48, 48) for _ in range(3))"
    ),
    "where (300x300)": Statement(
        "torch.where(c, x, y)",
        "x, y = torch.ones(300, 300), torch.zeros(300, 300); c = x > 0",
    ),
    "topk (4000)": Statement("x.topk(10)", "x = torch.arange(4000.0) * 7919 % 4001"),
    "batch_norm (4x16x16x16)": Statement(
        "m(x)", "m = torch.nn.BatchNorm2d(16).eval(); x = torch.ones(4, 16, 16, 16)"
    ),
    "mul in 12 MB": Statement(
        "torch.mul(x, y, out=z)", "x, y, z = (torch.ones(1000, 1000) for _ in range(3))"
    ),
    "re.sub": Statement(
        "re.sub(r'[aeiou]+', '-', text)", "import re; text = 'the quick brown fox ' * 20"
    ),
    "C++ relu (1000)": Statement("x.relu();", "auto x = torch::ones({1000});", "cpp"),
    "C++ stack (3x64)": Statement("torch::stack({x, x, x});", "auto x = torch::ones({64});", "cpp"),
    "C++ softmax and backward (32)": Statement(
        "x.softmax(1).sum().backward();", "auto x = torch::ones({8, 32}).requires_grad_();", "cpp"
    ),
}
"""Nothing was tuned on these, and nothing was chosen after they were seen."""

NEIGHBOUR = """
import random, sys, time
does, pauses, seed = sys.argv[1], sys.argv[2] == "pauses", int(sys.argv[3])
draw = random.Random(seed)
source, target, ones = bytearray(1 << 24), bytearray(1 << 24), (1,) * 100000
while True:
    stop = time.perf_counter() + draw.uniform(0.02, 0.5)
    while time.perf_counter() < stop:
        if does == "memory":
            target[:] = source
        else:
            sum(ones)
    if pauses:
        time.sleep(draw.uniform(0.02, 0.5))
"""


class Outcome(NamedTuple):
    """One result, of either."""

    title: str
    median: float
    seconds: float
    measurement: Measurement | None = None
    """torchmark's."""

    def to_json(self) -> str:
        kept = None if self.measurement is None else self.measurement.to_json()
        return json.dumps([self.title, self.median, self.seconds, kept])

    @classmethod
    def from_json(cls, line: str) -> Outcome:
        title, centre, seconds, kept = json.loads(line)
        if kept is None:
            return cls(title, centre, seconds)
        read = Measurement.from_json(kept)
        assert read.sampling is not None
        again = Measurement.from_sampling(read.task_spec, read.sampling)  # by today's rules
        return cls(title, again.median, seconds, again)

    def holds(self, truth: float) -> bool:
        assert self.measurement is not None
        low, high = self.measurement.median_interval
        return low <= truth <= high

    def half_width(self) -> float:
        assert self.measurement is not None
        low, high = self.measurement.median_interval
        return (high - low) / 2 / self.median

    def is_unclear(self) -> bool:
        assert self.measurement is not None
        return any(each.kind is WarningKind.DISTURBED for each in self.measurement.warnings)


@contextmanager
def neighbours(passing: int, steady: int, seed: int) -> Iterator[None]:
    """Other processes that use memory and arithmetic units, wherever the system puts them."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", NEIGHBOUR, "memory" if index % 2 == 0 else "arithmetic",
             "pauses" if index < passing else "never", str(seed + index)]
        )
        for index in range(passing + steady)
    ]  # fmt: skip
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def take_results(
    statements: dict[str, Statement],
    repeats: int,
    seconds: float,
    most: float,
    *,
    torch_too: bool,
    load: tuple[int, int, int],
) -> Iterator[Outcome]:
    """All results of all statements, in random order within each repeat."""
    tasks: list[tuple[str, Any]] = []
    for title, statement in statements.items():
        arguments = statement.timer_arguments()
        tasks.append((title, torchmark.Timer(**arguments)))
        if torch_too:
            tasks.append((title, torch.utils.benchmark.Timer(**arguments)))
    for _, timer in tasks:
        timer.timeit(1)  # compiles C++ before the neighbours start
    with neighbours(*load):
        for _ in range(repeats):
            random.shuffle(tasks)
            for title, timer in tasks:
                start = time.perf_counter()
                if isinstance(timer, torchmark.Timer):
                    ours = timer.measure(min_run_time=seconds, max_run_time=most)
                    yield Outcome(title, ours.median, time.perf_counter() - start, ours)
                else:
                    theirs = timer.blocked_autorange(min_run_time=seconds)
                    yield Outcome(title, theirs.median, time.perf_counter() - start)


def deviation(medians: list[float]) -> float:
    return statistics.pstdev(math.log(value) for value in medians)


def middle_half(medians: list[float]) -> float:
    logs = sorted(math.log(value) for value in medians)
    return quantile_of_sorted(logs, 0.75) - quantile_of_sorted(logs, 0.25)


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(max(value, 1e-9)) for value in values))


def print_table(outcomes: Iterable[Outcome]) -> None:
    """A row for each statement, and the totals."""
    by_title: dict[str, tuple[list[Outcome], list[Outcome]]] = defaultdict(lambda: ([], []))
    for each in outcomes:
        by_title[each.title][each.measurement is None].append(each)
    rows, deviations, halves, times = [], [], [], []
    held, unclear, count = 0, 0, 0
    for title, (ours, theirs) in by_title.items():
        medians = [each.median for each in ours]
        truth = statistics.median(medians)
        holding = sum(each.holds(truth) for each in ours)
        doubted = sum(each.is_unclear() for each in ours)
        held, unclear, count = held + holding, unclear + doubted, count + len(ours)
        row = [title, f"{holding / len(ours):.0%}", f"{doubted / len(ours):.0%}",
               f"{statistics.median(each.half_width() for each in ours):.2%}",
               f"{deviation(medians):.2%}", f"{middle_half(medians):.2%}"]  # fmt: skip
        if theirs:
            peer = [each.median for each in theirs]
            deviations.append(deviation(medians) / deviation(peer))
            halves.append(middle_half(medians) / middle_half(peer))
            times.append(sum(each.seconds for each in ours) / sum(each.seconds for each in theirs))
            row += [f"{deviation(peer):.2%}", f"{middle_half(peer):.2%}", f"{deviations[-1]:.2f}",
                    f"{halves[-1]:.2f}", f"{times[-1]:.2f}"]  # fmt: skip
        rows.append(row + [""] * (11 - len(row)))
    header = ["statement", "coverage", "unclear", "interval ±", "deviation", "middle half",
              "deviation, torch", "middle half, torch", "deviation ratio", "middle half ratio",
              "time ratio"]  # fmt: skip
    print(pipe_table(header, rows))
    print(f"\n95 % intervals that hold the long-run median: {held / count:.1%} of {count}; "
          f"unclear: {unclear / count:.1%}")  # fmt: skip
    if deviations:
        print(
            "torchmark over torch (geometric mean): "
            f"standard deviation {geometric_mean(deviations):.2f}, "
            f"middle half {geometric_mean(halves):.2f}, time {geometric_mean(times):.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.2, help="budget of one result")
    parser.add_argument("--most", type=float, help="what torchmark may take; the same by default")
    parser.add_argument("--load", type=int, default=0, help="neighbours that come and go")
    parser.add_argument("--steady", type=int, default=0, help="neighbours that do not pause")
    parser.add_argument("--held-out", action="store_true", help="the other ten statements")
    parser.add_argument("--language", choices=("python", "cpp"), help="statements in it alone")
    parser.add_argument("--alone", action="store_true", help="without torch")
    parser.add_argument("--seed", type=int, default=1, help="of the neighbours and the order")
    parser.add_argument("--record", type=Path, help="where to append the results")
    parser.add_argument("--read", type=Path, nargs="+", help="judge recorded results")
    options = parser.parse_args()
    if options.read:
        lines = (line for path in options.read for line in path.read_text().splitlines())
        print_table([Outcome.from_json(line) for line in lines])
        return

    most = options.most or options.seconds
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}")
    print(f"{options.repeats} results of {options.seconds} s each (torchmark: up to {most} s), "
          f"{options.load} neighbours that come and go, {options.steady} steady\n")  # fmt: skip
    random.seed(options.seed)
    chosen = {
        title: statement
        for title, statement in (HELD_OUT if options.held_out else STATEMENTS).items()
        if options.language in (None, statement.language)
    }
    outcomes = []
    for outcome in take_results(
        chosen, options.repeats, options.seconds, most,
        torch_too=not options.alone, load=(options.load, options.steady, options.seed),
    ):  # fmt: skip
        outcomes.append(outcome)
        if options.record:
            with options.record.open("a") as file:
                file.write(outcome.to_json() + "\n")
    print_table(outcomes)


if __name__ == "__main__":
    main()
