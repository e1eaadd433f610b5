"""The charts of a sweep: what is on a line, on which axes, and as PNG."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import sweep_rows
from torchmark.model.run import MachineSpeeds
from torchmark.model.run_settings import Phase
from torchmark.report.formats.vega import png_of, svg_of
from torchmark.report.views.charts import grows_geometrically, log_axis, size_axis, times_axis
from torchmark.report.views.sweep_charts import more_scaling, roofline, scaling, speed_up

if TYPE_CHECKING:
    from torchmark.report.view import Chart

HOSTILE = '<script>alert("x")</script>&\x00\x1b[31m'


def drawn(chart: Chart | None) -> Chart:
    assert chart is not None
    return chart


def panels(chart: Chart) -> list[dict[str, Any]]:
    return list(chart.spec["concat"])


def values_of(chart: Chart, panel: int, config: str) -> list[dict[str, Any]]:
    return [
        value
        for value in chart.spec["data"]["values"]
        if value["panel"] == panel and value["config"] == config
    ]


def x_of(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = panel["layer"][-1]["encoding"]["x"]
    return found


def y_of(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = panel["layer"][-1]["encoding"]["y"]
    return found


def test_there_is_a_panel_for_each_dimension_and_phase_and_a_line_for_each_config() -> None:
    chart = drawn(scaling(sweep_rows.rows(sweep_rows.LARGE)))
    assert [(x_of(panel)["title"], panel["title"]["text"]) for panel in panels(chart)] == [
        (dim, phase.value) for dim in ("batch", "features", "heads") for phase in Phase
    ]
    assert chart.spec["columns"] == 3
    forward = {value["config"] for value in chart.spec["data"]["values"] if value["panel"] == 0}
    both = {value["config"] for value in chart.spec["data"]["values"] if value["panel"] == 1}
    assert (len(forward), len(both)) == (9, 6)  # ONNX Runtime has no gradients


def test_a_line_has_one_point_a_size_and_the_medians_of_its_own_rows() -> None:
    """Where lines mixed other dimensions, there would be several, or their mean."""
    rows = sweep_rows.rows(sweep_rows.sweep({"a": (1, 2, 4), "b": (8, 16)}))
    chart = drawn(scaling(rows))
    assert [panel["title"]["subtitle"] for panel in panels(chart)] == ["b=16", "a=4"]
    expected = {
        dict(row.dims)["a"]: row.median_s
        for row in rows
        if row.backend == "ort" and dict(row.dims)["b"] == 16
    }
    points = values_of(chart, 0, "ort fp32")
    assert {point["size"]: point["value"] for point in points} == expected
    assert all(point["low"] < point["value"] < point["high"] for point in points)


def test_other_sizes_that_are_held_have_panels_of_their_own() -> None:
    rows = sweep_rows.rows(sweep_rows.sweep({"a": (1, 2, 4), "b": (8, 16, 32)}))
    held = [panel["title"]["subtitle"] for panel in panels(drawn(more_scaling(rows)))]
    assert held == ["b=16", "b=8", "a=2", "a=1"]
    assert more_scaling(sweep_rows.rows(sweep_rows.sweep({"a": (1, 2, 4)}))) is None


def test_a_case_that_failed_breaks_its_line() -> None:
    made = [sweep_rows.result(dims=(("n", size),)) for size in (1, 2, 8)]
    made.append(sweep_rows.failed(dims=(("n", 4),)))
    made.append(sweep_rows.result(dims=(("n", 4),), backend="compile"))
    chart = drawn(scaling(sweep_rows.rows(made)))
    pieces = [(value["size"], value["piece"]) for value in values_of(chart, 0, "pt fp32")]
    assert pieces == [(1, 0), (2, 0), (8, 1)]
    line = next(layer for layer in panels(chart)[0]["layer"] if layer["mark"] == "line")
    assert line["encoding"]["detail"] == {"field": "piece"}


def test_a_backend_has_the_same_colour_whichever_others_there_are() -> None:
    def colours(*backends: str) -> dict[str, str]:
        chart = drawn(scaling(sweep_rows.rows(sweep_rows.sweep({"n": (1, 2)}, backends=backends))))
        scale = panels(chart)[0]["layer"][-1]["encoding"]["color"]["scale"]
        return dict(zip(scale["domain"], scale["range"], strict=True))

    every = colours("pt", "compile", "ort")
    assert len(set(every.values())) == 3
    assert colours("ort") == {"ort fp32": every["ort fp32"]}


def test_the_speed_up_is_drawn_with_eager_at_one() -> None:
    rows = sweep_rows.rows(
        sweep_rows.sweep({"n": (1, 1000)}, phases=(Phase.FORWARD, Phase.BACKWARD))
    )
    chart = drawn(speed_up(rows))
    medians = {(row.backend, dict(row.dims)["n"], row.phase): row.median_s for row in rows}
    expected = [
        (medians["pt", size, Phase.FORWARD] or 0) / (medians["ort", size, Phase.FORWARD] or 1)
        for size in (1, 1000)
    ]
    assert [value["value"] for value in values_of(chart, 0, "ort fp32")] == pytest.approx(expected)
    assert values_of(chart, 1, "ort fp32") == []
    assert panels(chart)[0]["layer"][0]["data"] == {"values": [{"one": 1}]}
    assert y_of(panels(chart)[0])["scale"]["type"] == "log"
    without = sweep_rows.rows(sweep_rows.sweep({"n": (1, 2)}, backends=("compile", "ort")))
    assert speed_up(without) is None


@pytest.mark.parametrize(
    ("sizes", "is_log"),
    [
        ([1, 2, 4, 8], True),
        ([1, 3, 10, 32, 100], True),
        ([64, 128, 192, 256], False),
        (list(range(1, 100)), False),
        ([1, 4096], True),
        ([16, 24], False),
        ([8], False),
        ([0, 1, 10, 100], False),
    ],
)
def test_axes_are_logarithmic_where_the_scale_is(sizes: list[int], is_log: bool) -> None:
    assert grows_geometrically(sizes) is is_log
    assert size_axis("n", sizes)["scale"]["type"] == ("log" if is_log else "linear")


def test_times_over_more_than_a_decade_are_on_a_logarithmic_axis() -> None:
    assert times_axis([1e-6, 20e-6])["scale"]["type"] == "log"
    assert times_axis([1e-6, 8e-6])["scale"]["domain"][0] == 0.0


@given(st.lists(st.floats(1e-9, 1e4), min_size=1, max_size=9))
def test_an_axis_holds_its_values_and_has_labels(values: list[float]) -> None:
    for axis in (log_axis(values, "datum.value"), times_axis(values)):
        low, high = axis["scale"]["domain"]
        assert all(low <= value <= high for value in values)
        ticks = axis["axis"]["values"]
        assert 1 <= len(ticks) <= 12
        assert all(low * 0.999999 <= at <= high * 1.000001 for at in ticks)


def roofs_in(chart: Chart) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for corner in panels(chart)[0]["layer"][0]["data"]["values"]:
        found.setdefault(corner["roof"], []).append((corner["x"], corner["y"]))
    return found


def speeds(width: float, **flops: float) -> MachineSpeeds:
    return MachineSpeeds(
        small_call_seconds=1e-6, bytes_per_second={1: width}, flops_per_second=flops
    )


def test_the_roofline_has_the_best_seen_or_the_measured_roofs() -> None:
    rows = sweep_rows.rows(sweep_rows.sweep({"n": (64, 1024)}, dtypes=("fp32", "fp16")))
    seen = drawn(roofline(rows, None))
    best = max((row.flops or 0) / (row.median_s or 1) for row in rows)
    assert max(y for roof in roofs_in(seen).values() for _, y in roof) == pytest.approx(best)
    assert "best values of this sweep" in seen.note

    chart = drawn(roofline(rows, speeds(1e11, float32=1e12, float16=2e12)))
    ridges = {dtype: roof[1] for dtype, roof in roofs_in(chart).items()}
    assert ridges["fp32"] == pytest.approx((10, 1e12))
    assert ridges["fp16"] == pytest.approx((20, 2e12))
    assert "measured on this machine): " in chart.note
    assert "fp32 1.00 TFLOP/s" in chart.note
    first = rows[0]
    assert first.flops is not None
    assert first.bytes is not None
    assert values_of(chart, 0, "pt fp32")[0]["intensity"] == first.flops / first.bytes


def test_no_roof_is_below_what_the_machine_has_done() -> None:
    """Where it was slowed while its speed was taken, or a backend casts to a quicker dtype."""
    rows = sweep_rows.rows(sweep_rows.sweep({"n": (64, 1024)}))
    low = drawn(roofline(rows, speeds(1.0, float32=1.0)))
    assert roofs_in(low) == roofs_in(drawn(roofline(rows, None)))
    assert "or the best values of this sweep if higher" in low.note


def test_roofs_that_are_close_share_a_label() -> None:
    rows = sweep_rows.rows(sweep_rows.sweep({"n": (64, 1024)}, dtypes=("fp32", "fp16")))

    def labels(float32: float, float16: float) -> list[str]:
        chart = drawn(roofline(rows, speeds(1e11, float32=float32, float16=float16)))
        return [name["roof"] for name in panels(chart)[0]["layer"][1]["data"]["values"]]

    assert labels(1e12, 1.01e12) == ["fp16, fp32"]
    assert labels(1e12, 4e12) == ["fp16", "fp32"]


def test_rows_without_flops_have_no_roofline() -> None:
    made = [sweep_rows.result(), sweep_rows.result(flops=100, bytes=0, backend="ort")]
    assert roofline(sweep_rows.rows(made), None) is None


def test_charts_are_drawn_as_png() -> None:
    rows = sweep_rows.rows(sweep_rows.sweep({"n": (1, 8, 64)}, dtypes=("fp32", "fp16")))
    for chart in (scaling(rows), speed_up(rows), roofline(rows, None)):
        data = png_of(drawn(chart))
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        assert width > 700
        assert height > 500


def test_nothing_measured_is_no_chart() -> None:
    for made in ([], [sweep_rows.skipped(), sweep_rows.failed()], [sweep_rows.result(dims=())]):
        rows = sweep_rows.rows(made)
        assert scaling(rows) is None
        assert speed_up(rows) is None
        assert roofline(rows, None) is None


def test_one_size_is_drawn_as_points() -> None:
    chart = drawn(scaling(sweep_rows.rows(sweep_rows.sweep({"n": (1024,)}))))
    names = ("pt fp32", "compile fp32", "ort fp32")
    assert [len(values_of(chart, 0, name)) for name in names] == [1, 1, 1]
    assert svg_of(chart).startswith("<svg")


def test_names_of_users_are_text_in_the_drawing() -> None:
    made = [sweep_rows.result(dims=((HOSTILE, size),), model=HOSTILE) for size in (1, 2)]
    assert "<script" not in svg_of(drawn(scaling(sweep_rows.rows(made))))


def test_threads_have_a_panel_of_their_own_and_the_roofline_shows_the_most() -> None:
    rows = sweep_rows.rows(
        made for threads in (1, 2) for made in sweep_rows.sweep({"n": (8, 16)}, threads=threads)
    )
    chart = scaling(rows)
    assert chart is not None
    titles = [(panel["layer"][0]["encoding"]["x"]["title"], panel["title"]["subtitle"])
              for panel in chart.spec["concat"]]  # fmt: skip
    assert titles == [("n", "threads=2"), ("threads", "n=16")]
    roofs = roofline(rows, None)
    assert roofs is not None
    assert roofs.note.startswith("Cases with 2 threads. Roofs")
    assert len(roofs.spec["data"]["values"]) == len(rows) / 2


def test_the_intervals_of_a_roofline_lie_within_its_axis() -> None:
    rows = sweep_rows.rows([sweep_rows.result(low=1e-7, high=1e-3, flops=1000, bytes=100)])
    chart = roofline(rows, None)
    assert chart is not None
    low, high = chart.spec["concat"][0]["layer"][-1]["encoding"]["y"]["scale"]["domain"]
    assert low <= 1000 / 1e-3 < 1000 / 1e-7 <= high
