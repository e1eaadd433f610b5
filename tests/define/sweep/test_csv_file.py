from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.define.sweep.specs import cases
from torchmark.commands.sweeping.csv_file import KernelsFile, SweepFile, kernels_file, to_be_done
from torchmark.errors import InvalidArgumentError, OutputFileError
from torchmark.model.sweep_record import Phase, RowStatus, SweepRow
from torchmark.report.sweep_csv import COLUMNS, line_of, row_of, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.define.sweep.points import SweepCase

HERE = "an environment"
seconds = st.none() | st.floats(0, 1e6)
whole = st.none() | st.integers(0, 10**15)

rows = st.builds(
    SweepRow,
    case_id=st.text("0123456789abcdef", min_size=16, max_size=16),
    model=st.just("double"),
    dims=st.lists(
        st.tuples(st.sampled_from(["batch", "features"]), st.integers(1, 10**9)), max_size=3
    ).map(tuple),
    dtype=st.sampled_from(["fp32", "int8"]),
    backend=st.sampled_from(["pt", "ort"]),
    phase=st.sampled_from(Phase),
    threads=st.integers(1, 64),
    samples=st.integers(0, 1000),
    median_s=seconds,
    flops=whole,
    bytes=whole,
    max_error=st.none() | st.floats(0, allow_nan=False),
    status=st.sampled_from(RowStatus),
    reason=st.text(st.characters(categories=["L", "N", "P"]), max_size=30),
)


def measured(case: SweepCase) -> SweepRow:
    return replace(case.row, samples=30, median_s=1e-6, environment=HERE)


@given(rows)
def test_a_row_comes_back_from_its_line_as_it_was(row: SweepRow) -> None:
    assert row_of(values_of(row)) == row
    assert line_of(values_of(row)).count("\n") == 1


def test_a_reason_of_several_lines_is_one_line() -> None:
    row = replace(cases()[0].row, status=RowStatus.FAILED, reason="it said:\n  'no',\tand left\n")
    assert line_of(values_of(row)).count("\n") == 1
    assert row_of(values_of(row)).reason == "it said: 'no', and left"


def test_what_is_there_is_taken_up_and_what_is_new_comes_after_it(tmp_path: Path) -> None:
    path, every = tmp_path / "rows.csv", cases()
    with SweepFile(path, every, HERE) as file:
        assert file.measured == {}
        for case in every[:3]:
            file.append(measured(case))
    with SweepFile(path, every, HERE) as file:
        assert list(file.measured) == [case.row.case_id for case in every[:3]]
        file.append(measured(every[3]))
    lines = path.read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert [line[:16] for line in lines[1:]] == [case.row.case_id for case in every[:4]]


@pytest.mark.parametrize("lost", [1, 20, 60])
def test_the_end_of_a_line_that_was_cut_short_is_dropped(tmp_path: Path, lost: int) -> None:
    path, every = tmp_path / "rows.csv", cases()
    with SweepFile(path, every, HERE) as file:
        for case in every[:2]:
            file.append(measured(case))
    os.truncate(path, path.stat().st_size - lost)
    with SweepFile(path, every, HERE) as file:
        assert list(file.measured) == [every[0].row.case_id]
        file.append(measured(every[1]))
    assert path.read_text() == "".join(
        map(line_of, [COLUMNS, *(values_of(measured(case)) for case in every[:2])])
    )


def test_a_heading_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("case_id,mod")
    with SweepFile(path, cases(), HERE):
        assert path.read_text() == line_of(COLUMNS)


def test_what_was_not_measured_is_tried_again(tmp_path: Path) -> None:
    path, every = tmp_path / "rows.csv", cases()
    with SweepFile(path, every, HERE) as file:
        file.append(replace(every[1].row, status=RowStatus.SKIPPED, reason="no", environment=HERE))
        file.append(measured(every[0]))
    with SweepFile(path, every, HERE) as file:
        assert list(file.measured) == [every[0].row.case_id]
        file.append(measured(every[1]))
    assert path.read_text() == "".join(
        map(line_of, [COLUMNS, *(values_of(measured(case)) for case in every[:2])])
    )


def test_rows_of_other_sizes_of_the_same_model_stay(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    other = cases(input_scales={"batch": [99], "features": [8], "times": [2]})
    with SweepFile(path, other, HERE) as file:
        file.append(measured(other[0]))
    with SweepFile(path, cases(), HERE):
        assert "batch=99" in path.read_text()


def refused(path: Path, every: list[Any], environment: str = HERE) -> str:
    before = path.read_bytes()
    with pytest.raises(InvalidArgumentError) as raised:
        SweepFile(path, every, environment)
    assert path.read_bytes() == before
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("name,price\nflour,3\n")
    assert "other columns" in refused(path, cases())
    path.write_bytes(b"\xff\xfe\x00")
    assert "no CSV" in refused(path, cases())
    path.write_text(line_of(COLUMNS) + "1,2,3\n")
    assert "line 2" in refused(path, cases())


def test_rows_of_another_sweep_are_refused(tmp_path: Path) -> None:
    path, every = tmp_path / "rows.csv", cases()
    with SweepFile(path, every, HERE) as file:
        file.append(measured(every[0]))
    assert "another environment" in refused(path, every, "elsewhere")
    changed = cases(model_init_params=[], input_scales={"batch": [1], "features": [8]})
    assert "over batch, features, times" in refused(path, changed)

    def double(x: Any, *, times: int) -> Any:
        return x + x * (times - 1)

    assert "another double" in refused(path, cases(model=double))


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="is its folder there"):
        SweepFile(tmp_path / "nowhere" / "rows.csv", cases(), HERE)


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InvalidArgumentError, match="another process writes"):
            SweepFile(path, cases(), HERE)


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    every = cases()
    with SweepFile(tmp_path / "rows.csv", every, HERE) as file:
        full = os.open("/dev/full", os.O_WRONLY)
        own, file._descriptor = file._descriptor, full
        with pytest.raises(OutputFileError, match=r"No space left.*goes on"):
            file.append(measured(every[0]))
        file._descriptor = own
        os.close(full)


KERNELS = [
    {"kernel": "aten::add", "calls": 2.0, "seconds": 1e-6},
    {"kernel": "aten::mm", "calls": 1.0, "seconds": 2e-6},
]


def with_kernels(path: Path, every: Sequence[SweepCase]) -> None:
    with KernelsFile(path, ()) as file:
        for case in every:
            file.append(case.row, KERNELS)


def test_kernels_stay_as_long_as_their_rows(tmp_path: Path) -> None:
    path, every = kernels_file(tmp_path / "rows.csv"), cases()
    assert path.name == "rows.kernels.csv"
    with_kernels(path, every[:2])
    lines = path.read_text().splitlines()
    assert "aten::mm,1.0,2e-06" in lines[1]
    one, other = every[0].row.case_id, every[1].row.case_id
    with KernelsFile(path, [other]) as file:
        assert (file.has(one), file.has(other)) == (False, True)
    assert path.read_text().splitlines() == [lines[0], *lines[3:]]
    with_kernels(path, [])
    assert path.read_text().splitlines() == lines[:1]


@pytest.mark.parametrize("lost", [1, 5, 40])
def test_kernels_that_were_cut_short_are_done_again(tmp_path: Path, lost: int) -> None:
    path, every = tmp_path / "rows.kernels.csv", cases()
    with_kernels(path, every[:2])
    whole = path.read_bytes()
    os.truncate(path, len(whole) - lost)
    rows = [case.row.case_id for case in every[:2]]
    with KernelsFile(path, rows) as file:
        assert to_be_done(every[:2], rows, file) == [every[1]]
        file.append(every[1].row, KERNELS)
    assert path.read_bytes() == whole


def test_what_is_to_be_done_lacks_its_row_or_its_kernels(tmp_path: Path) -> None:
    path, every = tmp_path / "rows.kernels.csv", cases()[:3]
    with_kernels(path, every[:1])
    rows = [case.row.case_id for case in every[:2]]
    assert to_be_done(every, rows, None) == every[2:]
    with KernelsFile(path, rows) as file:
        assert to_be_done(every, rows, file) == every[1:]


def test_a_file_that_has_no_kernels_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.kernels.csv"
    path.write_text("something,else\n")
    with pytest.raises(InvalidArgumentError, match="other columns"):
        KernelsFile(path, ())
    assert path.read_text() == "something,else\n"


def test_what_is_no_ordinary_file_is_refused_and_not_read() -> None:
    with pytest.raises(InvalidArgumentError, match=r"/dev/full is no ordinary file.*another --csv"):
        SweepFile(Path("/dev/full"), cases(), HERE)
