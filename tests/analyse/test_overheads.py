"""Overheads over the plain case: differences, ratios, and intervals that hold the truth."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records import case, count_result, failed_result, time_result
from torchmark.analyse.estimates import MeasuredTime, time_of, time_of_measurement
from torchmark.analyse.overheads import Rung, find_rungs, time_overhead
from torchmark.model.case import TaskSpec
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric, Result

PLAIN, SUB = (case("overrides", "torch.add", kind) for kind in ("Tensor", "SubTensor"))
OTHER = case("overrides", "F.relu", "SubTensor", stmt="F.relu(x)")


def timed(seconds: float, spread: float = 0.005) -> MeasuredTime:
    time = time_of(time_result(PLAIN, seconds, spread=spread))
    assert time is not None
    return time


def rungs_of(*results: Result) -> dict[str, Rung]:
    return {rung.kind: rung for rung in find_rungs(results)}


def test_a_rung_has_the_difference_and_the_ratio_to_the_plain_case() -> None:
    overhead = rungs_of(time_result(PLAIN, 2e-6), time_result(SUB, 5e-6))["SubTensor"].time_overhead
    assert overhead is not None
    assert overhead.seconds == pytest.approx(3e-6)
    assert overhead.ratio == pytest.approx(2.5)
    assert overhead.interval.low < 3e-6 < overhead.interval.high
    assert overhead.ratio_interval.low < 2.5 < overhead.ratio_interval.high


def test_instructions_are_subtracted_exactly_for_one_execution() -> None:
    rungs = rungs_of(count_result(PLAIN, 1000, number=3), count_result(SUB, 1700, number=3))
    assert rungs["Tensor"].instructions == Fraction(1000, 3)
    assert rungs["SubTensor"].more_instructions == Fraction(700, 3)


def test_times_and_counts_of_a_case_are_one_rung_in_the_order_of_the_results() -> None:
    rungs = find_rungs(
        [count_result(SUB), time_result(PLAIN), time_result(SUB), count_result(PLAIN)]
    )
    assert [rung.kind for rung in rungs] == ["SubTensor", "Tensor"]
    assert all(rung.time and rung.count for rung in rungs)


def test_the_plain_case_has_no_overhead_of_its_own() -> None:
    plain = rungs_of(time_result(PLAIN), count_result(PLAIN))["Tensor"]
    assert time_of(plain.time) is not None
    assert (plain.time_overhead, plain.more_instructions) == (None, None)


def test_calls_are_compared_with_their_own_plain_case_alone() -> None:
    rungs = find_rungs([time_result(PLAIN), time_result(OTHER)])
    assert [rung.case.stmt for rung in rungs] == ["x + y", "F.relu(x)"]
    assert rungs[1].time_overhead is None


@pytest.mark.parametrize("kind", [Metric.TIME, Metric.INSTRUCTIONS])
def test_a_failure_leaves_the_other_figures(kind: Metric) -> None:
    """Of the plain case or of the other: no overhead, and the rung says what failed."""
    fine = {Metric.TIME: time_result, Metric.INSTRUCTIONS: count_result}
    for broken, whole in ((PLAIN, SUB), (SUB, PLAIN)):
        results = [make(each) for make in fine.values() for each in (PLAIN, SUB)]
        kept = [each for each in results if (each.case, each.metric) != (broken, kind)]
        rungs = rungs_of(*kept, failed_result(broken, kind))
        sub = rungs["SubTensor"]
        assert (sub.time_overhead is None) is (kind is Metric.TIME)
        assert (sub.more_instructions is None) is (kind is Metric.INSTRUCTIONS)
        there = rungs[whole.label[-1]]
        assert time_of(there.time) is not None
        assert there.instructions is not None


def test_a_clock_that_shows_no_time_gives_no_overhead() -> None:
    assert time_overhead(timed(1e-6), timed(0.0)) is None
    assert time_overhead(timed(0.0), timed(1e-6)) is None


@given(st.floats(1e-7, 1e-3), st.floats(1e-7, 1e-3), st.floats(0, 0.05), st.floats(0, 0.05))
def test_the_interval_adds_the_errors_of_both_as_squares(
    first: float, second: float, spread: float, other_spread: float
) -> None:
    """Downwards what the one may be lower and the other higher; turned round it is mirrored."""
    a, b = timed(first, spread=spread), timed(second, spread=other_spread)
    there, back = time_overhead(a, b), time_overhead(b, a)
    assert there is not None
    assert back is not None
    rounding = 1e-9 * (first + second)
    assert a.interval is not None
    assert b.interval is not None
    lower, higher = a.median - a.interval.low, b.interval.high - b.median
    reach = there.seconds - there.interval.low
    assert reach**2 == pytest.approx(lower**2 + higher**2, abs=rounding * (first + second))
    assert there.interval.low == pytest.approx(-back.interval.high, abs=rounding)
    assert there.interval.low <= there.seconds <= there.interval.high
    assert there.ratio * back.ratio == pytest.approx(1)


def test_the_interval_of_the_difference_holds_the_truth_as_often_as_it_says() -> None:
    """Two medians, each with noise to one side; 95 % of 300 intervals should hold the truth."""
    rng = random.Random(6)

    def measured(centre: float, scale: float) -> MeasuredTime:
        times = [centre + scale * rng.expovariate(1.0) for _ in range(60)]
        return time_of_measurement(Measurement(1, times, TaskSpec("x", "pass")))

    held = 0
    for _ in range(300):
        overhead = time_overhead(measured(3e-6, 2e-7), measured(1e-6, 1e-7))
        assert overhead is not None
        truth = 2e-6 + (2e-7 - 1e-7) * 0.6931471805599453
        held += overhead.interval.low <= truth <= overhead.interval.high
    assert held >= 280
