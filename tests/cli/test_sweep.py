"""`torchmark sweep`: what it prints and writes, exit codes, and a real sweep that is killed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import torchmark
from tests.fake_sweeps import SPEC, FakeSweep
from torchmark.analyse.sweep import rows_of
from torchmark.cli import stored, sweep
from torchmark.cli.shell import ExitCode, code_of
from torchmark.errors import TorchmarkError
from torchmark.model.run import Run, RunState
from torchmark.report.formats import html
from torchmark.store import open_store


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSweep:
    found = FakeSweep()
    found.install(monkeypatch)
    return found


@pytest.fixture(autouse=True)
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(html, "load_bundle", lambda: "")  # it takes seconds to make
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "layer.py"
    file.write_text(SPEC)
    return file


def swept(*args: str, file: str = "layer.py") -> Result:
    return CliRunner().invoke(sweep.sweep_command, [file, "--store", "s.db", *args])


def failure(*args: str) -> TorchmarkError:
    error = swept(*args).exception
    assert isinstance(error, TorchmarkError)
    return error


def csv_rows(name: str = "layer.csv") -> list[dict[str, str]]:
    with Path(name).open(newline="") as file:
        return list(csv.DictReader(file))


def latest() -> Run:
    with open_store("s.db") as store:
        return store.run("latest")


def test_the_same_rows_are_in_the_file_the_table_and_the_store(
    fake: FakeSweep, tmp_path: Path
) -> None:
    done = swept("--kernels", "--html", "page.html")
    assert done.exit_code == 0, done.output
    assert "model, 1 thread" in done.stdout
    written = [line for line in done.stderr.splitlines() if "written to" in line]
    assert written == [
        "torchmark: written to page.html",
        "torchmark: written to layer.csv: 6 rows",
        "torchmark: written to layer.kernels.csv",
        "torchmark: written to page-scaling.png: a picture of page.html",
        "torchmark: written to page-roofline.png: a picture of page.html",
    ]
    assert "6 cases of 3 points with 2 configs each, about" in done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert [row["case_id"] for row in csv_rows()] == [row.case_id for row in rows_of(latest())]
    assert "aten::add" in Path("layer.kernels.csv").read_text()
    names = sorted(file.name for file in tmp_path.glob("page*"))
    assert names == ["page-roofline.png", "page-scaling.png", "page.html"]
    assert all(name in done.stderr for name in names)
    shown = CliRunner().invoke(stored.show_command, ["--store", "s.db"])
    assert shown.output == done.stdout


def test_a_quiet_sweep_does_not_say_what_it_has_written(fake: FakeSweep) -> None:
    done = swept("--quiet", "--html", "page.html")
    assert (done.exit_code, done.stderr) == (0, "")
    assert Path("layer.csv").exists()


def test_ctrl_c_says_how_to_go_on(fake: FakeSweep) -> None:
    fake.interrupt_after = 2
    first = swept()
    assert first.exit_code == ExitCode.INTERRUPTED
    assert "6 cases: 2 measured, 4 not measured." in first.stdout
    assert f"Resume with: torchmark sweep --resume {latest().id} --store s.db" in first.stderr
    fake.interrupt_after = None
    done = CliRunner().invoke(sweep.sweep_command, ["--resume", "latest", "--store", "s.db"])
    assert done.exit_code == 0, done.output
    assert len(csv_rows()) == len(fake.measured) == 6


def test_the_time_limit_of_a_case_is_kept_with_the_run(fake: FakeSweep) -> None:
    fake.interrupt_after = 2
    swept("--timeout", "7")
    CliRunner().invoke(sweep.sweep_command, ["--resume", "latest", "--store", "s.db"])
    swept()
    swept("--timeout", "9")
    swept()
    assert fake.time_limits == [7.0, 7.0, 7.0, 9.0, 9.0]
    assert len(latest().results) == 6
    assert "--timeout must be finite and above zero" in str(failure("--timeout", "-1"))
    assert "--sample must be a whole number of at least 1" in str(failure("--sample", "0"))


def test_sizes_filter_and_sample_choose_the_cases(fake: FakeSweep) -> None:
    chosen = ("--set", "batch=range(1, 101)", "--where", "dtype == 'fp32' and batch > 50")
    assert swept("--csv", "some.csv", "--sample", "2", *chosen).exit_code == 0
    rows = csv_rows("some.csv")
    assert len(rows) == 2
    assert all(row["dtype"] == "fp32" for row in rows)
    assert all(dict(row.dims)["batch"] > 50 for row in rows_of(latest()))


def test_csv_to_standard_output_stands_alone(fake: FakeSweep) -> None:
    done = swept("--csv", "-")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("case_id,model,dims")
    assert len(done.stdout.splitlines()) == 7
    assert not Path("layer.csv").exists()


def test_a_case_that_fails_is_a_row_and_an_exit_code(fake: FakeSweep) -> None:
    fake.failed_dtypes = ("fp64",)
    done = swept()
    assert done.exit_code == ExitCode.CASE_FAILED
    assert "RuntimeError: no luck" in " ".join(done.stdout.split())
    assert [row["reason"] for row in csv_rows() if row["status"] == "failed"] == [
        "RuntimeError: no luck"
    ] * 3


def test_mistakes_are_told_before_anything_is_measured(fake: FakeSweep, spec: Path) -> None:
    assert "'batch' has the size -1" in str(failure("--set", "batch=-1"))
    assert "no dimension 'bach'" in str(failure("--set", "bach=1"))
    assert "name a file in an existing folder" in str(failure("--csv", "nowhere/rows.csv"))
    spec.write_text(SPEC.replace('"features": [8]', '"features": [8], "heads": [2]'))
    unused = failure()
    assert "the dimension 'heads' of input_scales is not used" in str(unused)
    assert code_of(unused) is ExitCode.USAGE
    spec.write_text(SPEC.replace('"features": [8]', '"features": [2.5]'))
    assert "layer.py: the dimension 'features' has the size 2.5" in str(failure())
    without = CliRunner().invoke(sweep.sweep_command, [])
    assert "name the SPEC.py" in str(without.exception)
    assert "leave SPEC.py out" in str(failure("--resume", "latest"))
    beside = CliRunner().invoke(sweep.sweep_command, ["--resume", "latest", "--set", "batch=1"])
    assert "leave --set out" in str(beside.exception)
    assert not Path("layer.csv").exists()
    assert fake.measured == []


def test_without_the_program_that_draws_pngs_there_is_the_page(
    fake: FakeSweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = swept("--html", "page.html")
    assert done.exit_code == 0, done.output
    assert [file.name for file in tmp_path.glob("page*")] == ["page.html"]
    assert "pip install 'torchmark[report]'" in done.stderr


def test_pictures_that_cannot_be_written_are_told(
    fake: FakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sweep, "png_of", full)
    done = swept("--html", "page.html")
    assert done.exit_code == ExitCode.ENVIRONMENT
    assert "the PNG files of page.html cannot be written: No space left" in done.stderr


def test_a_real_sweep_that_is_killed_goes_on_without_its_csv(spec: Path) -> None:
    """Every finished row is held once, and the CSV is whole."""
    spec.write_text(SPEC.replace("[1, 2, 3]", "range(1, 7)"))
    environment = {**os.environ, "PYTHONPATH": str(Path(torchmark.__file__).parents[1])}
    command = [sys.executable, "-m", "torchmark", "sweep", "layer.py", "--store", "s.db"]
    with subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE) as killed:
        assert killed.stderr is not None
        for line in killed.stderr:
            if line.startswith("[4/12]"):  # it is printed once its result is stored
                killed.send_signal(signal.SIGKILL)
                break
    before = latest()
    assert before.state is RunState.RUNNING
    assert len(before.results) >= 4
    Path("layer.csv").unlink()
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    run = latest()
    assert run.id == before.id
    assert run.results[: len(before.results)] == before.results
    assert len(run.results) == len({each.key for each in run.results}) == 12
    rows = csv_rows()
    assert [row["case_id"] for row in rows] == [row.case_id for row in rows_of(run)]
    assert all(row["median_s"] and row["bytes"] for row in rows)
    assert "12 cases: 12 measured." in done.stdout
    assert run.speeds is not None
