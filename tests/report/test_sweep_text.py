"""The table of a sweep in a terminal."""

from __future__ import annotations

from tests import sweep_rows
from torchmark.model.sweep_record import Phase
from torchmark.report import sweep_text

TEXT = """\
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

Times are medians of one run; × is how many times as fast as pt, same dtype.

Largest difference from pt: compile fp32 1.2e-07, ort fp32 1.2e-07, compile fp16
  1.2e-07, ort fp16 1.2e-07

FAILED pt fp32 forward batch=9 features=64: RuntimeError: mat1 and mat2 do not
  fit

SKIPPED 4 cases (ort fp32, ort fp16; backward): ONNX Runtime has no gradients

25 cases: 20 measured, 4 skipped, 1 failed.
"""


def test_a_line_for_each_point_has_a_column_and_a_speed_up_for_each_backend() -> None:
    rows = sweep_rows.sweep(
        {"batch": (1, 8), "features": (64,)},
        dtypes=("fp32", "fp16"),
        phases=(Phase.FORWARD, Phase.BACKWARD),
    )
    rows.insert(0, sweep_rows.failed(dims=(("batch", 9), ("features", 64))))
    assert sweep_text.render(rows, 80) == TEXT


def test_a_sweep_of_all_configs_fits_eighty_columns() -> None:
    lines = sweep_text.render(sweep_rows.LARGE, 80).splitlines()
    assert max(map(len, lines)) <= 80
    points = [line for line in lines if line.startswith("  batch=")]
    assert len(points) == 48 * 3 * 3  # a line for each point, dtype and phase


def test_of_very_many_points_the_first_are_shown() -> None:
    lines = sweep_text.render(sweep_rows.sweep({"n": range(1, 101)})).splitlines()
    assert lines[61].startswith("  n=60 ")
    assert lines[62] == "  … 40 more: see the CSV"


def test_times_of_other_models_and_threads_are_never_held_against_each_other() -> None:
    rows = [
        sweep_rows.row(median_s=1e-3),
        sweep_rows.row(median_s=1e-6, backend="ort", threads=2),
        sweep_rows.row(median_s=1e-6, backend="ort", model="Other"),
    ]
    text = sweep_text.render(rows)
    assert "1000" not in text
    assert [line for line in text.splitlines() if "thread" in line] == [
        "Linear, 1 thread",
        "Linear, 2 threads",
        "Other, 1 thread",
    ]


def test_one_backend_alone_has_no_column_of_speed_ups() -> None:
    text = sweep_text.render(sweep_rows.sweep({"n": (1, 2)}, backends=("ort",)))
    assert "×" not in text
    assert "n=2" in text


def test_a_sweep_of_which_nothing_was_measured_says_why() -> None:
    reason = "onnxruntime cannot be imported: pip install 'torchmark[ort]'"
    rows = [sweep_rows.skipped(reason, dims=(("n", size),)) for size in (1, 2, 3)]
    text = sweep_text.render(rows)
    assert f"SKIPPED 3 cases (ort fp32; forward): {reason}" in " ".join(text.split())
    assert text.endswith("3 cases: 3 skipped.\n")


def test_one_row_and_none_are_told_as_they_are() -> None:
    assert sweep_text.render([sweep_rows.row()]) == (
        "Linear, 1 thread\nforward, fp32       pt\n  batch=8      10.0 us\n\n1 case: 1 measured.\n"
    )
    assert sweep_text.render([sweep_rows.row(dims=())]).count("10.0 us") == 1
    assert sweep_text.render([]) == "no cases.\n"


def test_what_moves_a_cursor_does_not_reach_the_terminal() -> None:
    text = sweep_text.render([sweep_rows.failed("\x1b[2Jboom\r\nmore", model="M\x1b[31m")])
    assert "\x1b" not in text
    assert "\r" not in text
    assert "boom" in text


def test_a_result_that_differs_too_much_is_a_doubt_beside_its_time() -> None:
    rows = [sweep_rows.row(), sweep_rows.row(backend="ort", reason="differs by 3", max_error=3.0)]
    text = sweep_text.render(rows)
    assert "10.0 us (!)" in text
    assert "DOUBT ort fp32 forward batch=8: differs by 3" in text
