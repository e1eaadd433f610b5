"""The whole standard suite, timed and counted, beside torch's way of doing the same.

    python metrics/suite_vs_original.py [--sample 1] [--quick]

torchmark runs all cases twice, from an empty build cache and from a full one. torch's way
(`Timer.blocked_autorange`, then `collect_callgrind`, a process and a build for each) takes minutes
for a case, so it is measured on a sample of each language and scaled to the number of cases.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.utils.benchmark

from torchmark.define.suites.loading import cases_of, load_suite
from torchmark.define.suites.standard import quick
from torchmark.model.case import Case, Language, Runtime


def seconds_of_run(options: list[str], store: Path) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "torchmark", "run", *options, "--quiet", "--store", str(store)],
        check=True,
    )
    return time.perf_counter() - start


def seconds_of_torch(case: Case) -> float:
    """What torch takes for times and counts of one case."""
    start = time.perf_counter()
    timer = torch.utils.benchmark.Timer(
        case.stmt,
        case.setup or "pass",
        case.global_setup,
        language="cpp" if case.language is Language.CPP else "python",
        num_threads=case.num_threads,
    )
    timer.blocked_autorange(min_run_time=0.2)
    timer.collect_callgrind(100, repeats=None, collect_baseline=True, retain_out_file=False)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=1, help="cases of each language for torch")
    parser.add_argument("--quick", action="store_true", help="the quick part of the suite")
    options = parser.parse_args()
    # torch's collect_callgrind starts whatever `python` is first on PATH.
    scripts = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    cases = cases_of([load_suite("standard")])
    cases = quick(cases) if options.quick else cases
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {len(cases)} cases")

    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        arguments = ["--quick"] if options.quick else []
        empty = seconds_of_run(arguments, Path(folder) / "first.db")
        print(f"torchmark, from an empty build cache: {empty / 60:.1f} min", flush=True)
        full = seconds_of_run(arguments, Path(folder) / "second.db")
        print(f"torchmark, from a full one: {full / 60:.1f} min", flush=True)

    scaled = 0.0
    for language in Language:
        mine = [case for case in cases if case.language is language]
        eager = [case for case in mine if case.runtime is Runtime.EAGER]
        took = []
        for case in random.Random(0).sample(eager, min(options.sample, len(eager))):
            took.append(seconds_of_torch(case))
            print(f"  torch: {took[-1]:.0f} s for {case.title}", flush=True)
        scaled += statistics.mean(took) * len(mine)
    print(f"torch's way for all of them: {scaled / 60:.0f} min; torchmark takes "
          f"{scaled / empty:.0f} times less from an empty cache, "
          f"{scaled / full:.0f} times less from a full one")  # fmt: skip


if __name__ == "__main__":
    main()
