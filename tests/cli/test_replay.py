"""`torchmark replay` as people call it: killed children, Ctrl-C, SIGKILL, mistakes."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_cli import HEEDING_CTRL_C, site
from tests.replay_traces import product, relu, write_trace
from torchmark.cli import cli
from torchmark.cli.shell import ExitCode, code_of
from torchmark.errors import TorchmarkError
from torchmark.store import open_store

QUICK = ("--budget", "0.01")


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def descendants(of: int, generations: int) -> list[int]:
    """Processes so many generations below; any thread may have started one."""
    found = [of]
    for _ in range(generations):
        files = [each for pid in found for each in Path("/proc", str(pid)).glob("task/*/children")]
        found = []
        for file in files:
            with contextlib.suppress(OSError):  # it has just ended
                found += map(int, file.read_text().split())
    return found


def started(*args: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-u", "-m", "torchmark", "replay", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": site()},
    )


def wait_for_first_result(running: subprocess.Popen[str]) -> None:
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("[1/"):
            return
    pytest.fail("no call was measured")


LONG = ("--budget", "60")
"""Seconds, of which the large product takes as many as it is given."""


def test_a_child_that_is_killed_costs_its_row_alone(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, relu(64), product(3000), relu(65))
    running = started(str(trace), *LONG, "--csv", "replay.csv", cwd=tmp_path)
    wait_for_first_result(running)
    limit = time.monotonic() + 60
    while not (children := descendants(running.pid, 3)):  # below the zygote and the keeper
        assert time.monotonic() < limit, "no child was seen"
    os.kill(children[0], signal.SIGKILL)
    _, errors = running.communicate(timeout=900)
    assert running.returncode == 3, errors
    rows = rows_of(tmp_path / "replay.csv")
    assert len(rows) == 3
    # Which call the child ran depends on when it was seen; the first one had its result already.
    (failed,) = (row for row in rows if row["status"] != "done")
    assert failed["status"] == "failed"
    assert failed is not rows[0]
    assert "SIGKILL" in failed["reason"]


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, relu(64), product(3000), relu(65))
    running = started(str(trace), *LONG, "--csv", "replay.csv", "--html", "r.html", cwd=tmp_path)
    wait_for_first_result(running)
    assert rows_of(tmp_path / "replay.csv")[0]["status"] == "done", "written as it comes"
    running.send_signal(signal.SIGINT)
    shown, errors = running.communicate(timeout=900)
    assert running.returncode == 130, errors
    assert "1 replayed, 2 not measured; the calls of a step take" in shown
    assert "interrupted" in errors
    assert [row["status"] for row in rows_of(tmp_path / "replay.csv")] == [
        "done", "not measured", "not measured",
    ]  # fmt: skip
    assert (tmp_path / "r.html").exists()


def test_a_replay_that_was_killed_goes_on_and_has_every_result_once(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, *map(relu, range(100, 130)))
    running = started(str(trace), *QUICK, "--store", "s.db", cwd=tmp_path)
    wait_for_first_result(running)
    running.kill()
    running.communicate(timeout=900)
    with open_store(tmp_path / "s.db") as store:
        (before,) = [store.run(summary.id) for summary in store.runs()]
    assert 1 <= len(before.results) < 30
    trace.unlink()
    going_on = started("--resume", before.id, "--store", "s.db", "--csv", "all.csv", cwd=tmp_path)
    shown, errors = going_on.communicate(timeout=900)
    assert going_on.returncode == 0, errors
    assert "30 replayed; the calls of a step take" in shown
    assert [row["status"] for row in rows_of(tmp_path / "all.csv")] == ["done"] * 30
    with open_store(tmp_path / "s.db") as store:
        after = store.run(before.id)
    assert after.results[: len(before.results)] == before.results
    assert sorted(each.case.id for each in after.results) == sorted(
        each.case.id for each in after.plan
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--backend", "tpu"), "unknown backend 'tpu'; choose from: eager, compile, ort"),
        (("--backend", ","), "a replay needs at least one backend"),
        (("--mode", "order"), "the trace has no order of calls; use mode hot"),
        (("--mode", "order", "--backend", "eager,ort"), "mode order measures only times"),
        (("--count", "--backend", "ort"), "add eager to the backends"),
        (("-k", "nothing_like_it"), "none of the 1 distinct calls matches"),
        (("--csv", "/no/such/folder/x.csv"), "/no/such/folder/x.csv cannot be written"),
        (("--top", "0"), "--top must be a whole number"),
        (("--budget", "-1"), "--budget must be"),
        (("--resume", "latest"), "leave TRACE out"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(
    tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    with pytest.raises(TorchmarkError) as caught:
        cli(["replay", str(write_trace(tmp_path, relu(4))), *args], standalone_mode=False)
    assert said in str(caught.value)
    assert code_of(caught.value) is ExitCode.USAGE


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "is empty"), ("import os\n", "is not a trace"), (None, "has no calls")],
)
def test_what_is_no_trace_is_told(tmp_path: Path, content: str | None, said: str) -> None:
    trace = write_trace(tmp_path, order=[])
    if content is not None:
        trace.write_text(content)
    with pytest.raises(TorchmarkError) as caught:
        cli(["replay", str(trace)], standalone_mode=False)
    assert said in str(caught.value)
    assert code_of(caught.value) is ExitCode.USAGE


def test_options_of_a_run_that_goes_on_are_not_given_again() -> None:
    with pytest.raises(TorchmarkError, match="leave --budget out"):
        cli(["replay", "--resume", "latest", "--budget", "0.1"], standalone_mode=False)
