"""`torchmark run` as people call it: real zygotes, a real store, failures of every kind."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.cli.test_cli import HEEDING_CTRL_C, site, torchmark_command
from torchmark.cli import cli
from torchmark.engine.under_test import Workers
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import RunState
from torchmark.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.engine.zygote.pool import ZygotePool

MANY = 24

SUITE = f"""
from torchmark import GroupedStmts, TimerArgs
SUITE = {{"many": {{f"case {{n}}": TimerArgs("x + x", "x = torch.ones({{}})".format(n + 1))
                   for n in range({MANY})}}}}
"""

BAD = """
from torchmark import GroupedStmts, TimerArgs
SUITE = {
    "fine": TimerArgs("x + 1", "x = 1"),
    "crashes": TimerArgs("import ctypes; ctypes.string_at(0)"),
    "never ends": TimerArgs("while True: pass"),
    "prints": TimerArgs("pass", "print('x' * (1 << 20))"),
    "raises": TimerArgs("pass", "import sys; sys.stderr.write('why not'); nowhere"),
    "no C++": GroupedStmts(cpp_stmt="auto y = torch::onse({2});"),
}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "bench_many.py"
    path.write_text(SUITE)
    return path


def results_in(store: Path, run: str = "latest") -> list[Result]:
    with open_store(store) as opened:
        return list(opened.run(run).results)


def started(*args: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-u", "-m", "torchmark", "run", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": site()},
    )


def stopped_after(running: subprocess.Popen[str], results: int, how: signal.Signals) -> str:
    """Send the signal when that many results were told; what stderr says after it."""
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith(f"[{results}/"):
            running.send_signal(how)
            break
    _, after = running.communicate(timeout=900)
    return after


def test_without_arguments_it_says_what_it_will_do_before_it_starts(tmp_path: Path) -> None:
    """The suite, how much, how long, where; then how to stop it and what is shorter."""
    places = {"XDG_DATA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    running = subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": site()} | places,
    )
    assert running.stderr is not None
    lines = [running.stderr.readline() for _ in range(2)]
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=900)
    assert running.returncode == 130, said
    assert re.fullmatch(
        r"standard: 181 cases, times and instruction counts, 362 measurements, about \d+ min; "
        rf"results go to {tmp_path}/\S+\n",
        lines[0],
    )
    for text in ("Ctrl-C stops the run", "run --resume latest", "run --quick", "torchmark --help"):
        assert text in lines[1]


def test_a_quick_run_says_how_long_it_takes_in_one_line(tmp_path: Path, suite: Path) -> None:
    done = torchmark_command(
        "run", str(suite), "--time", "--quick", "-k", "1", "--store", "s.db", cwd=tmp_path
    )
    first, second = done.stderr.splitlines()[:2]
    assert re.search(r": \d+ cases?, times, \d+ measurements?, about \d+ s; results go to ", first)
    assert second.startswith("run ")


def test_every_kind_of_failure_is_one_clear_row(tmp_path: Path) -> None:
    (tmp_path / "bench_bad.py").write_text(BAD)
    (tmp_path / "bench_broken.py").write_text("SUITE = {\n  'a': = 1\n}\n")
    done = torchmark_command(
        "run", ".", "--time", "--quick", "--timeout", "8", "--store", "marks.db",
        "--json", "run.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    rows = {result.case.label[0]: result for result in results_in(tmp_path / "marks.db")}
    assert len(rows) == 7
    assert rows["fine"].status is rows["prints"].status is Status.DONE
    assert len(rows["prints"].stdout) < 1 << 17
    assert "bytes left out" in rows["prints"].stdout
    reasons = {name: row.reason for name, row in rows.items() if row.status is Status.FAILED}
    assert "SIGSEGV" in reasons["crashes"]
    assert "stopped at its time limit of 8 s" in reasons["never ends"]
    assert rows["no C++"].status is Status.SKIPPED
    assert "onse" in rows["no C++"].reason
    assert "name 'nowhere' is not defined" in reasons["raises"]
    assert rows["raises"].stderr == "why not"
    assert "bench_broken.py, line 2: SyntaxError" in reasons["bench_broken.py"]
    for name in reasons:
        assert done.stdout.count(f"\n  {name}") >= 1, done.stdout
    assert len(json.loads((tmp_path / "run.json").read_text())["record"]["results"]) == 7


def test_a_suite_that_cannot_be_loaded_makes_no_run(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("SUITE = {'a': 3}\n")
    (tmp_path / "empty.py").write_text("x = 5\n")
    done = torchmark_command("run", "broken.py", "empty.py", "--store", "new.db", cwd=tmp_path)
    assert done.returncode == 2
    assert "the suite at 'a' holds 3, of type int" in done.stderr
    assert "empty.py: no benchmarks are defined" in done.stderr
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "cancelled"])
def test_who_interrupts_is_told_how_to_go_on_and_resume_does(
    tmp_path: Path, suite: Path, how: signal.Signals
) -> None:
    store = tmp_path / "marks.db"
    running = started(str(suite), "--time", "--store", str(store), cwd=tmp_path)
    after = stopped_after(running, 3, how)
    assert running.returncode == 128 + how
    with open_store(store) as opened:
        run = opened.run("latest")
    assert run.state is RunState.INTERRUPTED
    assert f"Resume with: torchmark run --resume {run.id} --store {store}" in after
    refused = torchmark_command("run", "--resume", run.id, "--time", cwd=tmp_path)
    assert refused.returncode == 2
    assert "leave --time out" in refused.stderr
    done = torchmark_command(
        "run", "--resume", run.id, "--store", str(store), "--quiet", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"{MANY} done.\n")
    assert len(results_in(store)) == MANY


def test_a_run_that_is_killed_again_and_again_is_complete_in_the_end(
    tmp_path: Path, suite: Path
) -> None:
    store = tmp_path / "marks.db"
    draw = random.Random(0)
    stopped_after(
        started(str(suite), "--time", "--store", str(store), cwd=tmp_path), 1, signal.SIGKILL
    )
    held = len(results_in(store))
    assert held >= 1
    for _ in range(3):
        resumed = started("--resume", "latest", "--store", str(store), cwd=tmp_path)
        told = draw.randint(1, 4)
        stopped_after(resumed, told, signal.SIGKILL)
        now = len(results_in(store))
        assert now >= held + told, "what was told is kept"
        held = now
    done = torchmark_command("run", "--resume", "latest", "--store", str(store), cwd=tmp_path)
    assert done.returncode == 0
    results = results_in(store)
    assert len({(result.case.id, result.metric) for result in results}) == len(results) == MANY


def test_two_runs_may_write_into_one_store(tmp_path: Path, suite: Path) -> None:
    store = tmp_path / "marks.db"
    asked = (str(suite), "--time", "--quick", "--store", str(store))
    both = [started(*asked, cwd=tmp_path) for _ in range(2)]
    for running in both:
        running.communicate(timeout=900)
    assert [running.returncode for running in both] == [0, 0]
    with open_store(store) as opened:
        assert [(run.done, run.failed) for run in opened.runs()] == [(MANY, 0)] * 2


def test_times_and_counts_of_a_case_and_its_documents(
    tmp_path: Path,
    suite: Path,
    lent_zygotes: ZygotePool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torchmark.commands.run.Workers", partial(Workers, pool=lent_zygotes))
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder of the suite comes to it
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        cli,
        ["run", str(suite), "-k", '"case 7"', "--store", "marks.db", "--tag", "mine",
         "--csv", "run.csv", "--markdown", "run.md", "--html", "run.html"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    results = results_in(tmp_path / "marks.db", "mine")
    assert {result.metric for result in results} == {Metric.TIME, Metric.INSTRUCTIONS}
    assert all(result.status is Status.DONE for result in results)
    assert "case 7" in done.stdout
    assert "[2/2]" in done.stderr
    for name in ("run.csv", "run.md", "run.html"):
        assert "case 7" in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py"], "nowhere.py"),
        (["-k", "no such case"], "no case is left"),
        (["-k", "a and"], "the pattern cannot be read"),
        (["--repeats", "-1"], "--repeats"),
        (["--detect", "half"], "'half' is not a percentage above zero, such as 0.5%"),
        (["--timeout", "-1"], "--timeout"),
        (["--budget", "0"], "--budget must be finite and above zero"),
        (["--budget", "nan"], "--budget must be finite and above zero"),
        (["--resume", "nothing"], "nothing"),
        (["--html", "no/such/folder/x.html"], "cannot be written"),
    ],
)
def test_wrong_usage_is_told_apart(
    tmp_path: Path, suite: Path, arguments: list[str], said: str
) -> None:
    others = {"nowhere.py": ["--time"], "--resume": []}
    here = others.get(arguments[0], [str(suite), "--time"])
    done = torchmark_command("run", *here, "--store", "marks.db", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_environment_without_torch_is_told_apart(tmp_path: Path, suite: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    path = f"{tmp_path}{os.pathsep}{site()}"
    done = torchmark_command("run", str(suite), "--time", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 4
    assert "torch" in done.stderr


def test_quiet_shows_the_result_with_its_failures_and_no_progress(tmp_path: Path) -> None:
    (tmp_path / "bench_one.py").write_text(
        "from torchmark import TimerArgs\nSUITE = {'a': TimerArgs('1'), 'b': TimerArgs('1 / 0')}\n"
    )
    done = torchmark_command("run", "bench_one.py", "--time", "--quiet", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr == ""
    assert "ZeroDivisionError: division by zero" in done.stdout
    assert done.stdout.endswith("1 done, 1 failed.\n")


def test_a_case_may_import_what_lies_beside_its_suite(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "beside.py").write_text("value = 3\n")
    (folder / "bench_one.py").write_text(
        "from torchmark import TimerArgs\nSUITE = {'a': TimerArgs('beside.value', 'import beside')}"
    )
    done = torchmark_command("run", "suite/bench_one.py", "--time", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_settings_of_the_project_are_used(tmp_path: Path, suite: Path) -> None:
    (tmp_path / "torchmark.toml").write_text(
        'suites = ["bench_many.py"]\nstore = "own.db"\n[run]\ncount = false\nrepeats = 2\n'
    )
    folder = tmp_path / "below"
    folder.mkdir()
    done = torchmark_command("run", "-k", '"case 3"', cwd=folder)
    assert done.returncode == 0, done.stderr
    (result,) = results_in(tmp_path / "own.db")
    assert result.measurement is not None
    assert len(result.measurement.replicates) == 2
