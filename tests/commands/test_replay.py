"""`torchmark.replay`: real children, bad calls among good ones, runs that are cut short."""

from __future__ import annotations

import contextlib
import csv
import io
from typing import TYPE_CHECKING, Any

import pytest
import torch

import torchmark
from tests.replay_traces import NOPE, OPAQUE, WRONG, product, relu, write_trace
from torchmark.commands import replay as command
from torchmark.commands.spine import LiveFile
from torchmark.engine.replaying import ReplayZygotes
from torchmark.errors import InvalidArgumentError, RunInterruptedError
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Change, Run, RunKind, RunState, Stage
from torchmark.model.run_settings import ReplayMode, settings_of
from torchmark.report import render
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUICK: dict[str, Any] = {"budget": 0.01}


@pytest.fixture(scope="module")
def zygotes() -> Iterator[ReplayZygotes]:
    with ReplayZygotes(1) as zygotes:
        yield zygotes


@pytest.fixture(autouse=True)
def lend_zygotes(zygotes: ReplayZygotes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ReplayZygotes", lambda *_: contextlib.nullcontext(zygotes))


def rows_of(run: Run) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(run, "csv"))))


def test_bad_calls_are_results_with_their_reasons_beside_good_ones(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, relu(64), product(256), NOPE, OPAQUE, WRONG, relu(10**12))
    run = torchmark.replay(trace, store=tmp_path / "s.db", tags=["base"], **QUICK)
    assert (run.kind, run.state, run.tags) == (RunKind.REPLAY, RunState.FINISHED, ("base",))
    rows = rows_of(run)
    assert [row["status"] for row in rows] == [
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
    shown = render(run, "text")
    assert "FAILED: the case raised: RuntimeError" in shown
    assert "2 replayed, 1 failed, 3 skipped; the calls of a step take" in shown
    assert max(map(len, shown.splitlines())) <= 80
    trace.unlink()
    with open_store(tmp_path / "s.db") as store:
        assert store.run("base") == run, "all of it is in the store, without the trace"


@pytest.mark.parametrize("mode", ["hot", "order"])
def test_recorded_values_are_used_where_they_are_there(mode: str, tmp_path: Path) -> None:
    """How many rows come back is decided by values that nobody would draw."""
    rows = torch.randn(100).relu().expand(3, 100)
    with torchmark.Capture(tmp_path / "t.jsonl", values=True):
        torch.nonzero(rows)
    asked: dict[str, Any] = {"mode": mode, "store": tmp_path / "s.db", **QUICK}
    run = torchmark.replay(tmp_path / "t.jsonl", **asked)
    assert next((row["status"], row["remarks"]) for row in rows_of(run)) == ("done", "")
    assert "1 of them distinct; 1 use recorded values." in render(run, "text")
    (tmp_path / "t.safetensors").unlink()
    drawn = torchmark.replay(tmp_path / "t.jsonl", **asked)
    assert "output 0: its shape is" in rows_of(drawn)[0]["remarks"]
    text = " ".join(render(drawn, "text").split())
    assert text.count("for which random values are used (there is no file t.safetensors)") == 1
    assert "use recorded values" not in text


@pytest.mark.parametrize("mode", ["hot", "order"])
def test_an_error_of_many_lines_is_told_by_what_happened(mode: str, tmp_path: Path) -> None:
    size = {**relu(3), "op": "aten._nested_tensor_size.default", "schema": None}
    trace = write_trace(tmp_path, size, relu(4), order=[0, 1])
    run = torchmark.replay(trace, mode=mode, store=tmp_path / "s.db", **QUICK)
    reason = rows_of(run)[0]["reason"]
    assert reason == f"torch {torch.__version__} has no operator aten._nested_tensor_size for CPU"


def test_a_step_is_replayed_in_its_order_without_the_call_that_does_not_run(
    tmp_path: Path,
) -> None:
    trace = write_trace(tmp_path, relu(64), product(64), NOPE, order=[0, 1, 0, 2, 1, 0])
    run = torchmark.replay(trace, mode="order", store=tmp_path / "s.db", **QUICK)
    *rows, whole = rows_of(run)
    assert [(row["op"], row["calls"], row["status"]) for row in rows] == [
        ("aten.relu.default", "3", "done"),
        ("aten.mm.default", "2", "done"),
        ("aten.no_such_thing.default", "1", "skipped"),
    ]
    assert rows[1]["flops"] == str(2 * 64**3)
    assert float(whole["seconds"]) > 0
    assert "One pass over all calls takes" in render(run, "text")


def test_threads_and_order_are_those_of_the_captured_model_unless_something_else_is_said(
    tmp_path: Path,
) -> None:
    with torchmark.Capture(tmp_path / "t.jsonl", steps=1) as capture:
        for _ in range(5):
            torch.ones(64).relu()
            capture.step()
    run = torchmark.replay(tmp_path / "t.jsonl", store=tmp_path / "s.db", **QUICK)
    settings = settings_of(run)
    assert (settings.mode, settings.threads) == (ReplayMode.ORDER, torch.get_num_threads())
    *_, whole, real = rows_of(run)
    assert (whole["op"], real["op"], real["samples"]) == ("(whole pass)", "(real step)", "4")
    assert "A real step took" in render(run, "text")
    assert all(row["memory_bytes"] == "256" for row in rows_of(run)[:2])
    assert "test_replay.py:" in rows_of(run)[1]["sources"]
    other = torchmark.replay(
        tmp_path / "t.jsonl", mode="hot", threads=1, store=tmp_path / "s.db", **QUICK
    )
    assert (settings_of(other).mode, settings_of(other).threads) == (ReplayMode.HOT, 1)


def test_alternatives_are_in_the_run_and_in_the_store(tmp_path: Path) -> None:
    transposed = {"tensor": {"shape": [300, 200], "dtype": "float32", "strides": [1, 300]}}
    strided = {**relu(300, 200), "op": "aten.cumsum.default", "schema": None,
               "args": [transposed, -1]}  # fmt: skip
    # Long enough for an interval on a busy machine too.
    run = torchmark.replay(write_trace(tmp_path, strided), store=tmp_path / "s.db", budget=0.5)
    (tried,) = run.alternatives
    assert (tried.change, tried.calls, tried.times) == (Change.CONTIGUOUS, (0,), 2)
    assert run.speeds is not None, "the record has what it had"
    with open_store(tmp_path / "s.db") as store:
        assert store.run(run.id) == run


def test_every_backend_has_its_time_and_is_held_against_eager(tmp_path: Path) -> None:
    run = torchmark.replay(
        write_trace(tmp_path, relu(64)), backends=["eager", "compile", "ort"],
        store=tmp_path / "s.db", **QUICK,
    )  # fmt: skip
    assert [result.reason for result in run.results] == [""] * 3
    eager, *others = rows_of(run)
    assert [row["backend"] for row in others] == ["compile", "ort"]
    for row in others:
        assert float(row["max_error"]) == 0
        assert float(row["prepare_seconds"]) > 0
        speedup = float(eager["seconds"]) / float(row["seconds"])
        assert float(row["speedup"]) == pytest.approx(speedup)
    text = " ".join(render(run, "text").split())
    assert "times as fast as eager (1 call measured with both)" in text


def test_instructions_are_counted_where_that_is_wanted(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, relu(64), relu(6400))
    run = torchmark.replay(trace, metrics=["instructions"], store=tmp_path / "s.db")
    small, large = rows_of(run)
    assert 0 < float(small["instructions"]) < float(large["instructions"])
    assert small["seconds"] == ""
    assert float(small["share"]) < 0.5 < float(large["share"])
    assert run.speeds is None, "nothing is held against them"


@pytest.mark.parametrize("mode", ["hot", "order"])
def test_a_trace_that_knows_no_outputs_has_the_bytes_of_the_first_run(
    tmp_path: Path, mode: str
) -> None:
    calls = [relu(64), product(32), {**relu(8), "op": "aten.relu_.default"}, {**NOPE}]
    for call in calls:
        call |= {"schema": None}
        call.pop("outputs", None)
    trace = write_trace(tmp_path, *calls, order=[0, 1, 2, 3])
    run = torchmark.replay(trace, mode=mode, store=tmp_path / "s.db", **QUICK)
    rows = [row for row in rows_of(run) if row["call"]]
    assert [row["bytes"] for row in rows] == ["512", str(3 * 4 * 32**2), "64", ""]
    assert [bool(row["nature"]) for row in rows] == [True, True, True, False]


class Interrupter:
    """Presses Ctrl-C after some results."""

    def __init__(self, after: int) -> None:
        self._left = after
        self.heard: list[Any] = []

    def hear(self, news: Any) -> None:
        self.heard.append(news)
        if isinstance(news, Result):
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("options", [{}, {"mode": "order"}])
def test_a_run_that_was_cut_short_goes_on_without_its_trace(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    calls = [*map(relu, range(60, 66)), NOPE]
    trace = write_trace(tmp_path, *calls, order=[*range(7), 0, 1])
    cut_short = Interrupter(after=3)
    with open_store(tmp_path / "s.db") as store:
        with pytest.raises(RunInterruptedError) as caught:
            torchmark.replay(trace, store=store, progress=cut_short.hear, **options, **QUICK)
        before = store.run(caught.value.run_id)
        assert before.state is RunState.INTERRUPTED
        told = [news for news in cut_short.heard if isinstance(news, Result)]
        assert list(before.results) == told, "what was heard of is stored"
        assert 3 <= len(told) < len(before.plan), "and what waited for a longer look, if any did"
        assert "not measured" in render(before, "text")
        trace.unlink()
        heard: list[Any] = []
        run = torchmark.replay(store=store, resume=before.id, progress=heard.append)
    assert run.results[: len(told)] == before.results, "what is done is not done again"
    assert {result.key for result in run.results} == {planned.key for planned in run.plan}
    assert len(run.results) == len(run.plan)
    assert (run.state, run.speeds) == (RunState.FINISHED, before.speeds)
    assert isinstance(heard[0], Run)
    assert not [news for news in heard if isinstance(news, Stage) and "machine" in news.text]


def test_the_speeds_of_the_machine_come_first_and_are_kept(tmp_path: Path) -> None:
    heard: list[Any] = []
    run = torchmark.replay(
        write_trace(tmp_path, relu(64)), store=tmp_path / "s.db", progress=heard.append, **QUICK
    )
    assert run.speeds is not None
    assert run.speeds.flops_per_second["float32"] > 0
    kinds = [type(news).__name__ for news in heard]
    assert kinds[:6] == ["Run", "Stage", "Run", "Stage", "Began", "Result"]


def test_a_file_has_the_rows_so_far(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, relu(64), relu(65))
    file, ticks = tmp_path / "live.csv", iter(range(0, 10**6, 3))
    seen: list[list[str]] = []

    def look(news: Any) -> None:
        if isinstance(news, Result):
            with file.open(newline="") as text:
                seen.append([row["status"] for row in csv.DictReader(text)])

    with LiveFile(file, "csv", look, clock=lambda: float(next(ticks))) as live:
        run = torchmark.replay(trace, store=tmp_path / "s.db", progress=live.hear, budget=1.0)
    assert "not measured" in seen[0]
    assert file.read_bytes().decode() == render(run, "csv")


def test_names_that_nobody_knows_are_told(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, relu(64))
    with pytest.raises(InvalidArgumentError, match="unknown mode 'sideways'"):
        torchmark.replay(trace, mode="sideways", store=tmp_path / "s.db")
    with pytest.raises(InvalidArgumentError, match="unknown backend 'tpu'; choose from: eager"):
        torchmark.replay(trace, backends=["tpu"], store=tmp_path / "s.db")
    with pytest.raises(InvalidArgumentError, match="name a trace to replay, or a run to resume"):
        torchmark.replay(store=tmp_path / "s.db")


def test_the_options_are_in_the_run(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, relu(64), product(8))
    run = torchmark.replay(trace, pattern="mm", seed=7, store=tmp_path / "s.db", **QUICK)
    settings = settings_of(run)
    assert (settings.trace, settings.seed, settings.threads) == (str(trace), 7, 1)
    assert [call.op for call in settings.calls] == ["aten.mm.default"]
    assert [(each.metric, each.status) for each in run.results] == [(Metric.TIME, Status.DONE)]
