"""`torchmark ab` as people call it: real environments, real zygotes, mistakes of every kind.

Where a promise is about the command, both environments have a torch that starts in no time.
"""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from benchmarks.instruction_counts.main import arguments_for_torchmark
from tests import light_torch
from tests.cli.test_cli import HEEDING_CTRL_C, site, torchmark_command
from tests.engine.test_old_torch import OLD_PYTHON
from tests.patched_torch import sitecustomize
from torchmark.analyse.pairs import FEWEST_PAIRS, LAYOUT_EFFECT
from torchmark.cli import ab as ab_command

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK = ("--time", "--budget", "0.01")
"""A budget that is over with the fewest pairs."""


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


def results_in(file: Path) -> list[dict[str, Any]]:
    """The results of the only comparison in a JSON document."""
    (comparison,) = json.loads(file.read_text())["comparisons"]
    results: list[dict[str, Any]] = comparison["results"]
    return results


@pytest.fixture
def light(tmp_path: Path) -> str:
    """The source command of an environment that starts quickly."""
    return light_torch.put_into(tmp_path / "light")


@pytest.fixture(scope="module")
def patched(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]]:
    """A torch beside itself with a `relu` that does a little more; and the JSON of it."""
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
        yield done, results_in(folder / "ab.json")


Patched = tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]


def verdicts(results: list[dict[str, Any]]) -> dict[str, str]:
    """By statement; two that are close differ no more than layouts do."""
    found = {each["case"]["stmt"]: each["meaning"]["verdict"] for each in results}
    return {stmt: "same" if verdict == "close" else verdict for stmt, verdict in found.items()}


def test_by_its_count_a_function_that_does_more_fails_the_check_and_nothing_else_does(
    patched: Patched,
) -> None:
    done, results = patched
    assert done.returncode == 1, done.stderr
    assert verdicts(results) == {"torch.relu(8)": "more", "x + x": "same"}


def test_the_report_names_the_function_and_what_sets_the_two_apart(patched: Patched) -> None:
    done, _ = patched
    assert "relu" in done.stdout.partition("bytecodes")[2].splitlines()[0], done.stdout
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
    (result,) = results_in(tmp_path / "ab.json")
    assert result["times"]["layout_effect"] == LAYOUT_EFFECT, "the two load different files"
    assert "slower" in done.stdout
    assert "bytecodes  relu (torch/__init__.py)" in done.stdout


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
    (result,) = results_in(tmp_path / "ab.json")
    assert (result["case"]["stmt"], result["other"]["stmt"]) == ("sum(x)", "sum(x * 99)")
    assert len(result["times"]["pairs"]) >= FEWEST_PAIRS
    assert result["times"]["layout_effect"] == 0, "one environment for both"
    (row,) = csv.DictReader((tmp_path / "ab.csv").read_text().splitlines())
    assert row["verdict"] == "slower"
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
    (comparison,) = json.loads((tmp_path / "ab.json").read_text())["comparisons"]
    versions = [comparison[side]["facts"]["torch"]["version"] for side in ("a", "b")]
    assert versions[0].startswith("1.")
    assert versions[1].startswith("2.")
    assert all(version in done.stdout for version in versions)
    (result,) = comparison["results"]
    assert result["times"]["a_seconds"] > 0
    assert len(result["times"]["pairs"]) == FEWEST_PAIRS


def test_a_failing_statement_costs_itself_alone_and_the_third_environment_is_compared_too(
    tmp_path: Path, light: str
) -> None:
    done = ab(
        "--env", f"base={light}", "--env", f"twin={light}", "--env", f"other={light} BREAK=1",
        "--stmt", "1 / (1 - int(os.environ.get('BREAK', 0)))", "--stmt", "sum(range(50))",
        "--setup", "import os", *QUICK, "--json", "ab.json", "--patch-a", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    first, second = json.loads((tmp_path / "ab.json").read_text())["comparisons"]
    assert [each["b"]["name"] for each in (first, second)] == ["twin", "other"]
    assert [result["outcome"] for result in first["results"]] == ["done", "done"]
    assert "no difference is expected" in first["remarks"][0]
    failed, measured = second["results"]
    assert failed["outcome"] == "failed"
    assert failed["reason"].startswith("in other: the case raised: ZeroDivisionError")
    assert len(measured["times"]["pairs"]) >= FEWEST_PAIRS
    assert "twin beside base" in done.stdout
    assert "other beside base" in done.stdout
    assert "FAILED" in done.stdout.partition("other beside base")[2]
    assert "[2/2] time   sum(range(50))" in done.stderr
    assert "base: the Timer is now in" in done.stderr
    assert (tmp_path / "light" / "torch" / "utils_backport").is_dir()


def test_who_interrupts_gets_what_is_there(tmp_path: Path, light: str) -> None:
    """Each process takes another time for the statements, so that times would never be clear."""
    data = tmp_path / "data"
    running = subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-u", "-m", "torchmark", "ab", "--A", light, "--B", light,
         "--stmt", "sum(range(n))", "--stmt", "max(range(n))", "--setup",
         "import os; n = 9 ** (os.getpid() % 4)", "--count", "--time", "--budget", "600",
         "--markdown", "ab.md"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": site(), "XDG_DATA_HOME": str(data)},
    )  # fmt: skip
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("[2/"):
            running.send_signal(signal.SIGINT)
            break
    shown, said = running.communicate(timeout=900)
    assert running.returncode == 130
    assert "Instructions" in shown
    assert "Traceback" not in said
    (kept,) = (data / "torchmark" / "ab").iterdir()
    assert f"interrupted; the figures are in {kept}" in said
    (comparison,) = json.loads(kept.read_text())["comparisons"]
    assert comparison["is_complete"] is False
    assert [result["kind"] for result in comparison["results"]] == ["count", "count"]
    assert "Instructions" in (tmp_path / "ab.md").read_text()


def test_an_environment_that_breaks_meanwhile_costs_nothing_that_is_there(
    tmp_path: Path, light: str
) -> None:
    flag, data = tmp_path / "flag", tmp_path / "data"
    breaking = light_torch.put_into(
        tmp_path / "breaking",
        f"import os\nif os.path.exists({str(flag)!r}): raise OSError('libfoo.so.3 is gone')",
    )
    break_it = f"open({str(flag)!r}, 'w').close()"
    done = ab("--A", light, "--B", breaking, "--stmt", "1 / 0", "--stmt", break_it, *QUICK,
              cwd=tmp_path, XDG_DATA_HOME=str(data))  # fmt: skip
    assert done.returncode == 4
    assert "ZeroDivisionError" in done.stdout
    (kept,) = (data / "torchmark" / "ab").iterdir()
    assert "OSError: libfoo.so.3 is gone" in done.stderr
    assert f"Until then: the figures are in {kept}" in done.stderr
    assert [result["outcome"] for result in results_in(kept)] == ["failed"]


def test_an_environment_without_torch_ends_it_before_anything_is_measured(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    done = ab("--B", f"export PATH={tmp_path}:$PATH", "--stmt", "pass", *QUICK, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "ModuleNotFoundError: No module named 'torch'" in done.stderr
    assert "source command of B" in done.stderr
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
    assert "the source command of B failed" in done.stderr
    assert "no-such-env" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stmt", "pass"], "say what is to be compared"),
        ([], "say what is to be compared"),
        (["--A", "true", "--env", "nonsense"], "'nonsense' is not NAME=CMD"),
        (["--A", "true", "--env", "=true"], "'=true' is not NAME=CMD"),
        (["--env", "one=true"], "two environments with different names, got one"),
        (["--env", "one=true", "--env", "one=false"], "different names, got one, one"),
        (["--A-stmt", "pass"], "--A-stmt and --B-stmt come together"),
        (["--B-stmt", "pass", "--A", "true"], "--A-stmt and --B-stmt come together"),
        (["--A", "true", "--suite", "standard", "--stmt", "pass"], "not both"),
        (["--suite", "standard", "--A-stmt", "1", "--B-stmt", "2"], "not both"),
        (["--A", "true", "--suite", "nowhere.py"], "nowhere.py"),
        (["--A", "true", "--stmt", "pass", "--budget", "-1"], "--budget"),
        (["--A", "true", "--stmt", "pass", "--json", "no/such/x.json"], "cannot be written"),
        (["--A", "true", "--stmt", "pass", "--html", "."], "directory"),
        (["--A", "true", "--stmt", "pass", "--fail-on", "rain"], "--fail-on"),
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


def test_ctrl_c_before_anything_was_compared_names_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(ab_command, "compare_all", lambda *_, **__: KeyboardInterrupt())
    told = CliRunner().invoke(ab_command.command, ["--A-stmt", "1", "--B-stmt", "2"])
    assert told.exit_code == 130
    assert told.output == "torchmark: interrupted before anything was compared\n"
    assert not list(tmp_path.rglob("*.json"))
