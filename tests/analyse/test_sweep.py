"""Rows of a sweep: what is compared with what, and which points are on one line."""

from __future__ import annotations

import pytest

from tests import sweep_rows
from torchmark.analyse.sweep import eager_of, ratio_to, slices, speed_ups, varying_dims
from torchmark.model.sweep_record import Phase


def test_a_speed_up_is_over_eager_of_the_same_dtype_phase_sizes_and_threads() -> None:
    eager = sweep_rows.row(median_s=6e-6, low_s=5e-6, high_s=8e-6)
    others = [
        sweep_rows.row(median_s=1.0, dtype="fp16"),
        sweep_rows.row(median_s=1.0, phase=Phase.BACKWARD),
        sweep_rows.row(median_s=1.0, dims=(("batch", 9),)),
        sweep_rows.row(median_s=1.0, threads=2),
        sweep_rows.row(median_s=1.0, model="Other"),
    ]
    ort = sweep_rows.row(median_s=2e-6, low_s=1e-6, high_s=2.5e-6, backend="ort")
    ratio = ratio_to(eager_of([*others, eager]), ort)
    assert ratio is not None
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((3, 2, 8))
    assert ratio_to(eager_of(others), ort) is None
    assert ratio_to(eager_of([eager]), eager) is None


def test_the_mean_of_speed_ups_is_geometric_and_the_ends_have_their_points() -> None:
    rows = []
    for size, ratio in ((1, 0.5), (2, 2.0), (4, 1.0)):
        rows.append(sweep_rows.row(dims=(("n", size),), median_s=ratio))
        rows.append(sweep_rows.row(dims=(("n", size),), median_s=1.0, backend="compile"))
    rows.append(sweep_rows.skipped(dims=(("n", 1),)))
    (found,) = speed_ups(rows)
    assert found.mean == pytest.approx(1)
    assert (found.least_at, found.most_at) == ((("n", 1),), (("n", 2),))
    assert found.points == 3


def test_a_slice_holds_all_other_dimensions() -> None:
    rows = sweep_rows.sweep({"a": (1, 2, 4), "b": (8, 16), "fixed": (3,)})
    assert varying_dims(rows) == ["a", "b"]
    cuts = slices(rows, "a")
    assert [cut.held for cut in cuts] == [(("b", 16),), (("b", 8),)]
    for cut in cuts:
        assert cut.sizes == [1, 2, 4]
        assert {dict(row.dims)["b"] for row in cut.rows} == {dict(cut.held)["b"]}


def test_of_a_sampled_sweep_the_slice_with_most_sizes_comes_first() -> None:
    points = [(1, 16), (1, 8), (2, 8), (4, 8), (2, 16)]
    rows = [sweep_rows.row(dims=(("a", a), ("b", b))) for a, b in points]
    assert [cut.held for cut in slices(rows, "a")] == [(("b", 8),), (("b", 16),)]
