"""The pictures of a sweep: what is on a line, on which axes, and as PNG."""

from __future__ import annotations

import struct
import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import sweep_rows
from torchmark.errors import MissingToolError
from torchmark.model.sweep_record import Phase
from torchmark.report.plot_axis import grows_geometrically, size_axis, value_axis
from torchmark.report.plot_figure import figure_svg
from torchmark.report.sweep_pictures import pictures, write_pictures
from torchmark.report.sweep_plots import more_scaling, scaling, speed_up
from torchmark.report.sweep_roofline import Roofs, roofline

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.report.plot_figure import Figure
    from torchmark.report.plot_panel import Panel, Point

HOSTILE = '<script>alert("x")</script>&\x00\x1b[31m'


def points_of(panel: Panel, config: str) -> list[Point]:
    (series,) = [each for each in panel.series if each.look.name == config]
    return [point for piece in series.pieces for point in piece]


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def test_there_is_a_panel_for_each_dimension_and_phase_and_a_line_for_each_config() -> None:
    figure = drawn(scaling(sweep_rows.LARGE))
    assert [(panel.x_name, panel.title) for panel in figure.panels] == [
        (dim, phase.value) for dim in ("batch", "features", "heads") for phase in Phase
    ]
    forward, both, _ = figure.panels[:3]
    assert len(forward.series) == 9
    assert len(both.series) == 6  # ONNX Runtime has no gradients
    assert len({look.classes for look in figure.looks}) == 9


def test_a_line_has_one_point_a_size_and_the_medians_of_its_own_rows() -> None:
    """Where lines mixed other dimensions, there would be several, or their mean."""
    rows = sweep_rows.sweep({"a": (1, 2, 4), "b": (8, 16)})
    by_a, by_b = drawn(scaling(rows)).panels
    assert (by_a.detail, by_b.detail) == ("b=16", "a=4")
    expected = {
        dict(row.dims)["a"]: row.median_s
        for row in rows
        if row.backend == "ort" and dict(row.dims)["b"] == 16
    }
    points = points_of(by_a, "ort fp32")
    assert {point.x: point.y for point in points} == expected
    assert all(point.low < point.y < point.high for point in points)


def test_other_sizes_that_are_held_have_panels_of_their_own() -> None:
    rows = sweep_rows.sweep({"a": (1, 2, 4), "b": (8, 16, 32)})
    held = [panel.detail for panel in drawn(more_scaling(rows)).panels]
    assert held == ["b=16", "b=8", "a=2", "a=1"]
    assert more_scaling(sweep_rows.sweep({"a": (1, 2, 4)})) is None


def test_a_case_that_failed_breaks_its_line() -> None:
    rows = [sweep_rows.row(dims=(("n", size),)) for size in (1, 2, 8)]
    rows.append(sweep_rows.failed(dims=(("n", 4),)))
    rows.append(sweep_rows.row(dims=(("n", 4),), backend="compile"))
    (panel,) = drawn(scaling(rows)).panels
    (series, _) = panel.series
    assert [[point.x for point in piece] for piece in series.pieces] == [[1, 2], [8]]


def test_the_speed_up_is_drawn_with_eager_at_one() -> None:
    rows = sweep_rows.sweep({"n": (1, 1000)}, phases=(Phase.FORWARD, Phase.BACKWARD))
    forward, backward = drawn(speed_up(rows)).panels
    medians = {(row.backend, dict(row.dims)["n"], row.phase): row.median_s for row in rows}
    expected = [
        (medians["pt", size, Phase.FORWARD] or 0) / (medians["ort", size, Phase.FORWARD] or 1)
        for size in (1, 1000)
    ]
    assert [point.y for point in points_of(forward, "ort fp32")] == pytest.approx(expected)
    assert [series.look.name for series in backward.series] == ["compile fp32"]
    assert forward.references[0].places[0][1] == 1
    assert forward.y.is_log
    assert speed_up(sweep_rows.sweep({"n": (1, 2)}, backends=("compile", "ort"))) is None


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
    assert size_axis(sizes, 280).is_log is is_log


def test_times_over_more_than_a_decade_are_on_a_logarithmic_axis() -> None:
    def axis_of(*seconds: float) -> bool:
        rows = [
            sweep_rows.row(dims=(("n", n),), median_s=time) for n, time in enumerate(seconds, 1)
        ]
        return drawn(scaling(rows)).panels[0].y.is_log

    assert axis_of(1e-6, 20e-6)
    assert not axis_of(1e-6, 8e-6)


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=30))
def test_labels_of_sizes_do_not_touch_and_the_ends_have_theirs(sizes: list[int]) -> None:
    axis = size_axis(sizes, 280)
    places = [280 * axis.share(value) for value, _ in axis.ticks]
    widths = [6 * len(label) for _, label in axis.ticks]
    for number in range(1, len(places)):
        gap = (widths[number - 1] + widths[number]) / 2
        is_pair_of_ends = len(places) == 2
        assert is_pair_of_ends or places[number] - places[number - 1] >= gap
    assert axis.ticks[0][0] == min(sizes)
    assert axis.ticks[-1][0] == max(sizes)


@given(
    st.lists(st.floats(1e-9, 1e4), min_size=1, max_size=9),
    st.booleans(),
)
def test_an_axis_holds_its_values_and_has_labels(values: list[float], is_log: bool) -> None:
    axis = value_axis(values, str, is_log=is_log)
    assert all(axis.low <= value <= axis.high for value in values)
    assert 1 <= len(axis.ticks) <= 12
    assert all(axis.low * 0.999999 <= at <= axis.high * 1.000001 for at, _ in axis.ticks)


def test_the_roofline_has_the_best_seen_or_the_given_roofs() -> None:
    rows = sweep_rows.sweep({"n": (64, 1024)}, dtypes=("fp32", "fp16"))
    (panel,) = drawn(roofline(rows)).panels
    best = max((row.flops or 0) / (row.median_s or 1) for row in rows)
    assert max(y for each in panel.references for _, y in each.places) == pytest.approx(best)
    assert "best seen" in drawn(roofline(rows)).note

    roofs = Roofs(flop_per_s={"fp32": 1e12, "fp16": 2e12}, bytes_per_s=1e11, origin="measured")
    given_roofs = drawn(roofline(rows, roofs))
    ridges = [reference.places[1] for reference in given_roofs.panels[0].references]
    assert ridges == [pytest.approx((20, 2e12)), pytest.approx((10, 1e12))]
    assert "Roofs, measured: " in given_roofs.note
    assert "1 TFLOP/s" in given_roofs.note
    first = rows[0]
    point = points_of(given_roofs.panels[0], "pt fp32")[0]
    assert first.flops is not None
    assert first.bytes is not None
    assert point.x == first.flops / first.bytes


def test_no_roof_is_below_what_the_machine_has_done() -> None:
    """Where it was slowed while its speed was taken, or a backend casts to a quicker dtype."""
    rows = sweep_rows.sweep({"n": (64, 1024)})
    low = drawn(roofline(rows, Roofs(flop_per_s={"fp32": 1.0}, bytes_per_s=1.0, origin="slow")))
    seen = drawn(roofline(rows))
    assert low.panels[0].references == seen.panels[0].references
    assert "slow, or the best seen in this sweep where that is more" in low.note


def test_rows_without_flops_have_no_roofline() -> None:
    assert roofline([sweep_rows.row(), sweep_rows.row(flops=100, bytes=0)]) is None


def test_pngs_are_written_beside_the_page(tmp_path: Path) -> None:
    rows = sweep_rows.sweep({"n": (1, 8, 64)})
    files = write_pictures(rows, tmp_path, "page")
    names = [file.name for file in files]
    assert names == ["page-scaling.png", "page-speedup.png", "page-roofline.png"]
    for file in files:
        data = file.read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        assert width > 700
        assert height > 500


def test_nothing_measured_is_no_picture(tmp_path: Path) -> None:
    assert pictures([]) == {}
    assert write_pictures([sweep_rows.skipped(), sweep_rows.failed()], tmp_path, "page") == []
    assert pictures([sweep_rows.row(dims=())]) == {}
    assert list(tmp_path.iterdir()) == []


def test_one_size_is_drawn_as_points() -> None:
    (panel,) = drawn(scaling(sweep_rows.sweep({"n": (1024,)}))).panels
    assert [len(points_of(panel, f"{name} fp32")) for name in ("pt", "compile", "ort")] == [1, 1, 1]


def test_names_of_users_are_text_in_the_drawing() -> None:
    rows = [sweep_rows.row(dims=((HOSTILE, size),), model=HOSTILE) for size in (1, 2)]
    svg = figure_svg(drawn(scaling(rows)), HOSTILE)
    root = ET.fromstring(svg)  # valid XML
    assert not [each for each in root.iter() if each.tag.endswith("script")]


def test_without_vl_convert_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingToolError, match=r"pip install 'torchmark\[report\]'"):
        write_pictures(sweep_rows.sweep({"n": (1, 2)}), tmp_path, "page")
