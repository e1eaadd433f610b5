"""`torchmark time` and `count` with statements that raise, crash, hang, exit and print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner, Result

from tests.cli.test_cli import HEEDING_CTRL_C, QUICK, site, torchmark_command
from tests.engine.zygote_cases import is_gone, wait_until
from torchmark.cli import cli
from torchmark.model.codec import decode_run
from torchmark.model.result import Status

if TYPE_CHECKING:
    from pathlib import Path

GOOD = ("torch.ones(1)", "torch.ones(2)")

BAD = {
    "1 / 0": "the case raised: ZeroDivisionError: division by zero",
    "import os; os.abort()": "crashed its process with SIGABRT",
    "import ctypes; ctypes.string_at(0)": "crashed its process with SIGSEGV",
    "import os; os._exit(3)": "ended its process with status 3",
    "import os; os.close(2)": "OSError: [Errno 9] Bad file descriptor",
    "import os; os.closerange(0, 1000)": "closed the file descriptor",
    "import sys; sys.exit(0)": "the case raised: SystemExit: 0",
    "while True: pass": "stopped at its time limit of 1 s",
}


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args, catch_exceptions=False)


def test_a_bad_statement_costs_itself_alone(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    texts = (GOOD[0], *BAD, GOOD[1])
    timed = run("time", *texts, "--timeout", "1", "--save", "--store", store, *QUICK)
    assert timed.exit_code == 3
    for text, reason in BAD.items():
        (told,) = [part for part in timed.stderr.split("torchmark: ") if part.startswith(text)]
        assert reason in told
        assert reason not in timed.stdout, "once is enough"
    assert "Compared with torch.ones(1): 1 " in timed.stdout
    assert "Failures" not in timed.stdout
    shown = run("show", "--store", store)
    assert all(reason in " ".join(shown.stdout.split()) for reason in BAD.values())
    exported = decode_run(run("export", "--format", "json", "--store", store).stdout)
    statuses = {each.case.stmt: each.status for each in exported.results}
    assert statuses == dict.fromkeys(GOOD, Status.DONE) | dict.fromkeys(BAD, Status.FAILED)


@pytest.mark.parametrize("stmt", ["import os; os.abort()", "import os; os.close(2)"])
def test_one_bad_statement_alone_is_an_error_without_a_table(stmt: str) -> None:
    done = torchmark_command("time", stmt)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"torchmark: {stmt} failed: the case ")


def test_json_is_a_record_whatever_fails() -> None:
    timed = run("time", "import os; os.abort()", "--json")
    assert timed.exit_code == 3
    (result,) = decode_run(timed.stdout).results
    assert result.reason == "the case crashed its process with SIGABRT"


def test_a_global_setup_that_crashes_is_told_of_every_statement() -> None:
    timed = run("time", *GOOD, "--global-setup", "import os; os.abort()")
    assert timed.exit_code == 3
    assert timed.stderr.count("crashed its process with SIGABRT") == len(GOOD)


def test_what_each_statement_prints_is_kept_with_it_and_not_passed_through() -> None:
    """Megabytes of it; what the first one prints is not taken for the other's."""
    loud = "print('loud' * 1000)"
    from_c = "import ctypes; ctypes.CDLL(None).puts(b'from C')"
    timed = run("time", loud, from_c, "--json", "--min-run-time", "0.1")
    assert (timed.exit_code, timed.stderr) == (0, "")
    one, other = decode_run(timed.stdout).results
    assert one.stdout.startswith("loudloud")
    assert "bytes left out" in one.stdout
    assert len(one.stdout) < 70_000
    assert set(other.stdout.split("\n")) <= {"from C", ""} or "bytes left out" in other.stdout
    assert "loud" not in other.stdout


def test_the_end_of_the_output_is_shown_with_the_error() -> None:
    stmt = "import sys; print('said ' + 'it'); print('com' + 'plained', file=sys.stderr); 1 / 0"
    timed = run("time", "print('no' + 'body')", stmt, *QUICK)
    assert "the end of its output:\nsaid it\n" in timed.stderr
    assert "the end of its standard error:\ncomplained\n" in timed.stderr
    assert "nobody" not in timed.stderr


def test_the_variables_of_the_user_reach_the_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_USER", "set")
    stmt = "assert os.environ['OF_THE_USER'] == 'set' and os.path.expanduser('~') != '/'"
    assert run("time", stmt, "-s", "import os", *QUICK).exit_code == 0


def test_ctrl_c_ends_the_command_and_what_it_started(tmp_path: Path) -> None:
    stmt = "open(mine, 'w').write(str(os.getpid())); time.sleep(900)"
    mine = tmp_path / "began"
    os.mkfifo(mine)
    with subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark", "time", stmt,
         "-s", f"import os, time; mine = {str(mine)!r}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": site()},
    ) as command:  # fmt: skip
        statement = int(mine.read_text())
        os.killpg(command.pid, signal.SIGINT)
        stdout, stderr = command.communicate(timeout=60)
    assert (command.returncode, stdout) == (130, "")
    assert "interrupted" in stderr
    wait_until(lambda: is_gone(statement))


SNIPPET = """
import dataclasses
class Plain: pass
assert Plain.__module__ == "__main__"
@dataclasses.dataclass
class Point:
    x: "int" = 1
def f(x: torch.Tensor) -> torch.Tensor:
    return x + 1
scripted = torch.jit.script(f)
one = torch.ones(1)
"""


@pytest.mark.parametrize("option", ["--setup", "--global-setup"])
def test_classes_dataclasses_and_torchscript_can_be_made_in_a_setup(option: str) -> None:
    stmt = "scripted(one); Plain(); Point()\nclass Inner: pass"
    timed = run("time", stmt, option, SNIPPET, *QUICK)
    assert timed.exit_code == 0, timed.stderr


def test_statements_are_counted_beside_bad_ones() -> None:
    """With what a setup defines; a statement that is bad in its first run or in a later one."""
    bad = {
        "1 / 0": "ZeroDivisionError",
        "import os; os.abort()": "SIGABRT",
        "import os; os.close(2)": "Bad file descriptor",
        "while True: pass": "stopped at its time limit of 20 s",
    }
    texts = ("scripted(one)", *bad, "Plain()")
    counted = run("count", *texts, "-s", SNIPPET, "--timeout", "20", "--json", "--number", "10")
    assert counted.exit_code == 3
    for text, reason in bad.items():
        (told,) = [part for part in counted.stderr.split("torchmark: ") if part.startswith(text)]
        assert reason in told
    results = decode_run(counted.stdout).results
    assert [each.case.stmt for each in results] == list(texts)
    assert [each.status is Status.DONE for each in results] == [text not in bad for text in texts]
    assert len(json.loads(counted.stdout)["table"]) == 2


def test_what_torch_lacks_is_skipped_and_still_an_error_of_who_asked_for_it() -> None:
    done = run("time", "torch.no_such(1)", "1", *QUICK)
    assert done.exit_code == 3
    told = f"torchmark: torch.no_such(1) skipped: torch {torch.__version__} has no torch.no_such\n"
    assert done.stderr == told
    assert "no_such" not in done.stdout
