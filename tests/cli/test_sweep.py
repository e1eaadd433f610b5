"""`torchmark sweep`: files, the store, going on, exit codes; real workers, started once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import torchmark
from torchmark.cli import show, sweep
from torchmark.cli.exit_codes import ExitCode, code_of
from torchmark.commands.sweeping.workers import in_workers, sweep_workers
from torchmark.errors import TorchmarkError
from torchmark.model.run import RunState
from torchmark.report.sweep_csv import row_of
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchmark.engine.workers import Workers
    from torchmark.model.sweep_record import SweepRow

SPEC = """
import torch
class Layer(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        if features == 13: raise ValueError("an unlucky size")
        self.linear = torch.nn.Linear(features, 4)
    def forward(self, x):
        return self.linear(x)
model = Layer
model_init_params = ["features"]
input_params = [["batch", "features"]]
input_scales = {"batch": [1, 2, 3], "features": [8]}
job_configs = ["pt fp32", "pt fp64"]
"""


class _Shared:
    """Workers that a command does not end."""

    def __init__(self, workers: Workers) -> None:
        self.started = workers.started

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with contextlib.closing(sweep_workers()) as found:
        yield found


@pytest.fixture(autouse=True)
def spec(workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sweep, "sweep_workers", lambda: _Shared(workers))
    monkeypatch.setattr(sweep, "heed_signals", lambda: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "layer.py"
    file.write_text(SPEC)
    return file


def swept(*args: str) -> Result:
    return CliRunner().invoke(sweep.command, ["layer.py", "--store", "s.db", *args])


def failure(*args: str) -> TorchmarkError:
    error = swept(*args).exception
    assert isinstance(error, TorchmarkError)
    return error


def rows_in(path: Path) -> list[SweepRow]:
    import csv  # noqa: PLC0415

    with path.open(newline="") as file:
        return [row_of(cells) for cells in list(csv.reader(file))[1:]]


def test_the_same_rows_are_in_the_file_the_table_and_the_store(tmp_path: Path) -> None:
    done = swept("--kernels", "--html", "page.html")
    assert done.exit_code == 0, done.output
    assert "Layer" in done.stdout
    assert "layer.csv: 6 rows" in done.stdout
    assert "6 cases of 3 points with 2 configs each, about" in done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    rows = rows_in(tmp_path / "layer.csv")
    assert len(rows) == 6
    assert all(row.median_s and row.low_s is not None and row.flops for row in rows)
    assert "aten::addmm" in (tmp_path / "layer.kernels.csv").read_text()
    assert "<html" in (tmp_path / "page.html").read_text()
    with open_store("s.db") as store:
        run = store.run("latest")
        results = store.results(run.id)
    assert [result.sweep for result in results] == rows
    assert run.state is RunState.FINISHED
    assert {row.environment for row in rows} == {run.environment["id"]}
    shown = CliRunner().invoke(show.command, ["--store", "s.db"])
    assert "batch=3 features=8" in shown.output
    again = swept()
    assert again.exit_code == 0
    assert "6 of 6 rows are in layer.csv already" in again.stderr
    assert rows_in(tmp_path / "layer.csv") == rows


def test_a_sweep_that_was_cut_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(*args: Any, **kwargs: Any) -> Any:
        told = in_workers(*args, **kwargs)
        yield next(told)
        yield next(told)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "in_workers", cut_short)
        first = swept()
    assert first.exit_code == ExitCode.INTERRUPTED
    assert "the same command goes on" in first.stderr
    before = rows_in(tmp_path / "layer.csv")
    assert len(before) == 2
    with open_store("s.db") as store:
        assert store.run("latest").state is RunState.INTERRUPTED
    assert swept().exit_code == 0
    after = rows_in(tmp_path / "layer.csv")
    assert after[:2] == before
    assert len(after) == 6
    with open_store("s.db") as store:
        assert len(store.runs()) == 1
        assert [result.sweep for result in store.results(store.id_of("latest"))] == after


def test_what_could_not_run_is_tried_again_and_then_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_fp64(*args: Any, **kwargs: Any) -> Any:
        for case, told in in_workers(*args, **kwargs):
            is_out = case.row.dtype == "fp64"
            yield case, {"status": "skipped", "reason": "not installed"} if is_out else told

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "in_workers", without_fp64)
        assert "3 measured, 3 skipped" in swept().stdout
    assert "6 measured" in swept().stdout
    rows = rows_in(tmp_path / "layer.csv")
    with open_store("s.db") as store:
        kept = [result.sweep for result in store.results(store.id_of("latest"))]
    assert {row.case_id for row in rows if row.median_s} == {row.case_id for row in kept if row}
    assert kept == rows


def test_kernels_are_added_to_rows_that_are_there(tmp_path: Path) -> None:
    some = ("--where", "dtype == 'fp32'")
    assert swept(*some, "--set", "batch=1").exit_code == 0
    before = (tmp_path / "layer.csv").read_text()
    done = swept(*some, "--set", "batch=1,2", "--kernels")
    assert done.exit_code == 0, done.output
    assert "1 of 2 rows are in layer.csv already" in done.stderr
    assert "the kernels of 1 are added" in done.stderr
    after = (tmp_path / "layer.csv").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 3
    kernels = (tmp_path / "layer.kernels.csv").read_text()
    ids = [line[:16] for line in kernels.splitlines() if "aten::addmm" in line]
    assert ids == [row.case_id for row in rows_in(tmp_path / "layer.csv")]
    again = swept(*some, "--set", "batch=1,2", "--kernels")
    assert "are added" not in again.stderr
    assert (tmp_path / "layer.kernels.csv").read_text() == kernels


def test_sizes_filter_and_sample_choose_the_cases(tmp_path: Path) -> None:
    chosen = ("--set", "batch=range(1, 101)", "--where", "dtype == 'fp32' and batch > 50")
    assert swept("--csv", "some.csv", "--sample", "2", *chosen).exit_code == 0
    rows = rows_in(tmp_path / "some.csv")
    assert len(rows) == 2
    assert all(row.dtype == "fp32" and dict(row.dims)["batch"] > 50 for row in rows)


def test_a_case_that_fails_is_a_row_and_an_exit_code(tmp_path: Path) -> None:
    done = swept("--set", "features=8,13", "--set", "batch=1", "--where", "dtype == 'fp32'")
    assert done.exit_code == ExitCode.CASE_FAILED
    assert "raised with features=13" in " ".join(done.stdout.split())
    failed = rows_in(tmp_path / "layer.csv")[1]
    assert failed.reason == (
        "the constructor of Layer raised with features=13: ValueError: an unlucky size"
    )


def test_mistakes_are_told_before_anything_is_measured(tmp_path: Path, spec: Path) -> None:
    assert "'batch' has the size -1" in str(failure("--set", "batch=-1"))
    assert "no dimension 'bach'" in str(failure("--set", "bach=1"))
    assert "is its folder there" in str(failure("--csv", "nowhere/rows.csv"))
    spec.write_text(SPEC.replace('"features": [8]', '"features": [8], "heads": [2]'))
    unused = failure()
    assert "nobody uses the dimension 'heads'" in str(unused)
    assert code_of(unused) is ExitCode.USAGE
    spec.write_text(SPEC.replace('"features": [8]', '"features": [2.5]'))
    assert "layer.py: the dimension 'features' has the size 2.5" in str(failure())
    assert not (tmp_path / "layer.csv").exists()


def test_a_sweep_from_python_gives_rows_and_leaves_torch_as_it_was(tmp_path: Path) -> None:
    made = torchmark.Sweep(
        model=lambda x, y: x @ y,
        input_params=[["rows", "n"], ["n", 2]],
        input_scales={"rows": [1, 3], "n": [4]},
        job_configs=["pt fp32", "pt fp16"],
    )
    rows = made.run(where="dtype == 'fp32'", phases=["forward", "backward"], csv="here.csv")
    assert [(row.phase.value, row.flops) for row in rows] == [
        ("forward", 16), ("backward", 32), ("forward", 48), ("backward", 96),
    ]  # fmt: skip
    assert rows_in(tmp_path / "here.csv") == rows
    assert made.run(where="dtype == 'fp32'", phases=["forward", "backward"], csv="here.csv") == rows
