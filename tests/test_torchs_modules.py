"""Imports from the modules of `torch.utils.benchmark`, by torchmark's name and in torch's place."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import torchmark
from torchmark import Compare, Measurement, TaskSpec, Timer

MODULES = [
    "utils.common",
    "utils.timer",
    "utils.compare",
    "utils.compile",
    "utils.fuzzer",
    "utils.sparse_fuzzer",
    "utils.cpp_jit",
    "utils.valgrind_wrapper.timer_interface",
    "op_fuzzers.binary",
    "op_fuzzers.sparse_binary",
    "op_fuzzers.sparse_unary",
    "op_fuzzers.spectral",
    "op_fuzzers.unary",
]

USED_BY_SCRIPTS = {
    "utils.common": ["_make_temp_dir", "Measurement", "TaskSpec", "select_unit", "trim_sigfig"],
    "utils.compare": ["Table", "_Row", "_Column", "Colorize", "Compare", "optional_min"],
    "utils.compile": ["bench_all", "bench_loop", "benchmark_compile"],
    "utils.fuzzer": ["dtype_size", "prod", "FuzzedParameter", "FuzzedTensor", "Fuzzer"],
    "utils.timer": ["timer", "Language", "Timer", "CPPTimer"],
    "utils.cpp_jit": ["compile_timeit_template", "compile_callgrind_template", "_get_build_root"],
    "utils.valgrind_wrapper.timer_interface": [
        "wrapper_singleton",
        "GlobalsBridge",
        "Serialization",
        "CopyIfCallgrind",
        "CallgrindStats",
        "FunctionCounts",
    ],
}
"""Also those that begin with an underscore: public scripts have them."""

METHODS_USED_BY_SCRIPTS = {
    Compare: ["_layout", "_render", "_group_by_label"],
    Timer: ["_threaded_measurement_loop", "_timeit", "_estimate_block_size", "_timer_cls"],
    Measurement: ["_lazy_init"],
    torchmark.utils.compare._Row: [
        "as_column_strings",
        "register_columns",
        "finalize_column_strings",
    ],
    torchmark.utils.compare._Column: ["get_results_for", "num_to_str"],
    torchmark.utils.compare.Table: ["populate_rows_and_columns", "render"],
}


def names_made_in(module: ModuleType) -> list[str]:
    """Public names of a module that it does not only import."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


@pytest.mark.parametrize("module", MODULES)
def test_all_public_names_of_torchs_modules_are_there(module: str) -> None:
    theirs = importlib.import_module(f"torch.utils.benchmark.{module}")
    ours = importlib.import_module(f"torchmark.{module}")
    missing = [name for name in names_made_in(theirs) if not hasattr(ours, name)]
    assert not missing


@pytest.mark.parametrize("module", USED_BY_SCRIPTS)
def test_names_that_public_scripts_use_are_there(module: str) -> None:
    ours = importlib.import_module(f"torchmark.{module}")
    assert [name for name in USED_BY_SCRIPTS[module] if not hasattr(ours, name)] == []
    with pytest.raises(AttributeError, match="no_such_name"):
        ours.no_such_name  # noqa: B018 - that is the test


@pytest.mark.parametrize("kind", METHODS_USED_BY_SCRIPTS)
def test_methods_that_public_scripts_use_are_there(kind: type) -> None:
    assert [name for name in METHODS_USED_BY_SCRIPTS[kind] if not hasattr(kind, name)] == []


def test_what_torchmark_has_is_torchmarks() -> None:
    assert torchmark.utils.common.Measurement is Measurement
    assert torchmark.utils.timer.Timer is Timer
    assert torchmark.utils.compare.Compare is Compare
    assert torchmark.utils.compare.Table.__module__ == "torch.utils.benchmark.utils.compare"


EVERY_NAME = """
import importlib, json, pkgutil, sys
import torch.utils.benchmark as package, torchmark

def names_of(module):
    return [name for name in vars(importlib.import_module(module)) if not name.startswith("__")]

theirs = [each.name for each in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
names = {module: names_of(module) for module in theirs if "compile" not in module}
if sys.argv[1:]:
    torchmark.patch_torch()
found = {}
for module, wanted in names.items():
    ours = module if sys.argv[1:] else module.replace("torch.utils.benchmark", "torchmark")
    if ".examples" in ours and not sys.argv[1:]:
        continue  # torch's scripts, and no part of an interface
    imported = importlib.import_module(ours)
    found[module] = [name for name in wanted if not hasattr(imported, name)]
print(json.dumps([len(found), {module: names for module, names in found.items() if names}]))
"""


@pytest.mark.parametrize("patch", [[], ["patch"]], ids=["by our name", "by torch's name"])
def test_every_name_of_every_module_is_there(patch: list[str]) -> None:
    """Also the private ones, and what a module imports; torch's `compile` needs `tabulate`."""
    done = subprocess.run(
        [sys.executable, "-c", EVERY_NAME, *patch], check=True, capture_output=True, text=True
    )
    modules, missing = json.loads(done.stdout)
    assert modules >= 15
    assert missing == {}


def test_names_of_the_module_that_the_patch_does_not_import_are_there_when_asked_for() -> None:
    script = (
        "import torchmark; torchmark.patch_torch(); import sys; "
        "import torch.utils.benchmark.utils.compile as ours; "
        "assert ours.bench_loop is torchmark.utils.compile.bench_loop; "
        "assert ours._default_float_32_precision == 'highest'; "
        "assert sys.modules['torch.utils.benchmark.utils.compile'] is ours"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_torchs_examples_run_after_the_patch() -> None:
    script = (
        "import torchmark; torchmark.patch_torch(); "
        "from torch.utils.benchmark.examples import simple_timeit; simple_timeit.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert "torchmark.model.measurement.Measurement" in done.stdout


@pytest.mark.parametrize("name", ["NONE", "COLUMNWISE", "ROWWISE"])
def test_torchs_table_colours_by_our_colorize_as_by_its_own(name: str) -> None:
    torchs = importlib.import_module("torch.utils.benchmark.utils.compare")
    ours, theirs = torchmark.Colorize[name], torchs.Colorize[name]
    described = [replace(SPEC, description=text) for text in "ab"]
    times = [
        Measurement(1, [at * 1e-3] * 5, spec) for at, spec in zip((1, 7), described, strict=True)
    ]
    tables = [
        torchmark.utils.compare.Table(times, colorize, False, False).render()
        for colorize in (ours, theirs)
    ]
    assert tables[0] == tables[1]
    assert ("\033[" in tables[0]) == (name != "NONE")
    assert ours == theirs == ours
    assert ours != torchmark.Metric.TIME
    assert {ours: 1}[torchmark.Colorize[name]] == 1


def test_a_subclass_with_a_stop_rule_of_its_own_measures() -> None:
    class Twice(Timer):
        def measure_twice(self) -> list[float]:
            number = self._estimate_block_size(min_run_time=1e-6)
            return self._threaded_measurement_loop(
                number, lambda: self._timeit(number), lambda times: len(times) >= 2, 0.0
            )

    assert len(Twice("pass").measure_twice()) == 2


def test_utils_is_there_without_an_import_of_its_own() -> None:
    script = "import torchmark; assert torchmark.utils.common.TaskSpec is torchmark.TaskSpec"
    subprocess.run([sys.executable, "-c", script], check=True)


SPEC = TaskSpec("x", "pass", label="one")


def results() -> list[Measurement]:
    specs = [TaskSpec(stmt, "pass", label=label) for stmt in "xy" for label in ("one", "two")]
    return [Measurement(1, [1e-6, 2e-6, 3e-6], spec) for spec in specs]


def test_the_parts_of_compare_make_the_whole() -> None:
    compare = Compare(results())
    groups = compare._group_by_label(results())
    assert list(groups) == ["one", "two"]
    assert [compare._layout(group) for group in groups.values()] == compare._render()
    assert "\n".join(compare._render()) == str(compare)
    compare._trim_significant_figures = True
    assert str(compare) != str(Compare(results()))


def test_torchs_loop_of_measurements_runs_until_both_the_time_and_the_hook_agree() -> None:
    heard: list[tuple[int, float]] = []
    times = Timer("pass")._threaded_measurement_loop(
        10,
        time_hook=lambda: 0.25,
        stop_hook=lambda so_far: len(so_far) > 5,
        min_run_time=1.0,
        callback=lambda number, seconds: heard.append((number, seconds)),
    )
    assert times == [0.25] * 6
    assert heard == [(10, 0.25)] * 6
    cut = Timer("pass")._threaded_measurement_loop(1, lambda: 1.0, lambda _: False, 1.0, 3.0)
    assert cut == [1.0] * 4


PATCHED = """
import sys
from collections.abc import Callable
import torch.utils.benchmark as benchmark
import torch.utils.benchmark.utils.common as common
from torch.utils.benchmark import Compare, Timer
from torch.utils.benchmark.op_fuzzers.unary import UnaryOpFuzzer
from torch.utils.benchmark.utils.compare import Table
from torch.utils.benchmark.utils.valgrind_wrapper.timer_interface import wrapper_singleton
import torch

result = Timer("x + 1", globals={"x": torch.ones(2)}, label="patched").timeit(10)
assert torch.utils.benchmark is benchmark
print(type(result).__module__, Timer.__module__, common.Measurement is type(result))
print(UnaryOpFuzzer.__module__, Table.__module__, callable(wrapper_singleton))
print(__name__, sys.argv[1:])
Compare([result]).print()
"""


def test_a_script_that_cannot_be_edited_gets_torchmark(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PATCHED)
    done = subprocess.run(
        [sys.executable, "-m", "torchmark.patch", "script.py", "--own", "argument"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    first, second, third, *table = done.stdout.splitlines()
    assert first == "torchmark.model.measurement torchmark.timers True"
    assert second == "torchmark.op_fuzzers.unary torch.utils.benchmark.utils.compare True"
    assert third == "__main__ ['--own', 'argument']"
    assert "patched" in table[0]


def test_after_the_patch_torchs_name_is_torchmark_everywhere() -> None:
    script = (
        "import torch.utils.benchmark as before, torchmark; torchmark.patch_torch(); "
        "torchmark.patch_torch(); import torch.utils.benchmark as after; import torch; "
        "assert before is not after is torchmark is torch.utils.benchmark; "
        "import torch.utils.benchmark.utils.fuzzer as fuzzer; "
        "assert fuzzer.Fuzzer is torchmark.Fuzzer and fuzzer.dtype_size(torch.float64) == 8"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 1), (["--help"], 0), (["not-there.py"], 1)], ids=str
)
def test_the_patch_says_what_it_needs(arguments: list[str], code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchmark.patch", *arguments],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert "torchmark.patch" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def counts(library: Any, inclusive: bool) -> Any:
    return library.FunctionCounts((library.FunctionCount(3, "a.c:f"),), inclusive)


def one_parameter(library: Any) -> Any:
    return library.FuzzedParameter("k", 1, 2, "uniform")


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "inclusive minus exclusive": lambda lib: counts(lib, True) - counts(lib, False),
    "inclusive plus exclusive": lambda lib: counts(lib, True) + counts(lib, False),
    "an entry that is not there": lambda lib: counts(lib, True)[1],
    "an unknown attribute": lambda lib: lib.Measurement(1, [1.0], lib.TaskSpec("x", "y")).other,
    "a changed spec": lambda lib: setattr(lib.TaskSpec("x", "y"), "stmt", "z"),
    "no measurement": lambda lib: str(lib.Compare([1])),
    "an unknown distribution": lambda lib: lib.FuzzedParameter("k", distribution="normal"),
    "no distribution": lambda lib: lib.FuzzedParameter("k"),
    "one name for two": lambda lib: lib.Fuzzer([one_parameter(lib)], [lib.FuzzedTensor("k", (1,))]),
    "impossible": lambda lib: list(
        lib.Fuzzer([one_parameter(lib)], [], [lambda params: params["k"] > 2]).take(1)
    ),
    "an unknown language": lambda lib: lib.Timer(language="rust"),
    "global_setup for Python": lambda lib: lib.Timer(global_setup="x"),
    "globals for C++": lambda lib: lib.Timer("x", language="c++", globals={"a": 1}),
    "no text": lambda lib: lib.Timer(3),
    "no repeats": lambda lib: lib.Timer().collect_callgrind(repeats=0),
    "repeat": lambda lib: lib.Timer().repeat(),
    "autorange": lambda lib: lib.Timer().autorange(),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_that_torch_refuses_raises_an_exception_of_its_type(mistake: str) -> None:
    with pytest.raises(Exception) as expected:
        MISTAKES[mistake](importlib.import_module("torch.utils.benchmark"))
    with pytest.raises(expected.type):
        MISTAKES[mistake](torchmark)
