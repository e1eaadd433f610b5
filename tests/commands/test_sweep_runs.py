"""The CSV of a sweep: what is written, and which files are left alone."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import sweep_rows
from torchmark.commands.sweep_runs import check_file, kernels_file, write_files
from torchmark.define.sweep.points import SweepCase
from torchmark.errors import InvalidArgumentError, OutputFileError
from torchmark.report import render
from torchmark.report.views.sweep import COLUMNS

if TYPE_CHECKING:
    from torchmark.model.run import Run

HERE = sweep_rows.ENVIRONMENT.id
MADE = sweep_rows.sweep({"batch": (1, 2), "features": (8,)})
RUN = sweep_rows.run_of(MADE)
CASES = [SweepCase(case, point) for case, point, _ in MADE]


def refused(path: Path, run: Run | None = RUN, environment: str = HERE) -> str:
    before = path.read_bytes()
    with pytest.raises(InvalidArgumentError) as raised:
        check_file(path, run, CASES, environment)
    assert path.read_bytes() == before
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_what_was_written_is_known_and_what_is_not_there_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    assert check_file(path, None, CASES, HERE) == frozenset()
    write_files(RUN, path)
    assert path.read_text() == render(RUN, "csv")
    assert check_file(path, RUN, CASES, HERE) == {case.id for case, _, _ in MADE}
    assert not kernels_file(path).exists()


@pytest.mark.parametrize("lost", [1, 20, 60])
def test_the_end_of_a_line_that_was_cut_short_is_no_loss(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "rows.csv"
    write_files(RUN, path)
    path.write_bytes(path.read_bytes()[:-lost])
    assert check_file(path, RUN, CASES, HERE) == {case.id for case, _, _ in MADE[:-1]}
    path.write_text("case_id,mod")
    assert check_file(path, None, CASES, HERE) == frozenset()


def test_rows_without_a_measurement_are_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    dims = (("batch", 1), ("features", 8))
    made = [sweep_rows.skipped(dims=dims), sweep_rows.failed(dims=dims)]
    write_files(sweep_rows.run_of(made), path)
    assert check_file(path, None, CASES, HERE) == frozenset()


def test_rows_that_nobody_else_has_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_files(RUN, path)
    assert "rows that the store does not have" in refused(path, None)
    assert "--store" in refused(path, None)
    assert "another environment" in refused(path, RUN, "elsewhere")
    path.write_text(path.read_text().replace("2.008e-06", "2.007e-06"))
    assert "were changed" in refused(path)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("name,price\nflour,3\n")
    assert "other columns" in refused(path)
    path.write_bytes(b"\xff\xfe\x00")
    assert "not the CSV file of a sweep" in refused(path)
    path.write_text(",".join(COLUMNS) + "\n1,2,3\n")
    assert "line 2" in refused(path)
    write_files(sweep_rows.run_of(sweep_rows.sweep({"n": (1,)}, model="Other")), path)
    assert "rows of Other over n, but this is Linear over batch, features" in refused(path)


def test_rows_of_a_model_whose_code_has_changed_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_files(RUN, path)
    changed = [SweepCase(replace(case, setup="another text"), point) for case, point in CASES]
    with pytest.raises(InvalidArgumentError, match="another Linear, whose code"):
        check_file(path, RUN, changed, HERE)


def test_what_is_no_ordinary_file_is_refused_and_not_read() -> None:
    said = r"/dev/full is not a regular file.*use another --csv"
    with pytest.raises(InvalidArgumentError, match=said):
        check_file(Path("/dev/full"), None, CASES, HERE)


def test_a_full_disk_is_told_with_what_to_do() -> None:
    with pytest.raises(OutputFileError, match=r"/dev/full .*No space left.*same command"):
        write_files(RUN, Path("/dev/full"))


@given(reason=st.text(st.characters(categories=["L", "N", "P", "Z", "Cc"]), max_size=60))
def test_whatever_the_reason_a_row_is_one_line(reason: str) -> None:
    text = render(sweep_rows.run_of([sweep_rows.failed(reason)]), "csv")
    assert text.count("\n") == 2
    heading, row = csv.reader(io.StringIO(text))
    assert len(row) == len(heading) == len(COLUMNS) + 1


def test_a_file_of_an_earlier_version_goes_on_and_has_all_columns_then(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_files(RUN, path)
    new = path.read_text()
    older = [line[: COLUMNS.index("warnings")] for line in csv.reader(new.splitlines())]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(older)
    assert path.read_text() != new
    assert check_file(path, RUN, CASES, HERE) == {case.id for case, _, _ in MADE}
    path.write_text(path.read_text().replace("2.008e-06", "2.007e-06"))
    assert "were changed" in refused(path)
    write_files(RUN, path)
    assert path.read_text() == new
    assert check_file(path, RUN, CASES, HERE) == {case.id for case, _, _ in MADE}


def test_columns_that_somebody_added_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_files(RUN, path)
    path.write_text(path.read_text().replace("\n", ",mine\n"))
    assert "other columns" in refused(path)


@pytest.mark.parametrize("kept", [5, 300, -1])
def test_a_heading_that_was_cut_short_is_no_loss(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "rows.csv"
    write_files(RUN, path)
    heading = path.read_text().partition("\n")[0]
    path.write_text(heading[:kept])
    assert check_file(path, None, CASES, HERE) == frozenset()
    path.write_text(heading + "\n")
    assert check_file(path, None, CASES, HERE) == frozenset()
