"""Files of users that are run in a process of their own, with real aborts, exits and hangs."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.cli.test_cli import torchmark_command
from torchmark.cli import cli
from torchmark.define.skips import EnvironmentFacts
from torchmark.define.suites.loading import cases_of, load_suite
from torchmark.define.sweep.spec import read_spec
from torchmark.engine.user_files import read_suites, read_sweep
from torchmark.errors import SuiteFileError, SuiteNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "from torchmark import GroupedModules, GroupedStmts, TimerArgs, skip_if\n"

RICH = f"""{HEAD}
print("noise")
SUITE = {{
    "linear": GroupedModules(
        "model = torch.nn.Linear(n, 4)", "auto model = torch::nn::Linear(n, 4);",
        signature="f(x) -> y, (h, c)", torchscript=True, params={{"n": [4, 8]}},
    ),
    "new": TimerArgs("torch.func.vmap", skip=skip_if(missing="torch.func", reason="not there")),
    "pair": GroupedStmts("x + 1", "x + 1;", num_threads=(1, 2)),
}}
"""

BAD = {
    "import os; os.abort()": "crashed with SIGABRT while loading",
    "import ctypes; ctypes.string_at(0)": "crashed with SIGSEGV while loading",
    "import os; os._exit(0)": "exited with 0 while loading",
    "raise SystemExit": "SystemExit",
    "import os; os.closerange(3, 100)": "exited with 1 while loading",
    "while True: pass": "was stopped after 10 s because it did not finish loading",
}

SWEEP = """
def model(x, *, times):
    return x * times

model_init_params = ["times"]
input_params = [["batch", 3]]
input_scales = {"batch": [1, 2], "times": [2]}
job_configs = ["pt fp32 forward", "ort fp16"]
"""


def test_what_a_file_defines_is_the_same_as_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "bench_rich.py").write_text(RICH)
    here = load_suite(str(tmp_path))
    apart = load_suite(str(tmp_path), read_suites)
    assert apart == here
    assert apart.features_asked() == {"torch.func"}
    facts = EnvironmentFacts(features={"torch.func": False})
    assert [case.skip for case in cases_of([apart], facts=facts)].count("not there") == 1


def test_a_bad_file_costs_itself_alone(tmp_path: Path) -> None:
    for number, text in enumerate(["", *BAD, ""]):
        definition = f"add = GroupedStmts('x + {number}')\n"
        (tmp_path / f"bench_{number}.py").write_text(f"{text}\n{HEAD}{definition}")
    suite = load_suite(str(tmp_path), partial(read_suites, time_limit=5.0))
    assert [case.stmt for case in cases_of([suite])] == ["x + 0", f"x + {len(BAD) + 1}"]
    assert [failure.reason for failure in suite.failures] == list(BAD.values())
    files = [os.path.basename(failure.file) for failure in suite.failures]
    assert files == [f"bench_{number}.py" for number in range(1, len(BAD) + 1)]


def test_a_mistake_keeps_its_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "bench_wrong.py"
    file.write_text("x = 1\ny = = 2\n")
    (failure,) = load_suite(str(file), read_suites).failures
    assert str(failure) == str(load_suite(str(file)).failures[0])
    assert failure.line == 2


def test_a_module_that_is_not_there_is_told() -> None:
    with pytest.raises(SuiteNotFoundError, match="there is no suite 'no_such_module'"):
        load_suite("no_such_module", read_suites)


def test_a_folder_that_a_suite_adds_is_there_for_its_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "bench_path.py"
    file.write_text(f"import sys\nsys.path.insert(0, 'added')\n{HEAD}add = GroupedStmts('x + 1')")
    assert not load_suite(str(file), read_suites).failures
    assert sys.path[0] == "added"


def test_a_sweep_is_the_same_as_in_this_process(tmp_path: Path) -> None:
    file = tmp_path / "sweep.py"
    file.write_text(SWEEP)
    assert read_sweep(file) == read_spec(file)
    assert "return x * times" in read_sweep(file).model_source


def test_what_is_valid_is_decided_by_the_code_of_the_file_for_the_sizes_that_are_set(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sweep.py"
    file.write_text(f"{SWEEP}\nvalid = lambda batch: batch % 3 == 0\n")
    read = read_sweep(file, sizes={"batch": (3, 4, 6), "times": (2,)})
    assert (read.scales["batch"], read.places, read.valid) == ((3, 4, 6), (0, 2), None)
    assert read_sweep(file).places is None, "a run that goes on has its points already"
    with pytest.raises(SuiteFileError, match=r"sweep\.py: no point is left, because valid is"):
        read_sweep(file, sizes={"batch": (4,)})
    with pytest.raises(SuiteFileError, match="no dimension 'm'; the dimensions are batch"):
        read_sweep(file, sizes={"m": (4,)})


@pytest.mark.parametrize("text", ["import os; os.abort()", "while True: pass"])
def test_a_sweep_that_cannot_be_loaded_is_an_error_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sweep.py"
    file.write_text(text + SWEEP)
    with pytest.raises(SuiteFileError, match=r"sweep\.py: (crashed with SIGABRT|was stopped)"):
        read_sweep(file, time_limit=5.0)


def test_the_commands_tell_and_go_on(tmp_path: Path) -> None:
    """What a file prints is not part of the JSON."""
    (tmp_path / "bench_bad.py").write_text("import os; os.abort()")
    (tmp_path / "bench_good.py").write_text(RICH)
    done = torchmark_command("list", ".", "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("{")
    assert done.stderr.splitlines() == [
        "noise",
        "torchmark: bench_bad.py: crashed with SIGABRT while loading",
    ]
    (tmp_path / "sweep.py").write_text("import os; os.abort()")
    done = torchmark_command("sweep", "sweep.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "torchmark: sweep.py: crashed with SIGABRT while loading\n"


def test_the_limit_of_a_run_is_that_of_loading_too(tmp_path: Path) -> None:
    (tmp_path / "bench_hangs.py").write_text("while True: pass")
    store = str(tmp_path / "runs.db")
    hung = CliRunner().invoke(
        cli, ["run", str(tmp_path / "bench_hangs.py"), "--timeout", "2", "--store", store]
    )
    assert "was stopped after 10 s" in str(hung.exception)  # which any file may take
