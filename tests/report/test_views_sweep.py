"""A sweep as text, and its page in a real browser."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests import sweep_rows
from tests.report.made_up_views import find_section
from torchmark.model.result import KernelCalls, KernelTimes, Metric, Result, Status
from torchmark.model.run_settings import Phase
from torchmark.report import render, view_of
from torchmark.report.formats import html

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.sweep_rows import Made

HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m'

TEXT = """\
Sweep of Linear (20261117-120000-abc123)
finished, started 2026-11-17T12:00:00+00:00
torch 2.13.0, Fast One

Linear, 1 thread: features=64
forward, fp32        pt  compile      ×      ort      ×
  batch=1       2.06 us  9.04 us  0.23×  4.03 us  0.51×
  batch=8       2.51 us  9.32 us  0.27×  4.20 us  0.60×
  batch=9        failed        –               –
forward, fp16        pt  compile      ×      ort      ×
  batch=1       2.19 us  9.12 us  0.24×  4.08 us  0.54×
  batch=8       3.54 us  9.96 us  0.36×  4.61 us  0.77×
backward, fp32       pt  compile      ×      ort      ×
  batch=1       4.13 us  18.1 us  0.23×  skipped
  batch=8       5.02 us  18.6 us  0.27×  skipped
backward, fp16       pt  compile      ×      ort      ×
  batch=1       4.38 us  18.2 us  0.24×  skipped
  batch=8       7.07 us  19.9 us  0.36×  skipped
Times are medians of one run; × is the speed-up over pt in the same dtype.
Largest difference from pt: compile fp32 1.2e-07, ort fp32 1.2e-07, compile fp16
  1.2e-07, ort fp16 1.2e-07.
Preparing a point took: compile 1.50 s, ort 1.50 s.

Speed-up over pt
phase       dtype  backend   mean  least   most  points
  forward   fp32   compile  0.25×  0.23×  0.27×       2
  backward  fp32   compile  0.25×  0.23×  0.27×       2
  forward   fp32   ort      0.55×  0.51×  0.60×       2
  forward   fp16   compile  0.29×  0.24×  0.36×       2
  backward  fp16   compile  0.29×  0.24×  0.36×       2
  forward   fp16   ort      0.64×  0.54×  0.77×       2
Over all points that both have; mean is the geometric mean.

Failed
  pt fp32 forward batch=9 features=64: RuntimeError: mat1 and mat2 do not fit

Skipped
  4 cases (ort fp32, ort fp16; backward): ONNX Runtime has no gradients

25 cases: 20 measured, 4 skipped, 1 failed.
"""


def text_of(made: list[Made]) -> str:
    return render(sweep_rows.run_of(made), "text")


def test_a_line_for_each_point_has_a_column_and_a_speed_up_for_each_backend() -> None:
    made = sweep_rows.sweep(
        {"batch": (1, 8), "features": (64,)},
        dtypes=("fp32", "fp16"),
        phases=(Phase.FORWARD, Phase.BACKWARD),
    )
    made.insert(0, sweep_rows.failed(dims=(("batch", 9), ("features", 64))))
    assert text_of(made) == TEXT


def test_a_sweep_of_all_configs_fits_eighty_columns() -> None:
    lines = text_of(sweep_rows.LARGE).splitlines()
    assert max(map(len, lines)) <= 80
    points = [line for line in lines if line.startswith("  batch=")]
    assert len(points) == 48 * 3 * 3  # a line for each point, dtype and phase


def test_of_very_many_points_the_first_are_shown() -> None:
    lines = text_of(sweep_rows.sweep({"n": range(1, 101)})).splitlines()
    shown = [line for line in lines if line.startswith("  n=")]
    assert len(shown) == 60
    assert shown[-1].startswith("  n=60 ")
    assert "  … 40 more points: see the CSV" in lines


def test_times_of_other_models_and_threads_are_never_compared() -> None:
    text = text_of(
        [
            sweep_rows.result(median=1e-3),
            sweep_rows.result(median=1e-6, backend="ort", threads=2),
            sweep_rows.result(median=1e-6, backend="ort", model="Other"),
        ]
    )
    assert "1000" not in text
    assert "×" not in text.replace("×  ", "").replace("×\n", ""), "no speed-up, headings apart"
    assert [line.split() for line in text.splitlines() if "thread" in line] == [
        ["threads=1", "1.00", "ms", "–"],
        ["threads=2", "–", "1.00", "us"],
        ["Other,", "1", "thread"],
    ]


def test_one_backend_alone_has_no_column_of_speed_ups() -> None:
    text = text_of(sweep_rows.sweep({"n": (1, 2)}, backends=("ort",)))
    assert "×" not in text
    assert "n=2" in text


def test_a_sweep_of_which_nothing_was_measured_says_why() -> None:
    reason = "onnxruntime cannot be imported: pip install 'torchmark[ort]'"
    text = text_of([sweep_rows.skipped(reason, dims=(("n", size),)) for size in (1, 2, 3)])
    assert f"3 cases (ort fp32; forward): {reason}" in " ".join(text.split())
    assert text.endswith("3 cases: 3 skipped.\n")


def test_one_row_and_none_are_told_as_they_are() -> None:
    text = text_of([sweep_rows.result()])
    assert "Linear, 1 thread\nforward, fp32       pt\n  batch=8      10.0 us\n" in text
    assert text.endswith("1 case: 1 measured.\n")
    assert text_of([sweep_rows.result(dims=())]).count("10.0 us") == 1
    assert text_of([]).endswith("No cases.\n")


def test_a_sweep_that_was_cut_short_says_what_is_missing() -> None:
    run = sweep_rows.run_of(sweep_rows.sweep({"n": (1, 2)}, backends=("pt",)))
    text = render(msgspec.structs.replace(run, results=run.results[:1]), "text")
    assert text.endswith("2 cases: 1 measured, 1 not measured.\n")


def test_what_moves_a_cursor_does_not_reach_the_terminal() -> None:
    text = text_of([sweep_rows.failed("\x1b[2Jboom\r\nmore", model="M\x1b[31m")])
    assert "\x1b" not in text
    assert "\r" not in text
    assert "boom" in text


def test_a_result_that_differs_too_much_is_a_warning_beside_its_time() -> None:
    text = text_of(
        [
            sweep_rows.result(),
            sweep_rows.result(backend="ort", reason="differs by 3", max_error=3.0),
        ]
    )
    assert "10.0 us (!)" in text
    assert "WARNING ort fp32 forward batch=8: differs by 3" in text


def test_kernels_unfold_below_their_case() -> None:
    made = sweep_rows.sweep({"n": (1, 2)}, backends=("pt",))
    kernels = KernelTimes(kernels=(KernelCalls(kernel="aten::mm", calls=2.0, seconds=3e-6),))
    result = Result(
        case=made[0][0], metric=Metric.PROFILE, status=Status.DONE, finished="", payload=kernels
    )
    section = find_section(view_of(sweep_rows.run_of(made, kernels=[result])), "cases")
    assert section is not None
    assert section.table is not None
    with_kernels, without = section.table.rows
    assert without.details == ()
    (detail,) = with_kernels.details
    assert detail.table is not None
    assert [cell.value for cell in detail.table.rows[0].cells] == ["aten::mm", 2.0, 3e-6]


@pytest.fixture
def opened(tmp_path: Path, visit: Callable[..., Any]) -> Callable[[list[Made]], Page]:
    def page_of(made: list[Made]) -> Page:
        file = tmp_path / "sweep.html"
        file.write_text(render(sweep_rows.run_of(made), "html"), encoding="utf-8")
        page: Page = visit(file).page
        return page

    return page_of


def test_charts_and_all_cases_are_on_the_page(opened: Callable[[list[Made]], Page]) -> None:
    made = sweep_rows.sweep(
        {"batch": (1, 8), "width": (64, 128)},
        dtypes=("fp32", "fp16", "bf16"),
        phases=tuple(Phase),
    )
    page = opened(made)
    assert page.locator("#cases tbody tr.case").count() == len(made)
    page.locator("#chart-scaling .plot svg").wait_for()
    marks = page.locator("#chart-scaling .plot svg .mark-symbol path")
    before = marks.count()
    assert before > 0
    assert "Fast One" in page.inner_text("#environments")
    assert "ONNX Runtime has no gradients" in page.inner_text("#skipped")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # A box of the legend hides a config, and only that.
    box = page.locator("#chart-scaling").get_by_role("checkbox", name="ort bf16")
    box.uncheck()
    page.wait_for_function(
        "before => document.querySelectorAll("
        "'#chart-scaling .plot svg .mark-symbol path').length < before",
        arg=before,
    )
    box.check()
    page.wait_for_function(
        "before => document.querySelectorAll("
        "'#chart-scaling .plot svg .mark-symbol path').length === before",
        arg=before,
    )
    # A mark shows its figures under the pointer.
    marks.first.hover()
    tooltip = page.locator(".vg-tooltip, #vg-tooltip-element")
    tooltip.wait_for()
    assert "forward" in tooltip.inner_text()


def test_names_of_users_are_text_on_the_page(
    opened: Callable[[list[Made]], Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "load_bundle", lambda: "")
    fields: dict[str, Any] = {"model": HOSTILE, "dtype": HOSTILE}
    made = [sweep_rows.result(dims=((HOSTILE, size),), **fields) for size in (1, 2)]
    made.append(sweep_rows.failed(HOSTILE, dims=((HOSTILE, 3),), **fields))
    made.append(sweep_rows.skipped(HOSTILE, dims=((HOSTILE, 4),), **fields))
    page = opened(made)
    assert page.locator("img").count() == 0
    assert "onerror" in page.inner_text("h1")


@pytest.mark.parametrize(
    "made",
    [
        [],
        [sweep_rows.result()],
        [sweep_rows.result(dims=())],
        [sweep_rows.skipped(dims=(("n", size),)) for size in (1, 2)],
        [sweep_rows.failed()],
        sweep_rows.sweep({"n": (4,)}, backends=("pt",)),
        sweep_rows.sweep({"n": (4, 8)}, backends=("ort",)),
    ],
    ids=["none", "one", "no dims", "all skipped", "failed", "one size", "no eager"],
)
def test_little_data_is_still_a_page(made: list[Made], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "load_bundle", lambda: "")
    page = render(sweep_rows.run_of(made), "html")
    for _, _, result in made:
        assert result.reason in page
    if not any(result.payload and point.dims for _, point, result in made):
        assert "there is nothing to draw" in page


def test_a_wide_interval_is_marked_and_told() -> None:
    """87 us in [22, 152] once stood there like any other."""
    made = [
        sweep_rows.result(dims=(("batch", 8),)),
        sweep_rows.result(dims=(("batch", 9),), median=87e-6, low=22e-6, high=152e-6, threads=2),
    ]
    text = text_of(made)
    assert "87.0 us (!)" in text
    assert text.count("(!)") == 1
    assert (
        "WARNING wide interval, pt fp32 forward batch=9 threads=2: the 95 % interval of the "
        "median 87 us is 22 us to 152 us" in " ".join(text.split())
    )
    page = render(sweep_rows.run_of(made), "html")
    assert page.count(">(!)<") == 2, "at its point, and at its case"


def test_the_csv_has_warnings_and_a_column_for_each_dimension() -> None:
    dims = (("batch", 9), ("samples", 3))
    made = [sweep_rows.result(dims=dims, median=87e-6, low=22e-6, high=152e-6)]
    (row,) = csv.DictReader(io.StringIO(render(sweep_rows.run_of(made), "csv")))
    assert list(row)[-3:] == ["warnings", "batch", "dim_samples"]
    assert (row["warnings"], row["batch"], row["dim_samples"]) == ("wide interval", "9", "3")
    assert (row["dims"], row["samples"]) == ("batch=9 samples=3", "40")


def test_threads_that_vary_have_their_own_lines_and_a_column_of_the_cases() -> None:
    made = [
        each
        for threads in (1, 2)
        for each in sweep_rows.sweep({"n": (8, 16), "m": (4,)}, backends=("pt",), threads=threads)
    ]
    lines = text_of(made).splitlines()
    assert "Linear: m=4" in lines
    points = [line.split("  ")[1] for line in lines if line.startswith("  n=")]
    assert points == ["n=8 threads=1", "n=8 threads=2", "n=16 threads=1", "n=16 threads=2"]


def test_all_four_backends_fit_eighty_columns_with_their_marks() -> None:
    doubtful: dict[str, Any] = {"median": 123.4e-6, "low": 1e-6, "high": 1.0}
    made = [
        sweep_rows.result(dims=(("batch", 4096), ("features", 16384)), backend=backend, **doubtful)
        for backend in ("pt", "compile", "compile-static", "ort")
    ]
    lines = text_of(made).splitlines()
    assert max(map(len, lines)) <= 80
    assert "\n".join(lines).count("123 us (!)") == 4
