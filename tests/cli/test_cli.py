"""The command as people call it: in a process of its own, from anywhere, with real torch."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click import Context
from click.testing import CliRunner

import torchmark
from torchmark.cli import cli
from torchmark.errors import InvalidArgumentError
from torchmark.model.codec import decode_run
from torchmark.model.result import Timing

if TYPE_CHECKING:
    from collections.abc import Sequence

HEEDING_CTRL_C = (shutil.which("env") or "env", "--default-signal=INT,HUP")
"""Shells let what they start in the background ignore Ctrl-C, nohup lets it ignore the end of the
terminal, and that is inherited."""

QUICK = ("--min-run-time", "0.005")


def torchmark_command(
    *args: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": site()} | environment,
        check=False,
        timeout=900,
    )


def site() -> str:
    return str(Path(torchmark.__file__).resolve().parent.parent)


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": site()},
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import torchmark; dir(torchmark)",
        "import torchmark; torchmark.Compare; torchmark.Measurement",
        "from torchmark.cli import cli; cli(['--help'], standalone_mode=False)",
    ],
)
def test_neither_the_import_nor_the_help_imports_torch_or_numpy(code: str) -> None:
    assert {"torch", "numpy", "sqlalchemy", "rich"}.isdisjoint(modules_after(code))


def test_the_help_costs_no_more_than_starting_python_and_click_several_times() -> None:
    """A ratio, since machines differ: 0.25 s of CPU is the promise, some five bare starts."""

    def cpu_seconds(arguments: Sequence[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(arguments, check=True, capture_output=True,
                       env=os.environ | {"PYTHONPATH": site()})  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = min(cpu_seconds([sys.executable, "-c", "import click"]) for _ in range(5))
    full = min(cpu_seconds([sys.executable, "-m", "torchmark", "--help"]) for _ in range(5))
    assert full < 3 * bare


def test_one_statement_is_timed_from_any_directory(tmp_path: Path) -> None:
    done = torchmark_command("time", "x + x", "-s", "x = torch.ones(4)", *QUICK, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "x + x" in done.stdout
    assert "95 % interval" in done.stdout
    assert list(tmp_path.iterdir()) == []


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, args, catch_exceptions=False)
    return result.exit_code, result.output


def test_several_statements_are_a_table_with_ratios_to_the_first() -> None:
    many = "for _ in range(20): x.sum()"  # so much slower that a busy machine does not hide it
    code, text = run("time", "x.sum()", many, "-s", "x = torch.ones(4)", "--min-run-time", "0.2")
    assert code == 0
    assert "Ratio to x.sum()" in text
    assert "slower" in text
    assert "\033[" not in text, "no colours in a pipe"


def test_the_same_statement_twice_is_two_rows() -> None:
    code, text = run("time", "torch.ones(1)", "torch.ones(1)", *QUICK)
    assert code == 0
    assert "#2" in text.split()


def test_the_description_is_the_title_of_the_column() -> None:
    assert "four by four" in run("time", "1", "--description", "four by four", *QUICK)[1]


def test_a_statement_of_several_lines_is_one_row() -> None:
    code, text = run("time", "x = 1\ny = x", "pass", *QUICK)
    assert code == 0
    assert "x = 1; y = x" in text


def test_json_has_every_sample_and_the_ratios() -> None:
    code, text = run("time", "torch.ones(1)", "torch.ones(2)", "--json", *QUICK)
    assert code == 0
    timings = [each.payload for each in decode_run(text).results]
    assert all(isinstance(each, Timing) for each in timings)
    rounds = {len(each.processes[0].wall) for each in timings if isinstance(each, Timing)}
    assert len(rounds) == 1
    _, second = json.loads(text)["table"]
    assert second["ratio_low"] <= second["ratio"] <= second["ratio_high"]


def test_nothing_is_stored_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert run("time", "torch.ones(1)", *QUICK)[0] == 0
    assert list(tmp_path.iterdir()) == []
    for option in (["--tag", "mine"], ["--store", "runs.db"]):
        with pytest.raises(InvalidArgumentError, match="add --save"):
            run("time", "1", *option, *QUICK)


def test_a_saved_run_is_shown_again_as_it_was_printed(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    options = ("--save", "--tag", "sums", "--store", store)
    code, printed = run("time", "x.sum()", "x + x", "-s", "x = torch.ones(4)", *options, *QUICK)
    assert code == 0
    assert run("show", "sums", "--store", store) == (0, printed)
    kept = json.loads(run("runs", "--json", "--store", store)[1])
    assert [(each["kind"], each["tags"], each["done"]) for each in kept] == [("time", ["sums"], 2)]


def test_a_store_that_cannot_be_used_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    done = torchmark_command("time", "print('measured')", "--save", "--store", str(tmp_path))
    assert done.returncode == 4
    assert "measured" not in done.stdout + done.stderr


def test_threads_are_those_asked_for() -> None:
    stmt = "assert torch.get_num_threads() == 2"
    assert run("time", stmt, "--threads", "2", *QUICK)[0] == 0


def test_the_global_setup_is_run_once_and_its_names_are_global() -> None:
    setup = "import itertools\ncount = itertools.count()\nnext(count)\ndef f(): return next(count)"
    code, _ = run("time", "f()", "assert f() > 0", "--global-setup", setup, *QUICK)
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["time", "x = = 1"], ["the statement does not compile", "    x = = 1\n        ^"]),
        (["time", "1", "-s", "y = 2\nif y"], ["the setup does not compile", "(line 2)"]),
        (["time", "1", "--global-setup", "def"], ["the global setup does not compile"]),
        (["time", "return 1"], ["'return' outside function", "    return 1\n    ^"]),
        (["time", "1", "--min-run-time", "0"], ["--min-run-time must be finite and above zero"]),
        (["time", "1", "--min-run-time", "nan"], ["--min-run-time"]),
        (["time", "1", "--threads", "0"], ["--threads must be a whole number of at least 1"]),
        (["time", "1", "--threads", "-3"], ["--threads must be a whole number of at least 1, got"]),
        (["time", "f(3)", "-s", "def f(n):\n  return 1 / (n - 3)"],
         ["In the statement, line 1:\n    f(3)", "In the setup, line 2:", "ZeroDivisionError"]),
        (["time", "no_such_name"], ["NameError: name 'no_such_name' is not defined"]),
        (["time", "1", "--global-setup", "1 / 0"], ["In the global setup, line 1:"]),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_message_and_nothing_that_looks_like_a_result(
    arguments: list[str], says: list[str]
) -> None:
    done = torchmark_command(*arguments)
    is_a_wrong_number = "--min-run-time" in arguments or "--threads" in arguments
    assert done.returncode == (2 if is_a_wrong_number else 3)
    assert done.stdout == ""
    assert done.stderr.startswith("torchmark: ")
    assert "Traceback" not in done.stderr
    for text in says:
        assert text in done.stderr


@pytest.mark.parametrize(
    "arguments", [["time"], ["time", "1", "--no-such-option"], ["tiem"], ["time", "1", "--threads"]]
)
def test_a_wrong_call_is_a_usage_error(arguments: list[str]) -> None:
    code, text = run(*arguments)
    assert code == 2
    assert "Error: " in text


EVIL = "a\x1b[31mb\x1b]0;c\x07d\r\ne\u009b2Jf\u202eg"
"""Would colour the terminal, change its title, clear it and turn the line around."""


@pytest.mark.parametrize(
    "arguments",
    [
        ["time", "1", *QUICK, "--description", EVIL],
        ["time", f"raise ValueError({EVIL!r})"],
        ["time", f"raise ValueError('''{EVIL}''')"],
        ["time", "1", f"--{EVIL}"],
        [f"list{EVIL}"],
        ["list", EVIL],
        ["summary", EVIL],
        ["show", EVIL, "--store", EVIL],
        ["list", "-k", f"({EVIL}"],
        ["sweep", EVIL],
        ["time", "1", *QUICK, "--description", EVIL, "--json"],
    ],
)
def test_no_text_of_the_user_controls_the_terminal(arguments: list[str], tmp_path: Path) -> None:
    done = torchmark_command(*arguments, cwd=tmp_path)
    assert done.returncode in (0, 2, 3)
    assert not set(done.stdout + done.stderr) & set("\x1b\x07\r\x9b\u202e")


def test_a_description_stays_on_its_line() -> None:
    done = torchmark_command("time", "1", *QUICK, "--description", "a\nb\tc")
    assert "  a b c" in done.stdout


def test_the_version_is_the_packages() -> None:
    assert run("--version") == (0, f"torchmark, version {torchmark.__version__}\n")


def test_every_command_has_a_help() -> None:
    for command in cli.list_commands(Context(cli)):
        code, text = run(command, "--help")
        assert code == 0
        assert "Usage:" in text


def test_doctor_names_every_part() -> None:
    code, text = run("doctor")
    assert code == 0
    parts = [line.split()[0] for line in text.splitlines()]
    assert parts == ["torchmark", "torch", "clock", "valgrind", "compiler", "py-spy", "cores",
                     "noise"]  # fmt: skip


def test_doctor_says_what_a_missing_tool_would_give(tmp_path: Path) -> None:
    done = torchmark_command("doctor", PATH=str(tmp_path))
    counting = "needed to count instructions: apt-get install valgrind"
    assert f"valgrind   missing  {counting}" in done.stdout
    assert "compiler   missing" in done.stdout


def test_without_torch_doctor_and_time_say_why(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    path = f"{tmp_path}{os.pathsep}{site()}"
    doctor = torchmark_command("doctor", PYTHONPATH=path)
    assert doctor.returncode == 4
    assert "torch      missing" in doctor.stdout
    timed = torchmark_command("time", "1", PYTHONPATH=path)
    assert timed.returncode == 4
    assert "no torch here" in timed.stderr


def test_the_reader_of_a_pipe_may_leave_early() -> None:
    command = f"{sys.executable} -m torchmark time 1 {' '.join(QUICK)} | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": site()})  # fmt: skip
    assert "Traceback" not in done.stderr


def test_a_statement_that_leaves_python_is_a_failure() -> None:
    done = torchmark_command("time", "sys.exit(0)", "-s", "import sys")
    assert done.returncode == 3
    assert "SystemExit" in done.stderr


def test_json_stays_json_when_a_statement_prints() -> None:
    done = torchmark_command("time", "print('noise')", "--json", *QUICK)
    record = json.loads(done.stdout)
    assert record["table"][0]["statement"] == "print('noise')"
    assert record["table"][0]["median"] > 0


def test_modules_beside_the_user_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("x = 1")
    done = torchmark_command("time", "beside.x", "-s", "import beside", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_several_setups_are_joined() -> None:
    assert run("time", "x + y", "-s", "x = 1", "-s", "y = x", *QUICK)[0] == 0


def test_an_endless_recursion_is_shown_in_few_lines() -> None:
    done = torchmark_command("time", "f()", "-s", "def f(): return f()")
    assert "RecursionError" in done.stderr
    assert len(done.stderr.splitlines()) < 40


def test_a_full_disk_is_told() -> None:
    command = f"{sys.executable} -m torchmark time 1 {' '.join(QUICK)} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": site()})  # fmt: skip
    assert done.returncode == 4
    assert "cannot write the output" in done.stderr


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("SIGINT", 130, "interrupted"),
        ("SIGTERM", 143, "terminated"),
        ("SIGHUP", 129, "terminated"),
    ],
)
def test_a_signal_while_timing_says_so_and_has_the_code_that_shells_give(
    name: str, code: int, said: str
) -> None:
    done = time_while_signalled(name, "; signal.pause()")
    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == f"torchmark: {said}"


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    """As nohup has it."""
    done = time_while_signalled("SIGHUP", before="trap '' HUP;")
    assert done.returncode == 0, done.stderr


def time_while_signalled(
    name: str, then: str = "", before: str = ""
) -> subprocess.CompletedProcess[str]:
    """The statement sends the signal to the process of the command."""
    stmt = f'import os, signal; os.kill(int(os.environ["TORCHMARK_PID"]), signal.{name}){then}'
    command = f"{before} export TORCHMARK_PID=$$; exec {sys.executable} -m torchmark time "
    return subprocess.run([*HEEDING_CTRL_C, "bash", "-c", f"{command} '{stmt}' {' '.join(QUICK)}"],
                          capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": site()})  # fmt: skip


@pytest.mark.parametrize("args", [["--no-color"], ["schema", "--no-color"]])
def test_colors_can_be_turned_off_with_an_option(
    args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.delenv("NO_COLOR")
    result = CliRunner().invoke(cli, [*args, *([] if len(args) > 1 else ["schema"])])
    assert result.exit_code == 0
    assert os.environ["NO_COLOR"] == "1"


def test_every_command_can_do_without_colors() -> None:
    context = Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    ladder = cli.get_command(context, "overrides").commands["ladder"]  # type: ignore[union-attr]
    for name, command in {**commands, "ladder": ladder}.items():
        assert command is not None
        assert sum(each.name == "no_color" for each in command.params) == 1, name
