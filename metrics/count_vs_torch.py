"""Counting instructions: torchmark beside torch's own `collect_callgrind`, in one run.

    python metrics/count_vs_torch.py [--torch-statements 3] [--torch-cpp 1] [--starts 10]

Parts, each printed as it is done: the start of the zygote beside a bare import of torch under
valgrind; a small op, and 50 Python statements from cold; the counts themselves beside torch's;
40 C++ statements from an empty cache and one from a warm precompiled header; and whether counts
repeat within a zygote and over fresh starts in other surroundings. torch's way takes minutes for
each statement, so it is measured on a few and scaled; `--torch-statements 10` compares ten counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.benchmark

import torchmark
from torchmark.callgrind.parse import parse_file
from torchmark.engine.cores import begin
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.pool import process_pool
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.report.formats.markdown import pipe_table
from torchmark.together import count_together

if TYPE_CHECKING:
    from collections.abc import Callable

SETUP = "x = torch.ones((4, 4)); y = torch.ones((4, 4)); i = torch.tensor([0, 1])"

STATEMENTS = (
    "torch.empty(())", "torch.empty((1,))", "x + y", "x + 1", "x.add_(1)", "x.add_(y)", "x * y",
    "x * 2.0", "x.mul_(y)", "x == y", "x == 1", "x + y[0]", "x * y[0]", "torch.add(x, y)",
    "x.contiguous()", "x.t().contiguous()", "x.clone()", "x.copy_(y)", "x.zero_()", "x.uniform_()",
    "x.max()", "x.sum()", "x.var()", "x.max(0)", "x.sum(0)", "x[0]", "x[0, 0]", "x[:, 0]", "x[i]",
    "x[:, i]", "x[i, i]", "x[x > 0]", "x[0] = 1", "x[i] = 1", "x[..., 0]", "x.size()", "x.stride()",
    "torch.as_strided(x, (2, 3), (4, 1), 2)", "x.select(0, 1)", "x.unsqueeze(0)", "x.view(-1)",
    "x.transpose(0, 1)", "x.reshape(2, 8)", "torch.mm(x, y)", "x.relu()", "x.sigmoid()",
    "torch.nn.functional.layer_norm(x, (4,))", "torch.nn.functional.linear(x, y)",
    "torch.cat((x, y))", "torch.stack((x, y))",
)  # fmt: skip
"""Fifty for the standard suite: creation, pointwise, copies, reductions, indexing, views."""

COMPARED = ("x + y", "x.sum()", "x[i]", "torch.mm(x, y)", "x.view(-1)", "x.max(0)",
            "x.add_(1)", "torch.cat((x, y))", "x.clone()", "torch.empty((1,))")  # fmt: skip

TORCH = {"torch": {"kind": "import", "value": "torch"}}

CPP_SETUP = "auto x = torch::ones({4, 4}); auto y = torch::ones({4, 4});"


def cpp_statements(count: int) -> list[str]:
    """Distinct statements, so that no two share a build."""
    shapes = ("auto z = x + y", "auto z = x * y", "auto z = x.sum()", "auto z = x.view(-1)",
              "auto z = at::empty({0})")  # fmt: skip
    return [f"{shapes[k % len(shapes)]}; (void){k};" for k in range(count)]


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def bare_import() -> float:
    """torch imported under callgrind with instrumentation off: what a start cannot undercut."""
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
               "--callgrind-out-file=/dev/null", sys.executable, "-c", "import torch"]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return seconds_of(
        lambda: subprocess.run(command, check=True, capture_output=True, env=environment)
    )[0]


def timers(statements: tuple[str, ...] | list[str]) -> list[torchmark.Timer]:
    return [torchmark.Timer(statement, SETUP) for statement in statements]


def cpp_timers(statements: list[str]) -> list[torchmark.Timer]:
    return [
        torchmark.Timer(f"{statement}", CPP_SETUP, language="cpp", timer=timeit.default_timer)
        for statement in statements
    ]


def measure_python(torch_statements: int) -> list[list[str]]:
    bare = min(bare_import() for _ in range(2))
    start, _ = seconds_of(lambda: count_together(timers(["pass"]), 100))
    again = [seconds_of(partial(count_together, timers([s]), 100))[0] for s in COMPARED]
    process_pool.reset()
    cold, _ = seconds_of(lambda: count_together(timers(STATEMENTS), 100))
    print(f"bare import under valgrind {bare:.1f} s; start of the zygote with a first count "
          f"{start:.1f} s: {start / bare:.2f} times", flush=True)  # fmt: skip
    small = statistics.median(again)
    print(f"a small op in a warm zygote: median {small:.3f} s, slowest {max(again):.3f} s")
    print(f"50 statements from cold: {cold:.1f} s", flush=True)

    rows, took = [], []
    ours = dict(zip(COMPARED, count_together(timers(COMPARED), 100), strict=True))
    for statement in COMPARED[:torch_statements]:
        peer = torch.utils.benchmark.Timer(statement, SETUP)
        seconds, theirs = seconds_of(partial(peer.collect_callgrind, 100))
        took.append(seconds)
        mine, other = per_run(ours[statement]), per_run(theirs)
        apart, other_apart = (each.without_layout().sum() for each in (mine, other))
        rows.append([statement, f"{seconds:.1f}", f"{other.sum():,.0f}", f"{mine.sum():,.0f}",
                     f"{mine.sum() / other.sum() - 1:+.2%}", f"{other_apart:,.0f}",
                     f"{apart:,.0f}", f"{apart / other_apart - 1:+.2%}"])  # fmt: skip
        print(" ", *rows[-1], flush=True)
    if took:
        peer_seconds = statistics.median(took)
        print(f"torch: {peer_seconds:.1f} s a statement; torchmark takes "
              f"{peer_seconds / small:.0f} times less for a small op, "
              f"{50 * peer_seconds / cold:.0f} times less for fifty", flush=True)  # fmt: skip
    return rows


def per_run(stats: Any) -> FunctionCounts:
    """The counts of one run, torch's or ours, with those of the empty loop taken off."""
    statement, loop = (
        FunctionCounts(tuple(FunctionCount(*each) for each in counts), inclusive=False)
        for counts in (stats.stmt_exclusive_stats, stats.baseline_exclusive_stats)
    )
    return (statement - loop) * (1 / int(stats.number_per_run))


def measure_cpp(torch_cpp: int) -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        batch = cpp_timers(cpp_statements(40))

        def time_and_count() -> None:
            torchmark.measure_together(batch, min_run_time=0.05, max_run_time=0.1)
            count_together(batch, 100)

        forty, _ = seconds_of(time_and_count)
        print(f"40 C++ statements built, timed and counted from an empty cache: {forty:.1f} s")
        # The second that comes alone makes the precompiled header, so the third finds it warm.
        first, making, warm = (
            seconds_of(partial(cpp_timers([f"auto z = x - y; (void){k};"])[0].timeit, 100))[0]
            for k in (101, 102, 103)
        )
        print(f"one C++ statement built and timed: {first:.1f} s the first, {making:.1f} s the "
              f"second, which makes the precompiled header, {warm:.1f} s with it",
              flush=True)  # fmt: skip
        took = []
        for k in range(torch_cpp):
            peer = torch.utils.benchmark.Timer(
                f"auto z = x - y; (void){200 + k};", CPP_SETUP, language="cpp"
            )
            timing, _ = seconds_of(partial(peer.timeit, 100))
            counting, _ = seconds_of(partial(peer.collect_callgrind, 100))
            took.append((timing, counting))
            print(
                f"  torch: {timing:.1f} s to build and time, {counting:.1f} s to count", flush=True
            )
        if took:
            timing = statistics.median(t for t, _ in took)
            both = statistics.median(t + c for t, c in took)
            print(f"torchmark takes {40 * both / forty:.0f} times less for forty, "
                  f"{timing / warm:.1f} times less for one with a warm header")  # fmt: skip


def counts_of_start(number: int, root: Path) -> dict[str, int]:
    """Totals of all statements in a fresh zygote, in other surroundings each time."""
    here = root / ("d" * (3 * number + 1))
    here.mkdir()
    os.chdir(here)
    os.environ["TORCHMARK_PADDING"] = "x" * (137 * number)
    os.environ["USER"] = os.environ["LOGNAME"] = "u" * (number + 1)
    with Zygote(Launch(under_callgrind=True)) as zygote:
        cases = [PythonCase(stmt=s, setup=SETUP, globals=TORCH) for s in STATEMENTS]
        pending = [begin(partial(zygote.count, case, number=100), "count") for case in cases]
        return {
            statement: parse_file(future.result().out_file).total
            for statement, future in zip(STATEMENTS, pending, strict=True)
        }


def measure_repeats(starts: int) -> None:
    twice = count_together(timers(COMPARED) * 2, 100)
    totals = [stat.counts() for stat in twice]
    same = sum(
        a == b for a, b in zip(totals[: len(COMPARED)], totals[len(COMPARED) :], strict=True)
    )
    print(f"repeats in one zygote: {same} of {len(COMPARED)} identical to the instruction")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as root:
        runs = [counts_of_start(number, Path(root)) for number in range(starts)]
        os.chdir(before)
    spread = {
        s: (max(r[s] for r in runs) - min(r[s] for r in runs)) / runs[0][s] for s in STATEMENTS
    }
    moved = {s: v for s, v in spread.items() if v > 0}
    print(f"{starts} fresh starts, 50 statements: {50 - len(moved)} identical to the instruction; "
          f"largest difference {max(spread.values()):.4%}")  # fmt: skip
    for statement, value in sorted(moved.items(), key=lambda item: -item[1]):
        print(f"  {statement}: {value:.4%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch-statements", type=int, default=3)
    parser.add_argument("--torch-cpp", type=int, default=1)
    parser.add_argument("--starts", type=int, default=10)
    options = parser.parse_args()
    # torch's collect_callgrind starts whatever `python` is first on PATH.
    scripts = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}")
    rows = measure_python(options.torch_statements)
    if options.starts:
        measure_repeats(options.starts)
    measure_cpp(options.torch_cpp)
    header = ["statement", "torch, s", "torch, instructions", "torchmark", "difference",
              "torch, denoised", "torchmark", "difference"]  # fmt: skip
    print("\n" + pipe_table(header, rows))


if __name__ == "__main__":
    main()
