"""A script written for `torch.utils.benchmark` prints the same in three ways: with torch, run by
`python -m torchmark.patch`, and with the import replaced.

It does what public scripts do: measures over sizes and threads, keeps results of two environments
in a pickle, compares, fuzzes, subclasses Timer, and catches what it does wrong. A loop of known
cost stands in for the clock, so that the output can be compared to the character.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import io
import itertools
import pickle

import torch
import torch.utils.benchmark as benchmark
from torch.utils.benchmark import Compare, FuzzedParameter, FuzzedTensor, Fuzzer, Measurement
from torch.utils.benchmark.utils.common import TaskSpec, select_unit, trim_sigfig

class Loop:
    def __init__(self, stmt, setup, timer, globals):
        self.seconds = 1e-6 * (1 + len(stmt) + len(globals.get("x", ())))
        self.noise = itertools.cycle([1.0, 1.02, 0.97, 1.3])

    def timeit(self, number):
        return self.seconds * number * next(self.noise)

class Timer(benchmark.Timer):
    _timer_cls = Loop

results = []
for size, threads in itertools.product([1, 64], [1, 2]):
    for stmt in ("x.mul(x).sum(-1)", "torch.mv(x, x)"):
        timer = Timer(
            stmt,
            globals={"x": torch.ones(size)},
            label="dot",
            sub_label=stmt,
            description=f"[{size}]",
            num_threads=threads,
        )
        results.append(timer.blocked_autorange(min_run_time=0.01))
print(results[0])
compare = Compare(results)
compare.print()
compare.trim_significant_figures()
compare.colorize()
compare.highlight_warnings()
compare.print()

kept = io.BytesIO()
for env in ("A: before", "B: after"):
    measured = Timer("x + 1", setup="x = 1", env=env, description="add").adaptive_autorange()
    pickle.dump(measured, kept)
kept.seek(0)
loaded = [pickle.load(kept) for _ in range(2)]
both = Compare(loaded)
both.colorize(rowwise=True)
both.print()

heard = []
runs = [Timer("pass").timeit(n) for n in (10, 10)]
(merged,) = Measurement.merge(runs)
Timer("pass").blocked_autorange(callback=lambda n, t: heard.append(n), min_run_time=0.01)
print(merged, len(heard), select_unit(merged.median), trim_sigfig(123.4, 2))
made = Measurement(10, [1.0, 1.5, 4.0], TaskSpec("f()", "pass", num_threads=3), {"by": "hand"})
print(made, made.iqr, made.significant_figures, made.has_warnings, made.metadata)

fuzzer = Fuzzer(
    parameters=[FuzzedParameter("k", 1, 100, "loguniform"), FuzzedParameter("n", 2, 9, "uniform")],
    tensors=[FuzzedTensor("x", size=("k", "n"), min_elements=8, probability_contiguous=0.5)],
    seed=7,
)
for tensors, properties, params in fuzzer.take(4):
    print(params, properties["x"], tensors["x"].sum().item())
print(fuzzer.rejection_rate)

for wrong in (
    lambda: benchmark.Timer("x", language="rust"),
    lambda: benchmark.Timer("x", global_setup="y"),
    lambda: benchmark.Timer("x = = 1"),
    lambda: benchmark.Timer("1 / 0").timeit(1),
    lambda: benchmark.Timer().repeat(),
    lambda: benchmark.Timer().autorange(),
    lambda: benchmark.CopyIfCallgrind(object()),
    lambda: FuzzedParameter("k", distribution="normal"),
    lambda: made.no_such_statistic,
):
    try:
        wrong()
    except Exception as error:
        kinds = SyntaxError, ZeroDivisionError, NotImplementedError, AttributeError, AssertionError
        print(next(kind.__name__ for kind in (*kinds, ValueError) if isinstance(error, kind)))
"""


@pytest.fixture(scope="module")
def torchs_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    return output_of(tmp_path_factory.mktemp("torch"), SCRIPT)


def output_of(folder: Path, source: str, *options: str) -> str:
    script = folder / "script.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, *options, str(script)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    # The one difference: a class is shown with its module and its place in memory.
    return re.sub(r"<[\w.]+\.(\w+) object at 0x\w+>", r"<\1>", done.stdout)


def test_a_script_prints_the_same_under_the_patch(torchs_output: str, tmp_path: Path) -> None:
    assert output_of(tmp_path, SCRIPT, "-m", "torchmark.patch") == torchs_output


def test_a_script_prints_the_same_with_its_import_replaced(
    torchs_output: str, tmp_path: Path
) -> None:
    replaced = SCRIPT.replace("torch.utils.benchmark", "torchmark")
    assert output_of(tmp_path, replaced) == torchs_output
    assert torchs_output.count("<Measurement>") == 3
    assert "\033[92m" in torchs_output
