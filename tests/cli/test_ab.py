"""`torchmark ab` as people call it: real environments, real zygotes, mistakes of every kind.

Where a promise is about the command, both environments have a torch that starts in no time.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from benchmarks.instruction_counts.main import arguments_for_torchmark
from tests import light_torch
from tests.cli.test_cli import HEEDING_CTRL_C, site, torchmark_command
from tests.engine.test_old_torch import OLD_PYTHON
from tests.engine.zygote_cases import wait_until
from tests.patched_torch import sitecustomize
from torchmark.analyse.ab import judge_counts
from torchmark.cli import ab as ab_module
from torchmark.model.codec import decode_run
from torchmark.model.result import Metric, PairedTiming, Status
from torchmark.model.run import FEWEST_REPLICATES, RunState
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchmark.model.result import Result
    from torchmark.model.run import Run

QUICK = ("--time", "--budget", "0.01")
"""A budget that is over with the fewest replicates."""


def ab(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark", "ab", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": site(), "COLUMNS": "100"} | environment,
        check=False,
        timeout=900,
    )


def run_in(file: Path) -> Run:
    return decode_run(file.read_text())


def planned_in(run: Run) -> list[Result]:
    """All but a control, for which there is time on a machine that is slow enough."""
    return [each for each in run.results if each.metric is not Metric.CONTROL]


def timing_of(result: Result) -> PairedTiming:
    assert isinstance(result.payload, PairedTiming)
    return result.payload


@pytest.fixture
def light(tmp_path: Path) -> str:
    """The source command of an environment that starts quickly."""
    return light_torch.put_into(tmp_path / "light")


@pytest.fixture(scope="module")
def patched(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[subprocess.CompletedProcess[str], Run]]:
    """A torch and the same with a `relu` that does a little more; and the run."""
    folder = tmp_path_factory.mktemp("patched")
    light_torch.put_into(folder, "def relu(x):\n    return x * 2\n")
    # The length of a variable moves where objects lie, and then more layouts are needed: minutes.
    with tempfile.TemporaryDirectory() as nothing, tempfile.TemporaryDirectory() as patch:
        slower = sitecustomize("torch", "relu", more="for _ in range(200): pass")
        (Path(patch) / "sitecustomize.py").write_text(slower)
        done = ab(
            "--A", f"export PYTHONPATH={folder}:{nothing}",
            "--B", f"export PYTHONPATH={folder}:{patch}",
            "--stmt", "torch.relu(8)", "--stmt", "x + x", "--setup", "x = 8", "--count",
            "--fail-on", "slower", "--json", "ab.json",
            cwd=folder, XDG_CACHE_HOME=str(folder), XDG_DATA_HOME=str(folder),
        )  # fmt: skip
        yield done, run_in(folder / "ab.json")


Patched = tuple[subprocess.CompletedProcess[str], "Run"]


def verdicts(run: Run) -> dict[str, str]:
    """By statement; two that are close differ no more than layouts do."""
    found = {each.case.stmt: judge_counts(each).verdict.value for each in run.results}
    return {stmt: "same" if verdict == "close" else verdict for stmt, verdict in found.items()}


def test_by_its_count_a_function_that_does_more_fails_the_check_and_nothing_else_does(
    patched: Patched,
) -> None:
    done, run = patched
    assert done.returncode == 1, done.stderr
    assert verdicts(run) == {"torch.relu(8)": "more", "x + x": "same"}


def test_the_report_names_the_function_and_what_sets_the_two_apart(patched: Patched) -> None:
    done, _ = patched
    assert "relu" in done.stdout.partition("bytecodes")[2].splitlines()[1], done.stdout
    assert "_PyEval_EvalFrameDefault" in done.stdout
    assert "the same installation of torch, with other variables (PYTHONPATH)" in " ".join(
        done.stdout.split()
    )


def test_by_its_time_a_function_that_does_more_fails_the_check_and_is_named(tmp_path: Path) -> None:
    relu = "def relu(n):\n    return sum(range(n))\n"
    more = "def relu(n):\n    return sum(sum(range(n)) for _ in range(100))\n"
    done = ab(
        "--A", light_torch.put_into(tmp_path / "a", relu),
        "--B", light_torch.put_into(tmp_path / "b", more),
        "--stmt", "torch.relu(50)", "--time", "--fail-on", "slower", "--json", "ab.json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (result,) = planned_in(run_in(tmp_path / "ab.json"))
    assert not timing_of(result).same_files
    assert "slower" in done.stdout
    assert "relu (torch/__init__.py)" in done.stdout.partition("bytecodes")[2]


def test_two_statements_give_a_table_and_every_document(tmp_path: Path, light: str) -> None:
    done = ab(
        "--A", light, "--A-stmt", "sum(x)", "--B-stmt", "sum(x * 99)", "--setup", "x = [1] * 50",
        "--time", "--quiet", "--json", "ab.json", "--csv", "ab.csv", "--markdown", "ab.md",
        "--html", "ab.html", cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), "the result alone, on stdout"
    assert "Times" in done.stdout
    assert "slower" in done.stdout
    assert "\033[" not in done.stdout, "no colours in a pipe"
    assert "no difference is expected" not in " ".join(done.stdout.split())
    (result,) = planned_in(run_in(tmp_path / "ab.json"))
    assert result.other is not None
    assert (result.case.stmt, result.other.stmt) == ("sum(x)", "sum(x * 99)")
    assert len(timing_of(result).replicates) >= FEWEST_REPLICATES
    assert timing_of(result).same_files, "one environment for both"
    (row,) = csv.DictReader((tmp_path / "ab.csv").read_text().splitlines())
    assert row["verdict"] == "slower"
    assert 1 < float(row["low"]) < float(row["low_95"]) < float(row["high_95"]) < float(row["high"])
    assert float(row["level"]) == 0.99, "of a case that is judged alone"
    for name in ("ab.md", "ab.html"):
        assert "slower" in (tmp_path / name).read_text()
    assert len(list(tmp_path.iterdir())) == 5, "four documents and the environment"


def test_an_old_torch_of_another_python_is_compared_with_this_one(tmp_path: Path) -> None:
    folder = shlex.quote(str(Path(OLD_PYTHON).parent))
    done = ab(
        "--A", f"export PATH={folder}", "--stmt", "x + x", "--setup", "x = torch.ones(4)", *QUICK,
        "--json", "ab.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = run_in(tmp_path / "ab.json")
    versions = [str(each.fact("torch", "version")) for each in run.environments]
    assert versions[0].startswith("1.")
    assert versions[1].startswith("2.")
    assert all(version in done.stdout for version in versions)
    (result,) = planned_in(run)
    assert timing_of(result).a_seconds > 0
    assert len(timing_of(result).replicates) == FEWEST_REPLICATES


def test_what_one_environment_lacks_is_skipped_in_every_format(tmp_path: Path) -> None:
    folder = shlex.quote(str(Path(OLD_PYTHON).parent))
    done = ab(
        "--A", f"export PATH={folder}", "--stmt", "torch.func.vmap(torch.neg)(torch.ones(4))",
        *QUICK, "--json", "ab.json", "--csv", "ab.csv", "--markdown", "ab.md", "--html", "ab.html",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (result,) = run_in(tmp_path / "ab.json").results
    assert result.status is Status.SKIPPED
    assert re.fullmatch(r"in A: torch 1\.\S+ has no torch\.func", result.reason)
    (row,) = csv.DictReader((tmp_path / "ab.csv").read_text().splitlines())
    assert (row["status"], row["reason"]) == ("skipped", result.reason)
    texts = [done.stdout, *((tmp_path / name).read_text() for name in ("ab.md", "ab.html"))]
    for text in texts:
        assert "1 skipped, 0 failed" in text
        assert "has no torch.func" in " ".join(text.replace("\\", "").split())
        assert "AttributeError" not in text


def test_a_failing_statement_costs_itself_alone_and_the_third_environment_is_compared_too(
    tmp_path: Path, light: str
) -> None:
    done = ab(
        "--env", f"base={light}", "--env", f"twin={light}", "--env", f"other={light} BREAK=1",
        "--stmt", "1 / (1 - int(os.environ.get('BREAK', 0)))", "--stmt", "sum(range(50))",
        "--setup", "import os", *QUICK, "--json", "ab.json", "--patch-a", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    run = run_in(tmp_path / "ab.json")
    assert [each.environments for each in run.plan] == [("base", "twin")] * 2 + [
        ("base", "other")
    ] * 2
    found = {(each.case.stmt[0], each.environments[1]): each for each in planned_in(run)}
    assert [found[key].status for key in (("1", "twin"), ("s", "twin"))] == [Status.DONE] * 2
    failed, measured = found["1", "other"], found["s", "other"]
    assert failed.status is Status.FAILED
    assert failed.reason.startswith("in other: the case raised: ZeroDivisionError")
    assert len(timing_of(measured).replicates) >= FEWEST_REPLICATES
    text = " ".join(done.stdout.split())
    assert "no difference is expected" in text
    assert "twin compared with base; other compared with base" in text
    assert "ZeroDivisionError" in text
    assert "[4/4]" in done.stderr
    assert any(note.startswith("base: the Timer is now in") for note in run.notes)
    assert (tmp_path / "light" / "torch" / "utils_backport").is_dir()


def test_a_statement_that_hangs_on_one_side_is_a_failed_case_and_the_others_go_on(
    tmp_path: Path, light: str
) -> None:
    """One in its first run, one after many thousands."""
    hangs = "os.environ.get('HANG')"
    done = ab(
        "--A", light, "--B", f"{light} HANG=1", "--setup", "import os; n = 0",
        "--stmt", f"while {hangs}: pass",
        "--stmt", f"n += 1\nwhile n > 200_000 and {hangs}: pass",
        "--stmt", "sum(range(50))", *QUICK, "--timeout", "8", "--json", "ab.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    run = run_in(tmp_path / "ab.json")
    assert run.settings["effort"]["timeout"] == 8
    found = {each.case.stmt[0]: each for each in planned_in(run)}
    assert found["s"].status is Status.DONE
    for name in "wn":
        assert found[name].status is Status.FAILED
        limit = (
            "the case was stopped at its time limit of 8 s; raise the timeout if it needs longer"
        )
        assert found[name].reason == f"in B: {limit}"


def cut_short(number: signal.Signals, tmp_path: Path, light: str) -> tuple[str, str, Run]:
    """Two comparisons, ended by a signal after the first result; what was said and is stored."""
    store = tmp_path / "store.db"
    names = [part for name in "abc" for part in ("--env", f"{name}={light}")]
    running = subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark", "ab", *names, "--stmt", "1", *QUICK,
         "--store", str(store), "--markdown", "ab.md"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": site()},
    )  # fmt: skip
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("[1/"):
            running.send_signal(number)
            break
    shown, said = running.communicate(timeout=900)
    assert running.returncode == (130 if number is signal.SIGINT else -number)
    with open_store(store) as opened:
        return shown, said, opened.run("latest")


def finish(run: Run, tmp_path: Path) -> tuple[Run, str]:
    """Resume it; every result is then there once, and the finished ones are as they were."""
    done = ab("--resume", run.id, "--store", str(tmp_path / "store.db"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 measurement left" in done.stderr
    with open_store(tmp_path / "store.db") as opened:
        whole = opened.run(run.id)
    assert whole.state is RunState.FINISHED
    assert sorted(str(each.key) for each in planned_in(whole)) == sorted(
        str(each.key) for each in run.plan
    )
    assert whole.results[: len(run.results)] == run.results
    return whole, done.stdout


def test_who_interrupts_gets_what_is_there_and_can_go_on(tmp_path: Path, light: str) -> None:
    shown, said, run = cut_short(signal.SIGINT, tmp_path, light)
    assert "b compared with a" in shown
    assert "Traceback" not in said
    assert f"Resume with: torchmark ab --resume {run.id} --store" in said
    assert run.state is RunState.INTERRUPTED
    assert len(run.results) == 1
    assert "b compared with a" in (tmp_path / "ab.md").read_text()
    finish(run, tmp_path)


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "terminated")],
)
def test_what_was_measured_of_the_cases_under_way_is_kept_and_shown_and_measured_again(
    tmp_path: Path, light: str, number: signal.Signals, said: str
) -> None:
    """Each process of a case writes a byte: 4 tries, then four bytes for a crossover."""
    file = tmp_path / "processes"
    setup = f"open({str(file)!r}, 'a').write('.')"
    running = subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark", "ab", "--A", light, "--B", light,
         "--stmt", "1", "--stmt", "sum(range(50))", "--setup", setup, "--time",
         "--store", "store.db", "--json", "ab.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": site()},
    )  # fmt: skip
    wait_until(lambda: file.exists() and file.stat().st_size >= 4 + 4 * 6)
    running.send_signal(number)
    shown, told = running.communicate(timeout=900)
    assert running.returncode == 128 + number, told
    assert "Traceback" not in told
    assert f"torchmark: {said}; 0 of 2 results are stored, and 2 in part\nResume with: " in told
    with open_store(tmp_path / "store.db") as store:
        run = store.run("latest")
        assert [(each.partial, each.done) for each in store.runs()] == [(2, 0)]
    assert run_in(tmp_path / "ab.json") == run
    assert [each.status for each in run.results] == [Status.PARTIAL] * 2
    for each in run.results:
        replicates = timing_of(each).replicates
        assert sum(map(len, replicates)) >= 2
        assert each.reason.startswith(f"cut short after {len(replicates)} replicate")
    text = " ".join(shown.split())
    assert "2 cut short; 0 skipped, 0 failed." in text
    assert "--resume measures it again." in text
    assert "no case was measured completely" in text

    done = ab("--resume", run.id, "--store", "store.db", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 measurements left" in done.stderr
    assert "cut short" not in done.stdout
    with open_store(tmp_path / "store.db") as store:
        whole = planned_in(store.run(run.id))
    assert [each.status for each in whole] == [Status.DONE] * 2
    assert all(len(timing_of(each).replicates) >= FEWEST_REPLICATES for each in whole)


def test_a_run_that_was_killed_goes_on_with_what_is_missing(tmp_path: Path, light: str) -> None:
    shown, _, run = cut_short(signal.SIGKILL, tmp_path, light)
    assert shown == ""
    assert run.state is RunState.RUNNING
    assert len(run.results) == 1
    _, text = finish(run, tmp_path)
    assert "not measured" not in text
    assert " ".join(text.split()).count("of 1 case") == 2


def test_an_environment_that_breaks_meanwhile_costs_nothing_that_is_there(
    tmp_path: Path, light: str
) -> None:
    flag = tmp_path / "flag"
    breaking = light_torch.put_into(
        tmp_path / "breaking",
        f"import os\nif os.path.exists({str(flag)!r}): raise OSError('libfoo.so.3 is gone')",
    )
    break_it = f"open({str(flag)!r}, 'w').close()"
    done = ab("--A", light, "--B", breaking, "--stmt", "1 / 0", "--stmt", break_it, *QUICK,
              "--store", "store.db", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 4
    assert "ZeroDivisionError" in done.stdout
    assert "OSError: libfoo.so.3 is gone" in done.stderr
    with open_store(tmp_path / "store.db") as store:
        run = store.run("latest")
    assert f"Resume with: torchmark ab --resume {run.id}" in done.stderr
    kept = [each.status for each in run.results]
    assert kept[0] is Status.FAILED
    # With two crossovers before its environment broke, the other case has a partial result.
    assert kept[1:] in ([], [Status.PARTIAL])
    assert break_it in [each.case.stmt for each in run.missing()]


def test_an_environment_without_torch_ends_it_before_anything_is_measured(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    done = ab("--B", f"export PATH={tmp_path}:$PATH", "--stmt", "pass", *QUICK, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "ModuleNotFoundError: No module named 'torch'" in done.stderr
    assert "activation command of B" in done.stderr
    assert "[1/" not in done.stderr


def test_a_torch_that_cannot_be_imported_ends_it_before_anything_is_measured(
    tmp_path: Path, light: str
) -> None:
    broken = light_torch.put_into(tmp_path / "broken", "raise OSError('libfoo.so.3: cannot open')")
    done = ab("--A", light, "--B", broken, "--stmt", "pass", *QUICK, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "OSError: libfoo.so.3: cannot open" in done.stderr
    assert "[1/" not in done.stderr


def test_a_source_command_that_fails_is_shown_with_what_it_said(tmp_path: Path) -> None:
    done = ab("--B", "source no-such-env", "--stmt", "pass", *QUICK, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "the activation command of B failed" in done.stderr
    assert "no-such-env" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stmt", "pass"], "say what to compare"),
        ([], "say what to compare"),
        (["--A", "true", "--env", "nonsense"], "'nonsense' is not NAME=CMD"),
        (["--A", "true", "--env", "=true"], "'=true' is not NAME=CMD"),
        (["--env", "one=true"], "two environments with different names, not one"),
        (["--env", "one=true", "--env", "one=false"], "two environments are called one"),
        (["--A-stmt", "pass"], "give a statement for both A and B"),
        (["--B-stmt", "pass", "--A", "true"], "give a statement for both A and B"),
        (["--A", "true", "--suite", "standard", "--stmt", "pass"], "not both"),
        (["--suite", "standard", "--A-stmt", "1", "--B-stmt", "2"], "not both"),
        (["--A", "true", "--suite", "nowhere.py"], "nowhere.py"),
        (["--A", "true", "--stmt", "pass", "--budget", "-1"], "--budget"),
        (["--A", "true", "--stmt", "pass", "--detect", "0.5"], "not a percentage above zero"),
        (["--A", "true", "--stmt", "pass", "--detect", "0.1%"], "detect must be above 0.1 %"),
        (["--A", "true", "--stmt", "pass", "--json", "no/such/x.json"], "cannot be written"),
        (["--A", "true", "--stmt", "pass", "--html", "."], "directory"),
        (["--A", "true", "--stmt", "pass", "--fail-on", "rain"], "--fail-on"),
        (["--resume", "latest", "--A", "true"], "leave --A out"),
        (["--resume", "latest", "--env", "C=true"], "leave --env out"),
        (["--resume", "latest", "--A-stmt", "pass"], "leave --A-stmt out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_told_before_anything_starts(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = ab(*arguments, "--time", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pattern_that_leaves_nothing_is_wrong_usage(tmp_path: Path, light: str) -> None:
    done = ab("--A", light, "--B", light, "-k", "no such case", "--time", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no case is left to compare" in done.stderr


def test_without_valgrind_a_count_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("bash", "env"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    done = ab("--A", "true", "--stmt", "pass", "--count", cwd=tmp_path, PATH=str(tmp_path / "bin"))
    assert done.returncode == 4
    assert "install the package 'valgrind'" in done.stderr


def test_unpatch_only_removes(tmp_path: Path, light: str) -> None:
    done = ab("--A", light, "--B", light, "--unpatch", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("nothing was done") == 2


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], ["run"]),
        (["--no_cpp", "-k", "add"], ["run", "--no-cpp", "-k", "add"]),
        (["--mode", "A/B", "--A", "x"], ["ab", "--A", "x"]),
        (["--A", "x", "--mode=A/B"], ["ab", "--A", "x"]),
        (["--mode", "ab"], ["ab"]),
        (["--mode", "A/B", "--patch_a", "--patch_b"], ["ab", "--patch-a", "--patch-b"]),
        (["--mode", "A/B", "--backtesting"], ["ab", "--backtest"]),
        (["--mode", "A/B", "--B", "source x=1"], ["ab", "--B", "source x=1"]),
    ],
)
def test_the_spellings_of_the_seeds_are_understood(given: list[str], meant: list[str]) -> None:
    assert arguments_for_torchmark(given) == meant


@pytest.mark.parametrize("given", [["--mode"], ["--mode", "C/D"], ["--mode=C/D"]])
def test_another_mode_is_refused(given: list[str]) -> None:
    with pytest.raises(SystemExit, match="--mode is A/B or left out"):
        arguments_for_torchmark(given)


def test_main_in_its_folder_does_what_torchmark_does() -> None:
    folder = Path(__file__).parents[2] / "benchmarks" / "instruction_counts"
    done = subprocess.run(
        [sys.executable, "main.py", "--mode", "A/B", "--help-quick"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": site()},
        check=False,
        timeout=900,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "torchmark ab" in done.stderr
    assert "--help-quick" in done.stderr


def test_the_help_shows_how_environments_are_given() -> None:
    done = torchmark_command("ab", "--help")
    assert done.returncode == 0
    assert 'torchmark ab --A "source activate base"' in done.stdout


def test_the_options_of_the_command_are_those_of_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {}

    def fake_ab(**options: object) -> None:
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(ab_module, "ab", fake_ab)
    arguments = ["--A", "a", "--env", "C=c d=e", "--suite", "s", "-k", "add", "--time",
                 "--no-cpp", "--patch-b", "--backtest", "--budget", "3", "--detect", "0.5%",
                 "--timeout", "7", "--tag", "t", "--import", "m"]  # fmt: skip
    told = CliRunner().invoke(ab_module.ab_command, arguments)
    assert told.exit_code != 0
    progress = given.pop("progress")
    assert callable(progress)
    assert given == {
        "timeout": 7.0,
        "A": "a", "B": None, "environments": {"C": "c d=e"}, "suites": ("s",), "pattern": "add",
        "statements": (), "setup": "pass", "a_stmt": None, "b_stmt": None,
        "metrics": [Metric.TIME], "cpp": False, "patch": ["B"], "backtest": True, "budget": 3.0,
        "detect": 0.005,
        "tags": ("t",), "store": None, "resume": None, "imports": ("m",),
    }  # fmt: skip
