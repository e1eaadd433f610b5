"""Does `torchmark ab` tell the truth? Against cases whose truth is known, and compared with torch.

    python metrics/ab_truth.py [--same 400] [--slower 10] [--slightly 10] [--torch 40]
        [--counts 200] [--detectable 0] [--detect 0] [--busy] [--ops-from SEED ...]

Comparisons of a thing with itself (A/A), and of a thing with one that really does a little more:
one more operation in a hundred or two hundred, one per cent more rows, or a few small operations.
`--busy` keeps the other cores busy meanwhile. `--ops-from` replaces the ops below by ones that are
drawn at random (`metrics/drawn_ops.py`). Everything runs through what the command uses: two
environments with zygotes of their own, fresh replicates, crossovers, the stop rule. torch's way is
`blocked_autorange` of one after the other, each in a process of its own, and a Mann-Whitney test on
their times.

The results are printed as they come, and a table at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from drawing.op import SEVERAL_EXTRAS, TORCH, Op

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import Effect, judge_alone
from torchmark.commands.ab import activate
from torchmark.engine.cores import Division, divide_cores, on_cores, usable_cores
from torchmark.engine.machine import cpu_model
from torchmark.engine.paired.counting import Counting, count_cases
from torchmark.engine.paired.timing import CaseTiming, starter, take_replicates
from torchmark.engine.under_test import UnderTest
from torchmark.engine.zygote.cases import PythonCase
from torchmark.model.case import Case
from torchmark.model.result import Metric, PlannedResult
from torchmark.model.run import Effort, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OTHER = "export TORCHMARK_TRUTH=1"
"""Makes B another environment than A, so that each has processes of its own."""


OPS = (
    Op("add 4x4, 1 us", "x + x", "x = torch.ones((4, 4))"),
    Op("sum 4x4, 2 us", "x.sum()", "x = torch.ones((4, 4))"),
    Op(
        "Linear 8, 5 us",
        "m(x)",
        "n = 1000; m = torch.nn.Linear(8, 8); x = torch.ones((4, 8))",
        extra="n + 1",
    ),
    Op(
        "backward, 15 us",
        "w.sum().backward()",
        "n = 1000; w = torch.ones(8, requires_grad=True)",
        extra="n + 1",
    ),
    Op("mm 64, 8 us", "x @ x", "n = 1000; x = torch.ones((64, 64))", extra="n + 1"),
    Op(
        "add in 4 MB, 60 us",
        "torch.add(x, y, out=z)",
        "x, y, z = (torch.ones((700, 512))[:{rows}] for _ in range(3))",
        600,
    ),
    Op(
        "copy in 16 MB, 0.6 ms",
        "y.copy_(x)",
        "x, y = (torch.ones((2200, 1000))[:{rows}] for _ in range(2))",
        2000,
    ),
    Op(
        "exp in 16 MB, 3 ms",
        "torch.exp(x, out=y)",
        "x, y = (torch.ones((2200, 1000))[:{rows}] for _ in range(2))",
        2000,
    ),
    Op(
        "tanh in 24 MB, 10 ms",
        "torch.tanh(x, out=y)",
        "x, y = (torch.ones((3300, 1000))[:{rows}] for _ in range(2))",
        3000,
    ),
)
"""From 1 us to 10 ms; add and copy with their memory in the name are bound by it."""


class Trial(NamedTuple):
    """One comparison and what came of it."""

    op: str
    more: float
    truth: float | None
    effect: Effect
    seconds: float
    forecast: float | None
    """The detectable change that was foretold, where one was asked for."""

    @property
    def verdict(self) -> Verdict:
        return self.effect.verdict

    @property
    def covers(self) -> bool | None:
        """Whether the 95 % interval holds the truth; None where that is not known."""
        if self.truth is None:
            return None
        return self.effect.interval_95.low <= self.truth <= self.effect.interval_95.high


def take_turns(ops: Sequence[Op], more: float, count: int) -> list[tuple[Op, float]]:
    """`count` trials in all, the ops in turn."""
    return [(ops[number % len(ops)], more) for number in range(count)]


def trials_of(
    wanted: Sequence[tuple[Op, float]],
    effort: Effort,
    sides: tuple[UnderTest, UnderTest],
    division: Division,
) -> Iterator[Trial]:
    """Comparisons of ops with so much more work, each judged by itself."""
    timings = [
        CaseTiming(
            planned=PlannedResult(
                case=Case(label=(op.name, str(number)), stmt=op.stmt), metric=Metric.TIME
            ),
            ready=op.pair(more),
        )
        for number, (op, more) in enumerate(wanted)
    ]
    trial_of = {id(timing): trial for timing, trial in zip(timings, wanted, strict=True)}
    coming = take_replicates(
        timings,
        starter(*sides, threads=1, everywhere=division.everything),
        rng=random.Random(),
        cores=division.lanes[0],
        effort=effort,
        cases=1,
        in_background=True,
    )
    with closing(coming):
        for timing in coming:
            if not isinstance(timing, CaseTiming):
                continue
            op, more = trial_of[id(timing)]
            effect = judge_alone(timing.timing())
            forecast = timing.timing().forecast
            yield Trial(op.name, more, op.truth(more), effect, timing.seconds, forecast)


def calibrated(op: Op, sides: tuple[UnderTest, UnderTest], division: Division) -> Op:
    """With the number of its small operations that take as long as itself on this machine.

    A hundred of them are compared with none in the way of all trials: a loop of its own would run
    them in other code, in which they were twice as fast.
    """
    if not op.extra:
        return op
    wanted = [(op._replace(extras=SEVERAL_EXTRAS / 0.01), 0.01)]
    (trial,) = trials_of(wanted, Effort(budget=3.0), sides, division)
    extras = SEVERAL_EXTRAS / (trial.effect.ratio - 1)
    print(f"{op.name}: {trial.effect.ratio:.4f} with {SEVERAL_EXTRAS} of '{op.extra}'", flush=True)
    return op._replace(extras=extras)


def told(trials: Iterator[Trial]) -> list[Trial]:
    kept = []
    for trial in trials:
        kept.append(trial)
        low, high = trial.effect.interval_95
        print(
            f"{trial.more * 100:+.1f} % {trial.op:<28} {trial.effect.ratio:.4f} "
            f"[{low:.4f}, {high:.4f}] {trial.verdict.value:<8} "
            f"{trial.effect.replicates:3} replicates {trial.seconds:5.1f} s",
            flush=True,
        )
    return kept


def print_power(
    ops: Sequence[Op], count: int, sides: tuple[UnderTest, UnderTest], division: Division
) -> None:
    """A thing with itself says what is detectable; that much more work is then to be found.

    Both get ten replicates and one look. Ops whose work grows in known steps take part.
    """
    effort = Effort(budget=0.0, replicates=10, hurry=True)
    known = [op for op in ops if not op.extra]
    same = told(trials_of(take_turns(known, 0.0, count * len(known)), effort, sides, division))
    op_of = {op.name: op for op in known}
    wanted = [(op_of[each.op], each.effect.detectable / op_of[each.op].growing) for each in same]
    trials = told(trials_of(wanted, effort, sides, division))
    found = sum(trial.verdict is Verdict.SLOWER for trial in trials)
    print(f"the detectable change was found in {found} of {len(trials)} trials")


def print_forecasts(
    ops: Sequence[Op],
    detect: float,
    sides: tuple[UnderTest, UnderTest],
    division: Division,
) -> None:
    """Each op compared with itself until a change of the wanted size is detectable."""
    effort = Effort(budget=60.0, detect=detect)
    trials = told(trials_of(take_turns(ops, 0.0, len(ops)), effort, sides, division))
    reached = [
        each.effect.detectable / each.forecast for each in trials if each.forecast is not None
    ]
    near = sum(1 / 1.5 <= each <= 1.5 for each in reached)
    told_ratios = ", ".join(f"{each:.2f}" for each in sorted(reached))
    print(f"detectable over its forecast: {told_ratios}; {near} of {len(reached)} within 1.5 times")


PEER = """
import json, torch, torch.utils.benchmark as benchmark
torch.set_num_threads(1)
timer = benchmark.Timer({stmt!r}, {setup!r}, globals={{"torch": torch}})
print(json.dumps(timer.blocked_autorange(min_run_time=1.0).times))
"""


def torch_calls_it_a_change(op: Op, more: float) -> bool:
    """One after the other, each in a process of its own, at the level of one per cent."""
    times = []
    for case in op.pair(more):
        script = PEER.format(stmt=case.stmt, setup=case.setup)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        times.append(json.loads(done.stdout))
    return mann_whitney_p(*times) < 0.01


def mann_whitney_p(one: list[float], other: list[float]) -> float:
    """Two-sided, by the normal approximation."""
    both = sorted([(value, 0) for value in one] + [(value, 1) for value in other])
    ranks = [rank for rank, (_, which) in enumerate(both, start=1) if which == 0]
    n, m = len(one), len(other)
    u = sum(ranks) - n * (n + 1) / 2
    z = (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return math.erfc(abs(z) / math.sqrt(2))


def counts_of(pairs: list[tuple[PythonCase, PythonCase]], side: UnderTest) -> list[Counting]:
    countings = [
        Counting(
            planned=PlannedResult(
                case=Case(label=(str(number),), stmt=a.stmt, setup=a.setup),
                metric=Metric.INSTRUCTIONS,
            ),
            ready=(a, b),
        )
        for number, (a, b) in enumerate(pairs)
    ]
    done = count_cases(countings, side, side, threads=1, time_limit=300.0)
    return [each for each in done if not isinstance(each, Stage)]


def print_counts(count: int, side: UnderTest) -> None:
    setup = "x = torch.ones((4, 4))"
    same = [
        PythonCase(stmt=f"x.add({number})", setup=setup, globals=TORCH) for number in range(count)
    ]
    # One element more after the last whole vector: a few instructions.
    plain, little = (
        PythonCase(stmt="x + x", setup=f"x = torch.ones({size})", globals=TORCH)
        for size in (17, 18)
    )
    found_ones = counts_of([*((case, case) for case in same), (plain, little)], side)
    rows = [judge_counts(each.result()) for each in found_ones]
    alarms = sum(row.verdict is not Verdict.SAME for row in rows[:-1])
    last = rows[-1]
    print(
        f"counts: {alarms} of {len(rows) - 1} A/A called a change; {float(last.difference):+.1f} "
        f"in {float(last.before):.0f} instructions: {last.verdict.value}"
    )


@contextmanager
def busy(cores: tuple[int, ...]) -> Iterator[None]:
    """Keep these cores busy: memory and arithmetic."""
    script = "import torch; torch.set_num_threads(1); x = torch.ones(1 << 22)\nwhile 1: x.add_(1)"
    workers = []
    for core in cores:
        with on_cores([core]):  # what a thread starts stays where the thread is
            workers.append(subprocess.Popen([sys.executable, "-c", script]))
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def print_table(trials: list[Trial], torch_rates: dict[float, tuple[int, int]]) -> None:
    groups: dict[float, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[trial.more].append(trial)
    print(
        f"{'truth':>8} {'trials':>7} {'called':>7} {'covered':>8} {'median':>7} {'mean':>7} "
        f"{'most seconds':>13}   torch's way"
    )
    for more, group in sorted(groups.items()):
        called = sum(trial.verdict.is_change for trial in group) / len(group)
        known = [trial for trial in group if trial.covers is not None]
        covered = sum(bool(trial.covers) for trial in known) / len(known)
        seconds = [trial.seconds for trial in group]
        n, of = torch_rates.get(more, (0, 0))
        peer = f"{n} of {of}" if of else "not run"
        print(
            f"{more * 100:+7.1f}% {len(group):7} {called * 100:6.1f}% {covered * 100:7.1f}% "
            f"{statistics.median(seconds):7.1f} {statistics.fmean(seconds):7.1f} "
            f"{max(seconds):13.1f}   {peer}"
        )
    by_op: dict[tuple[str, float], list[Trial]] = defaultdict(list)
    for trial in trials:
        by_op[trial.op, trial.more].append(trial)
    for (op, more), group in sorted(by_op.items()):
        called = sum(trial.verdict.is_change for trial in group)
        covered = sum(bool(trial.covers) for trial in group)
        told = "truth unknown" if group[0].covers is None else f"{covered} covered"
        mean = statistics.fmean(trial.effect.ratio for trial in group)
        half = statistics.median(
            (trial.effect.interval_95.high - trial.effect.interval_95.low) / 2 for trial in group
        )
        print(
            f"  {op:<24} {more * 100:+.1f} %: {called} of {len(group)} called, {told}, "
            f"mean {(mean - 1) * 100:+.2f} %, interval ± {half * 100:.2f} %"
        )


@contextmanager
def choose_ops(seeds: Sequence[int]) -> Iterator[Sequence[Op]]:
    """Those drawn with the seeds, whose inputs last as long as this; the ops above without any."""
    if not seeds:
        yield OPS
        return
    from drawn_ops import draw_ops  # noqa: PLC0415 - imports torch, of which OPS have no need

    with tempfile.TemporaryDirectory() as folder:
        yield [op for seed in seeds for op in draw_ops(seed, folder=Path(folder))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--same", type=int, default=400, help="comparisons of a thing with itself")
    parser.add_argument("--slower", type=int, default=10, help="trials of 1 %% for each op")
    parser.add_argument("--slightly", type=int, default=10, help="trials of 0.5 %% for each op")
    parser.add_argument("--torch", type=int, default=40, help="comparisons by torch's way, of each")
    parser.add_argument(
        "--counts", type=int, default=200, help="counts of a thing compared with itself"
    )
    parser.add_argument(
        "--detectable", type=int, default=0, help="trials of the detectable change, for each op"
    )
    parser.add_argument(
        "--detect", type=float, default=0, metavar="PERCENT", help="forecasts of this size"
    )
    parser.add_argument("--busy", action="store_true", help="with the other cores busy")
    parser.add_argument(
        "--ops-from",
        type=int,
        nargs="+",
        action="extend",
        default=[],
        metavar="SEED",
        help="draw ops at random, twelve for each seed",
    )
    options = parser.parse_args()
    division = divide_cores(usable_cores(), 1)
    state = "the others busy" if options.busy else "idle"
    print(f"{time.strftime('%Y-%m-%d')}, {cpu_model()}, {len(division.everything)} cores, {state}")
    trials: list[Trial] = []
    torch_rates = {}
    with (
        choose_ops(options.ops_from) as chosen,
        activate({"A": "", "B": OTHER}) as (a, b),
        on_cores(division.others),
    ):
        if options.counts:
            with on_cores(division.everything):
                print_counts(options.counts, a)
        ops = [calibrated(op, (a, b), division) for op in chosen]
        with busy(division.others if options.busy else ()):
            for more, count, budget in (
                (0.01, options.slower * len(ops), 10.0),
                (0.005, options.slightly * len(ops), 30.0),
                (
                    0.0,
                    options.same,
                    1.5,
                ),  # the fewest replicates: where alarms would be most likely
            ):
                if count:
                    wanted = take_turns(ops, more, count)
                    trials += told(trials_of(wanted, Effort(budget=budget), (a, b), division))
                if options.torch and more != 0.005:
                    called = sum(
                        torch_calls_it_a_change(ops[number % len(ops)], more)
                        for number in range(options.torch)
                    )
                    torch_rates[more] = (called, options.torch)
            if options.detectable:
                print_power(ops, options.detectable, (a, b), division)
            if options.detect:
                print_forecasts(ops, options.detect / 100, (a, b), division)
    if trials:
        print_table(trials, torch_rates)


if __name__ == "__main__":
    main()
