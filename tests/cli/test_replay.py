"""`torchmark replay` as people call it: real children, bad calls among good ones, Ctrl-C."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import HEEDING_CTRL_C, site, torchmark_command
from torchmark.cli import cli
from torchmark.cli.exit_codes import ExitCode, code_of
from torchmark.errors import TorchmarkError

RELU = "aten::relu(Tensor self) -> Tensor"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
QUICK = ("--budget", "0.01")


def tensor(*shape: int) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": "float32"}}


def relu(*shape: int) -> dict[str, Any]:
    x = tensor(*shape)
    return {"op": "aten.relu.default", "schema": RELU, "args": [x], "kwargs": {}, "outputs": x}


def product(side: int) -> dict[str, Any]:
    x = tensor(side, side)
    return {"op": "aten.mm.default", "schema": MM, "args": [x, x], "kwargs": {}, "outputs": x}


NOPE: dict[str, Any] = {
    "op": "aten.no_such_thing.default",
    "schema": None,
    "args": [],
    "kwargs": {},
}
OPAQUE = {**relu(2), "args": [{"opaque": "Secret"}]}
WRONG = {**product(2), "args": [tensor(2, 3), tensor(2, 3)]}


def written(folder: Path, *calls: dict[str, Any], order: list[int] | None = None) -> Path:
    """A trace with these calls, each once if there is an order, else counted."""
    lines: list[dict[str, Any]] = [{"trace": {"version": 1, "source": "capture"}}]
    lines += [{"call": call} for call in calls]
    lines.append({"place": {"phase": "forward", "module": "encoder"}})
    numbers = range(len(calls)) if order is None else order
    if order is None:
        lines.append({"counts": [[number, 0, 2] for number in numbers]})
    elif order:
        lines.append({"step": {"calls": order, "places": [0] * len(order)}})
    made = len(numbers) * (2 if order is None else 1)
    lines.append({"end": {"calls": made, "steps": 1, "unseen": []}})
    path = folder / "step.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_bad_calls_are_rows_with_their_reasons_beside_good_ones(tmp_path: Path) -> None:
    trace = written(tmp_path, relu(64), product(256), NOPE, OPAQUE, WRONG, relu(10**12))
    table, page = tmp_path / "replay.csv", tmp_path / "replay.html"
    done = torchmark_command(
        "replay", str(trace), *QUICK, "--csv", str(table), "--html", str(page), cwd=tmp_path
    )
    assert done.returncode == 3, done.stderr
    rows = {int(row["call"]): row for row in rows_of(table)}
    assert [rows[number]["outcome"] for number in range(6)] == [
        "done", "done", "skipped", "skipped", "failed", "skipped",
    ]  # fmt: skip
    assert float(rows[0]["seconds"]) > 0
    assert float(rows[0]["share"]) + float(rows[1]["share"]) == pytest.approx(1)
    assert (rows[1]["flops"], rows[1]["bytes"]) == (str(2 * 256**3), str(3 * 4 * 256**2))
    assert rows[0]["flops"] == ""
    assert rows[0]["nature"] == "overhead"
    assert "no operator aten.no_such_thing" in rows[2]["reason"]
    assert "Secret" in rows[3]["reason"]
    assert "TB" in rows[5]["reason"]
    assert "FAILED: the case raised: RuntimeError" in done.stdout
    assert "2 replayed, 1 failed, 3 cannot be replayed." in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "step.jsonl</h1>" in page.read_text()


def test_every_backend_has_its_time_and_is_held_against_eager(tmp_path: Path) -> None:
    table = tmp_path / "replay.csv"
    running = started(
        str(written(tmp_path, relu(64))), *QUICK, "--backend", "eager,compile,ort",
        "--csv", str(table), cwd=tmp_path,
    )  # fmt: skip
    shown, errors = running.communicate(timeout=900)
    assert running.returncode == 0, errors
    eager, *others = rows_of(table)
    assert [row["backend"] for row in others] == ["compile", "ort"]
    for row in others:
        assert float(row["largest_error"]) == 0
        assert float(row["prepare_seconds"]) > 0
        speedup = float(eager["seconds"]) / float(row["seconds"])
        assert float(row["speedup"]) == pytest.approx(speedup)
    assert "times as fast as eager, over 1 call that both have" in " ".join(shown.split())


def test_a_step_is_replayed_in_its_order_without_the_call_that_does_not_run(
    tmp_path: Path,
) -> None:
    trace = written(tmp_path, relu(64), product(64), NOPE, order=[0, 1, 0, 2, 1, 0])
    table = tmp_path / "replay.csv"
    done = torchmark_command("replay", str(trace), "--mode", "order", *QUICK, "--csv", str(table))
    assert done.returncode == 0, done.stderr
    rows = rows_of(table)
    assert [(row["op"], row["calls"], row["outcome"]) for row in rows] == [
        ("aten.relu.default", "3", "done"),
        ("aten.mm.default", "2", "done"),
        ("aten.no_such_thing.default", "1", "skipped"),
    ]
    assert rows[1]["flops"] == str(2 * 64**3)
    assert "A pass over all of them takes" in done.stdout


def test_instructions_are_counted_where_that_is_wanted(tmp_path: Path) -> None:
    trace = written(tmp_path, relu(64), relu(6400))
    table = tmp_path / "replay.csv"
    running = started(str(trace), "--count", "--csv", str(table), cwd=tmp_path)
    _, errors = running.communicate(timeout=900)
    assert running.returncode == 0, errors
    small, large = rows_of(table)
    assert 0 < float(small["instructions"]) < float(large["instructions"])
    assert small["seconds"] == ""
    assert float(small["share"]) < 0.5 < float(large["share"])


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
    trace = written(tmp_path, relu(64), product(3000), relu(65))
    running = started(str(trace), *LONG, "--csv", "replay.csv", cwd=tmp_path)
    wait_for_first_result(running)
    limit = time.monotonic() + 60
    while not (children := descendants(running.pid, 3)):  # below the zygote and the keeper
        assert time.monotonic() < limit, "no child was seen"
    os.kill(children[0], signal.SIGKILL)
    _, errors = running.communicate(timeout=900)
    assert running.returncode == 3, errors
    first, second, third = rows_of(tmp_path / "replay.csv")
    assert [row["outcome"] for row in (first, second, third)] == ["done", "failed", "done"]
    assert "SIGKILL" in second["reason"]


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    trace = written(tmp_path, relu(64), product(3000), relu(65))
    running = started(str(trace), *LONG, "--csv", "replay.csv", "--html", "r.html", cwd=tmp_path)
    wait_for_first_result(running)
    assert rows_of(tmp_path / "replay.csv")[0]["outcome"] == "done", "written as it comes"
    running.send_signal(signal.SIGINT)
    shown, errors = running.communicate(timeout=900)
    assert running.returncode == 130, errors
    assert "1 replayed, 2 not measured." in shown
    assert "interrupted" in errors
    assert [row["outcome"] for row in rows_of(tmp_path / "replay.csv")] == [
        "done", "not measured", "not measured",
    ]  # fmt: skip
    assert (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--backend", "tpu"), "no backend 'tpu'; --backend takes some of eager,compile,ort"),
        (("--backend", ","), "no backend is named"),
        (("--mode", "order"), "the trace has no order of calls; use --mode hot"),
        (("--mode", "order", "--backend", "eager,ort"), "--mode order takes times with eager"),
        (("--count", "--backend", "ort"), "add eager to --backend"),
        (("-k", "nothing_like_it"), "none of the 1 distinct calls has the words"),
        (("--csv", "/no/such/folder/x.csv"), "/no/such/folder/x.csv cannot be written"),
        (("--top", "0"), "--top"),
        (("--budget", "-1"), "--budget"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(
    tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    with pytest.raises(TorchmarkError) as caught:
        cli(["replay", str(written(tmp_path, relu(4))), *args], standalone_mode=False)
    assert said in str(caught.value)
    assert code_of(caught.value) is ExitCode.USAGE


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "is empty"), ("import os\n", "is no trace"), (None, "has no calls")],
)
def test_what_is_no_trace_is_told(tmp_path: Path, content: str | None, said: str) -> None:
    trace = written(tmp_path, order=[])
    if content is not None:
        trace.write_text(content)
    with pytest.raises(TorchmarkError) as caught:
        cli(["replay", str(trace)], standalone_mode=False)
    assert said in str(caught.value)
    assert code_of(caught.value) is ExitCode.USAGE
