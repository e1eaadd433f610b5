"""`torchmark.sweep`: which run it goes on with, what is measured again, and what its files have."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import torchmark
from tests.fake_sweeps import SPEC, SPEEDS, FakeSweep
from torchmark.analyse.sweep import rows_of
from torchmark.commands import spine
from torchmark.commands.sweep import sweep
from torchmark.errors import InvalidArgumentError, RunInterruptedError
from torchmark.model.result import Metric, Status
from torchmark.model.run import Run, RunKind, RunState, Stage
from torchmark.report import render
from torchmark.store import open_store

if TYPE_CHECKING:
    from torchmark.model.run import Progress


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSweep:
    found = FakeSweep()
    found.install(monkeypatch)
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    seconds = itertools.count()
    monkeypatch.setattr(spine, "utc_now", lambda: f"2026-11-17T12:00:{next(seconds):02}+00:00")
    (tmp_path / "layer.py").write_text(SPEC)
    return tmp_path


def swept(**changes: Any) -> Run:
    return sweep(**{"spec": "layer.py", "csv": "rows.csv", "store": "s.db", **changes})


def csv_rows(name: str = "rows.csv") -> list[dict[str, str]]:
    with Path(name).open(newline="") as file:
        return list(csv.DictReader(file))


def runs() -> list[Any]:
    with open_store("s.db") as store:
        return store.runs()


def test_a_sweep_is_a_run_whose_rows_are_in_the_csv(fake: FakeSweep) -> None:
    heard: list[Run | Progress] = []
    run = swept(progress=heard.append, tags=["base"])
    assert (run.kind, run.state, run.tags) == (RunKind.SWEEP, RunState.FINISHED, ("base",))
    assert run.speeds == SPEEDS
    assert len(run.results) == 6
    assert Path("rows.csv").read_text() == render(run, "csv")
    rows = rows_of(run)
    assert [row["case_id"] for row in csv_rows()] == [row.case_id for row in rows]
    assert {row.environment for row in rows} == {run.environment.id}
    texts = [news.text for news in heard if isinstance(news, Stage)]
    assert "model: 6 cases of 3 points with 2 configs each, about" in texts[0]
    with open_store("s.db") as store:
        assert store.run("base") == run


def test_the_same_sweep_again_measures_nothing(fake: FakeSweep) -> None:
    first = swept()
    heard: list[Run | Progress] = []
    again = swept(progress=heard.append)
    assert again == first
    assert len(fake.measured) == 6
    assert any(isinstance(news, Stage) and "6 of 6 rows are in the store" in news.text
               for news in heard)  # fmt: skip


@pytest.mark.parametrize("is_csv_gone", [False, True])
def test_a_sweep_that_was_cut_short_goes_on(fake: FakeSweep, is_csv_gone: bool) -> None:
    fake.interrupt_after = 2
    with pytest.raises(RunInterruptedError):
        swept()
    assert len(csv_rows()) == 2
    assert runs()[0].state is RunState.INTERRUPTED
    if is_csv_gone:
        Path("rows.csv").unlink()
    fake.interrupt_after = None
    run = swept()
    assert len(fake.measured) == len(set(fake.measured)) == 6
    assert len(runs()) == 1
    assert len(csv_rows()) == len(rows_of(run)) == 6


def test_a_run_is_resumed_by_its_name(fake: FakeSweep) -> None:
    fake.interrupt_after = 4
    with pytest.raises(RunInterruptedError) as raised:
        swept()
    fake.interrupt_after = None
    run = sweep(resume=raised.value.run_id, store="s.db")
    assert len(fake.measured) == 6
    assert len(csv_rows()) == len(run.results) == 6


def test_a_model_that_has_changed_is_not_resumed(fake: FakeSweep) -> None:
    run = swept()
    Path("layer.py").write_text(SPEC.replace("x + 1", "x + 2"))
    with pytest.raises(InvalidArgumentError, match="code of model has changed"):
        sweep(resume=run.id, store="s.db")


def test_what_failed_or_was_skipped_is_tried_again(fake: FakeSweep) -> None:
    fake.skipped_dtypes, fake.failed_dtypes = ("fp32",), ("fp64",)
    first = swept()
    assert {each.status for each in first.results} == {Status.SKIPPED, Status.FAILED}
    assert len(csv_rows()) == 6
    fake.skipped_dtypes = fake.failed_dtypes = ()
    second = swept()
    assert (second.id, len(second.results)) == (first.id, 6)
    assert all(each.status is Status.DONE for each in second.results)
    assert {row["status"] for row in csv_rows()} == {"measured"}


def test_other_sizes_join_the_rows_that_the_file_has(fake: FakeSweep) -> None:
    swept(set={"batch": [1]})
    before = Path("rows.csv").read_text()
    both = swept(set={"batch": [1, 2]})
    assert Path("rows.csv").read_text().startswith(before)
    assert len(csv_rows()) == len(rows_of(both)) == 4
    other = swept(set={"batch": [7]}, where="dtype == 'fp32'")
    assert len(fake.measured) == 5
    assert [row["dims"] for row in csv_rows()][-1] == "batch=7 features=8"
    assert len(csv_rows()) == len(rows_of(other)) == 5
    # A part of it is there already, so that nothing is measured and no run begins.
    assert swept(set={"batch": [2]}).id == other.id


def test_a_failure_of_other_sizes_is_not_kept(fake: FakeSweep) -> None:
    fake.failed_dtypes = ("fp64",)
    assert swept().has_failures
    run = swept(where="dtype == 'fp32'")
    assert not run.has_failures
    assert len(csv_rows()) == 3


def test_kernels_are_added_to_rows_that_are_there(fake: FakeSweep) -> None:
    swept(set={"batch": [1]}, where="dtype == 'fp32'")
    heard: list[Run | Progress] = []
    run = swept(set={"batch": [1, 2]}, where="dtype == 'fp32'", kernels=True, progress=heard.append)
    assert [is_timed for _, is_timed in fake.measured] == [True, False, True]
    assert any(isinstance(news, Stage) and "kernels are measured for 1 of them" in news.text
               for news in heard)  # fmt: skip
    kernels = csv_rows("rows.kernels.csv")
    assert [row["case_id"] for row in kernels] == [row["case_id"] for row in csv_rows()]
    assert (kernels[0]["kernel"], kernels[0]["calls"]) == ("aten::add", "1.0")
    assert {each.metric for each in run.results} == {Metric.TIME, Metric.PROFILE}
    Path("rows.kernels.csv").unlink()
    assert swept(set={"batch": [1, 2]}, where="dtype == 'fp32'", kernels=True).id == run.id
    assert len(fake.measured) == 3
    assert csv_rows("rows.kernels.csv") == kernels


def test_without_a_csv_every_call_is_a_run(fake: FakeSweep) -> None:
    assert swept(csv=None).id != swept(csv=None).id
    assert len(fake.measured) == 12
    assert len(runs()) == 2


def test_another_environment_is_not_mixed_in(fake: FakeSweep) -> None:
    swept()
    before = Path("rows.csv").read_text()
    fake.torch = "2.14.0"
    with pytest.raises(InvalidArgumentError, match="another environment"):
        swept()
    assert Path("rows.csv").read_text() == before
    Path("rows.csv").unlink()
    assert len(swept().results) == 6
    assert len(fake.measured) == 12


def test_another_store_does_not_have_the_rows_of_the_file(fake: FakeSweep) -> None:
    swept()
    with pytest.raises(InvalidArgumentError, match="rows that the store does not have"):
        swept(store="other.db")
    assert len(csv_rows()) == 6


def test_rows_of_another_model_are_left_alone(fake: FakeSweep) -> None:
    swept()
    Path("layer.py").write_text(SPEC.replace("x + 1", "x + 2"))
    with pytest.raises(InvalidArgumentError, match="whose code or inputs have changed"):
        swept()
    assert len(csv_rows()) == 6


def test_a_sweep_from_python_gives_rows_and_keeps_them_in_the_store() -> None:
    made = torchmark.Sweep(
        model=lambda x, y: x @ y,
        input_params=[["rows", "n"], ["n", 2]],
        input_scales={"rows": [1, 3], "n": [4]},
        job_configs=["pt fp32", "pt fp16"],
    )
    chosen: dict[str, Any] = {
        "where": "dtype == 'fp32'",
        "phases": ["forward", "backward"],
        "csv": "here.csv",
        "store": "s.db",
    }
    rows = made.run(**chosen)
    assert [(row.phase.value, row.flops) for row in rows] == [
        ("forward", 16), ("backward", 32), ("forward", 48), ("backward", 96),
    ]  # fmt: skip
    assert [row["case_id"] for row in csv_rows("here.csv")] == [row.case_id for row in rows]
    with open_store("s.db") as store:
        run = store.run("latest")
    assert list(rows_of(run)) == rows
    assert made.run(**chosen) == rows
    with pytest.raises(InvalidArgumentError, match="was started from Python"):
        sweep(resume=run.id, store="s.db")


def test_a_sweep_from_python_goes_on_with_its_names_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named: dict[str, Any] = {
        "model": abs,
        "input_params": [["n"]],
        "input_scales": {"n": [4, 8]},
    }
    heard: list[str] = []

    def stop_after_one(news: Run | Progress) -> None:
        heard.append(type(news).__name__)
        if heard.count("Result") == 1:
            raise KeyboardInterrupt

    with pytest.raises(RunInterruptedError) as raised:
        torchmark.sweep(**named, store="s.db", progress=stop_after_one)
    run = torchmark.sweep(**named, store="s.db", resume=raised.value.run_id)
    assert [row.status.value for row in rows_of(run)] == ["measured"] * 2
    assert len(run.results) == 2


def test_from_python_too_points_that_are_not_valid_are_no_rows() -> None:
    named: dict[str, Any] = {
        "model": lambda x: x * 2,
        "input_params": [["n", "m"]],
        "input_scales": {"n": [1, 2], "m": [2, 3]},
        "valid": lambda n, m: m % n == 0,
    }
    wanted = [{"n": 1, "m": 2}, {"n": 1, "m": 3}, {"n": 2, "m": 2}]
    rows = torchmark.Sweep(**named).run(store="s.db")
    assert [dict(row.dims) for row in rows] == wanted
    run = sweep(**named, store="s.db", set={"threads": [1, 2]})
    assert [(dict(row.dims), row.threads) for row in rows_of(run)] == [
        (dims, threads) for dims in wanted for threads in (1, 2)
    ]
    with pytest.raises(InvalidArgumentError, match=r"define valid in layer\.py"):
        sweep("layer.py", valid="n > 1")
    with pytest.raises(InvalidArgumentError, match="valid has the parameter 'k'"):
        torchmark.Sweep(**{**named, "valid": lambda k: True})
