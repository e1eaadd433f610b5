"""Rows of a sweep: what they say, what is compared with what, and which points are on one line."""

from __future__ import annotations

import math

import msgspec
import pytest

from tests import sweep_rows
from torchmark.analyse.sweep import (
    eager_of,
    kernels_of,
    ratio_to,
    rows_of,
    slices,
    speed_ups,
    varying_dims,
)
from torchmark.model.result import KernelCalls, KernelTimes, Metric, Result, Status, Timing
from torchmark.model.run_settings import Phase
from torchmark_probe.loops.sampling import Sampling


def sampled(*seconds: float, number: int = 10) -> Timing:
    """Quiet blocks that took so long for each run."""
    wall = tuple(number * each for each in seconds)
    return Timing(
        processes=(
            Sampling(
                number=number,
                wall=wall,
                cpu=wall,
                pace=(1.0,) * len(wall),
                quiet_pace=1.0,
                clock_resolution=1e-9,
            ),
        )
    )


def test_statistics_of_a_row_are_those_of_its_samples() -> None:
    case, point, result = sweep_rows.result(flops=100, bytes=50)
    times = [1e-6 * (100 + number) for number in range(41)]
    payload = sampled(*times)
    run = sweep_rows.run_of([(case, point, msgspec.structs.replace(result, payload=payload))])
    (row,) = rows_of(run)
    assert row.samples == 41
    assert (row.median_s, row.min_s) == pytest.approx((120e-6, 100e-6))
    assert row.mean_s == pytest.approx(120e-6)
    assert row.p95_s == pytest.approx(138e-6)
    assert row.std_s == pytest.approx(math.sqrt(41 * 42 / 12) * 1e-6)
    assert row.low_s is not None
    assert row.high_s is not None
    assert 100e-6 < row.low_s < 120e-6 < row.high_s < 140e-6
    assert (row.flop_per_s, row.bytes_per_s) == pytest.approx((100 / 120e-6, 50 / 120e-6))
    assert row.environment == sweep_rows.ENVIRONMENT.id


def test_blocks_that_were_disturbed_do_not_count() -> None:
    case, point, result = sweep_rows.result()
    payload = sampled(*[1e-6] * 10, *[5e-6] * 10)
    pace = (1.0,) * 10 + (2.0,) * 10
    sampling = payload.processes[0].__class__(**{**vars(payload.processes[0]), "pace": pace})
    timing = Timing(processes=(sampling,))
    run = sweep_rows.run_of([(case, point, msgspec.structs.replace(result, payload=timing))])
    (row,) = rows_of(run)
    assert row.samples == 10
    assert row.median_s == pytest.approx(1e-6)


def test_rows_are_in_the_order_of_the_plan_and_say_why_there_is_no_time() -> None:
    made = [
        sweep_rows.result(dims=(("n", 1),), reason="the result differs"),
        sweep_rows.failed("it said:\n  'no',\tand left\n", dims=(("n", 2),)),
        sweep_rows.skipped(dims=(("n", 3),)),
    ]
    run = sweep_rows.run_of(made)
    late = msgspec.structs.replace(run, results=tuple(reversed(run.results)))
    rows = rows_of(late)
    assert [dict(row.dims)["n"] for row in rows] == [1, 2, 3]
    assert [row.status.value for row in rows] == ["measured", "failed", "skipped"]
    assert rows[0].reason == "the result differs"
    assert rows[1].reason == "it said: 'no', and left"
    assert (rows[1].median_s, rows[1].samples) == (None, 0)
    cut_short = msgspec.structs.replace(run, results=run.results[:1])
    assert len(rows_of(cut_short)) == 1


def test_kernels_come_with_their_cases() -> None:
    made = sweep_rows.sweep({"n": (1, 2)}, backends=("pt",))
    kernels = (KernelCalls(kernel="aten::mm", calls=1.0, seconds=2e-6),)
    results = [
        Result(
            case=case,
            metric=Metric.PROFILE,
            status=status,
            finished="",
            payload=KernelTimes(kernels=kernels) if status is Status.DONE else None,
        )
        for (case, _, _), status in zip(made, (Status.DONE, Status.FAILED), strict=True)
    ]
    run = sweep_rows.run_of(made, kernels=results)
    assert kernels_of(run) == [(made[0][0], kernels[0])]
    assert len(rows_of(run)) == 2


def test_a_speed_up_is_over_eager_of_the_same_dtype_phase_sizes_and_threads() -> None:
    eager = sweep_rows.result(median=6e-6, low=5e-6, high=8e-6)
    others = [
        sweep_rows.result(median=1.0, dtype="fp16"),
        sweep_rows.result(median=1.0, phase=Phase.BACKWARD),
        sweep_rows.result(median=1.0, dims=(("batch", 9),)),
        sweep_rows.result(median=1.0, threads=2),
        sweep_rows.result(median=1.0, model="Other"),
    ]
    ort = sweep_rows.result(median=2e-6, low=1e-6, high=2.5e-6, backend="ort")
    (row,), (base,) = sweep_rows.rows([ort]), sweep_rows.rows([eager])
    ratio = ratio_to(eager_of(sweep_rows.rows([*others, eager])), row)
    assert ratio is not None
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((3, 2, 8))
    assert ratio_to(eager_of(sweep_rows.rows(others)), row) is None
    assert ratio_to(eager_of([base]), base) is None


def test_the_mean_of_speed_ups_is_geometric_and_the_ends_have_their_points() -> None:
    made = []
    for size, ratio in ((1, 0.5), (2, 2.0), (4, 1.0)):
        made.append(sweep_rows.result(dims=(("n", size),), median=ratio))
        made.append(sweep_rows.result(dims=(("n", size),), median=1.0, backend="compile"))
    made.append(sweep_rows.skipped(dims=(("n", 1),)))
    (found,) = speed_ups(sweep_rows.rows(made))
    assert found.mean == pytest.approx(1)
    assert (found.least[1], found.most[1]) == ("n=1", "n=2")
    assert found.points == 3


def test_a_slice_holds_all_other_dimensions() -> None:
    rows = sweep_rows.rows(sweep_rows.sweep({"a": (1, 2, 4), "b": (8, 16), "fixed": (3,)}))
    assert varying_dims(rows) == ["a", "b"]
    cuts = slices(rows, "a")
    assert [cut.held for cut in cuts] == [(("b", 16),), (("b", 8),)]
    for cut in cuts:
        assert cut.sizes == [1, 2, 4]
        assert {dict(row.dims)["b"] for row in cut.rows} == {dict(cut.held)["b"]}


def test_of_a_sampled_sweep_the_slice_with_most_sizes_comes_first() -> None:
    points = [(1, 16), (1, 8), (2, 8), (4, 8), (2, 16)]
    made = [sweep_rows.result(dims=(("a", a), ("b", b))) for a, b in points]
    assert [cut.held for cut in slices(sweep_rows.rows(made), "a")] == [(("b", 8),), (("b", 16),)]


def test_threads_that_vary_are_a_dimension_like_others() -> None:
    rows = sweep_rows.rows(
        made
        for threads in (1, 2)
        for made in sweep_rows.sweep({"n": (8, 16)}, backends=("pt", "ort"), threads=threads)
    )
    assert varying_dims(rows) == ["n", "threads"]
    (over_n, *_), (over_threads, *_) = slices(rows, "n"), slices(rows, "threads")
    assert (over_n.held, over_n.sizes) == ((("threads", 2),), [8, 16])
    assert (over_threads.held, over_threads.sizes) == ((("n", 16),), [1, 2])
    (found,) = speed_ups(rows)
    assert found.points == 4
    assert [row.sizes_text for row in rows[:1] + rows[-1:]] == ["n=8", "n=16 threads=2"]


def test_a_row_says_what_makes_its_time_doubtful() -> None:
    steady, wide = sweep_rows.rows(
        [sweep_rows.result(), sweep_rows.result(median=87e-6, low=22e-6, high=152e-6)]
    )
    assert (steady.warnings, wide.warnings) == ("", "wide interval")
    case, point, result = sweep_rows.result()
    few = msgspec.structs.replace(result, payload=sampled(1e-6, 5e-6, 9e-6))
    (row,) = rows_of(sweep_rows.run_of([(case, point, few)]))
    assert row.warnings == "too few samples; high IQR; wide interval"
