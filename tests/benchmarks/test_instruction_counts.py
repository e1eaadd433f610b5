"""Files of PyTorch's instruction-count suite, which import from its folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torchmark

FOLDER = Path(__file__).parents[2] / "benchmarks" / "instruction_counts"

NAMES = {
    "core.api": "AutoLabels AutogradMode GroupedBenchmark GroupedModules GroupedSetup GroupedStmts "
    "GroupedVariants RuntimeMode TimerArgs",
    "core.expand": "materialize",
    "core.types": "Definition FlatDefinition FlatIntermediateDefinition Label",
    "core.utils": "flatten get_temp_dir parse_stmts",
    "definitions.setup": "Setup",
    "definitions.standard": "BENCHMARKS",
    "execution.runner": "Runner",
    "execution.work": "WorkOrder",
    "worker.main": "WorkerFailure WorkerOutput WorkerTimerArgs",
}

DEFINITIONS = '''
from core.api import GroupedModules, GroupedStmts, GroupedVariants, TimerArgs
from core.types import FlatIntermediateDefinition
from core.utils import flatten, parse_stmts
from definitions.setup import Setup

BENCHMARKS: FlatIntermediateDefinition = flatten({
    ("Pointwise", "Math"): {
        "add": {
            None: GroupedStmts("x + 1", "x + 1;", Setup.TRIVIAL_2D.value),
            "in place": TimerArgs("x += 1", "x = torch.ones(1)"),
        },
        None: GroupedVariants("""
            # @Setup
            x = torch.ones((4, 4))

            # @views
            x.view(-1)
            x.t()
        """),
    },
    "chain": GroupedStmts(
        *parse_stmts("""
            Python                                   | C++
            ---------------------------------------- | ----------------------------------------
            y = x * w0                               | auto y = x * w0;
                                                     | // nothing
            z = y.relu()                             | auto z = y.relu();
        """),
        Setup.TRAINING.value,
        signature="f(x, w0) -> z",
        torchscript=True,
        autograd=True,
        num_threads=(1, 2),
    ),
})
'''


def run_there(script: str, *arguments: str) -> Any:
    """The JSON that a script prints which is run as one of the folder's own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=FOLDER,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_names_are_where_its_users_import_them() -> None:
    script = """
import importlib, json, sys
wanted = json.loads(sys.argv[1])
print(json.dumps([
    f"{module}.{name}"
    for module, names in wanted.items()
    for name in names.split()
    if not hasattr(importlib.import_module(module), name)
]))
"""
    assert run_there(script, json.dumps(NAMES)) == []


def test_a_file_of_that_suite_expands_as_there(tmp_path: Path) -> None:
    """Labels and order are those that the original gives for these definitions."""
    (tmp_path / "mine.py").write_text(DEFINITIONS)
    script = """
import json, sys
sys.path.append(sys.argv[1])
from core.expand import materialize
from execution.work import WorkOrder
from mine import BENCHMARKS
print(json.dumps([str(WorkOrder(*each)) for each in materialize(BENCHMARKS)]))
"""
    orders = [json.loads(each) for each in run_there(script, str(tmp_path))]
    plain = {"runtime": "Eager", "autograd": "Forward"}
    python, cpp = {"language": "Python"}, {"language": "C++"}
    math = ["Pointwise", "Math"]
    assert [(each["label"], each["autolabels"]) for each in orders[:5]] == [
        ([*math, "add"], plain | python),
        ([*math, "add"], plain | cpp),
        ([*math, "add", "in place"], {"runtime": "", "autograd": "", "language": "Python"}),
        ([*math, "views", "Case:  0"], plain | python),
        ([*math, "views", "Case:  1"], plain | python),
    ]
    assert [
        (*each["autolabels"].values(), each["num_threads"]) for each in orders if len(orders) == 21
    ][5:] == [
        (runtime, autograd, language, threads)
        for runtime in ("Eager", "TorchScript")
        for autograd in ("Forward", "Forward + Backward")
        for language in ("Python", "C++")
        for threads in (1, 2)
    ]


def test_a_scripted_statement_of_that_suite_runs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(DEFINITIONS)
    script = """
import json, sys
sys.path.append(sys.argv[1])
from core.api import Language, RuntimeMode
from core.expand import materialize
from mine import BENCHMARKS
from torchmark import Timer
print(json.dumps([
    Timer(args.stmt, args.setup).timeit(2).median > 0
    for _, labels, args in materialize(BENCHMARKS)
    if labels.runtime is RuntimeMode.JIT and labels.language is Language.PYTHON
]))
"""
    assert run_there(script, str(tmp_path)) == [True] * 4


@pytest.mark.parametrize(
    "table",
    [
        "x | y",
        "Python | C++\n--- | ---\nx | y",
        f"Python{' ' * 35}| C++\n{'-' * 40} | {'-' * 40}",
        f"Python{' ' * 35}| C++\n{'-' * 40} | {'-' * 40}\nx | y",
    ],
)
def test_a_table_that_is_none_is_refused(table: str) -> None:
    script = """
import json, sys
from core.utils import parse_stmts
try:
    parse_stmts(sys.argv[1])
except ValueError as error:
    print(json.dumps(type(error).__name__))
"""
    assert run_there(script, table) == "DefinitionError"


def test_the_standard_suite_is_there_by_full_labels() -> None:
    script = """
import json
from definitions.standard import BENCHMARKS
print(json.dumps([" / ".join(label) for label in BENCHMARKS]))
"""
    labels = run_there(script)
    assert len(labels) == 72
    assert "Pointwise / Math / add / Case:  0" in labels


@pytest.mark.parametrize("name", ["BENCHMARKS", "ADHOC_BENCHMARKS"])
def test_the_variable_of_that_suite_is_no_part_of_labels(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(DEFINITIONS.replace("BENCHMARKS", name))
    done = subprocess.run(
        [sys.executable, "-m", "torchmark", "list", str(tmp_path / "mine.py"), "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(FOLDER)])},
        check=True,
        capture_output=True,
        text=True,
    )
    assert '"Pointwise"' in done.stdout
    assert "BENCHMARKS" not in done.stdout


def test_the_runner_of_that_suite_times_and_counts() -> None:
    script = """
import json
import worker.main
worker.main.MIN_RUN_TIME = 0.01
from core.api import AutogradMode, AutoLabels, Language, RuntimeMode, TimerArgs
from execution.runner import Runner
from execution.work import WorkOrder
labels = AutoLabels(RuntimeMode.EXPLICIT, AutogradMode.EXPLICIT, Language.PYTHON)
orders = [WorkOrder(("add",), labels, TimerArgs("x + 1", "x = 1")) for _ in range(2)]
results = Runner(orders).run()
print(json.dumps([[min(r.wall_times) > 0, r.instructions] for r in results.values()]))
"""
    first, second = run_there(script)
    assert first == second
    assert first[0]
    assert len(first[1]) == 5
    assert (
        torchmark.Timer("x + 1", "x = 1")
        .collect_callgrind(collect_baseline=False)
        .counts(denoise=True)
        == first[1][0]
    )
