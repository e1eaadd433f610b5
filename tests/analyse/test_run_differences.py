from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import records
from torchmark.analyse.instructions import instructions_per_run
from torchmark.analyse.run_differences import (
    CountVerdict,
    Gap,
    Incomparable,
    Thresholds,
    TimeVerdict,
    count_verdict,
    differences_of,
    ratio_interval,
    time_verdict,
)
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric, Result, Status
from torchmark.model.task_spec import TaskSpec
from torchmark_probe.loops.intervals import Interval

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")


def drawn(seed: int, centre: float, spread: float, count: int = 60) -> Measurement:
    draw = random.Random(seed)
    times = [centre * draw.lognormvariate(0, spread) for _ in range(count)]
    return Measurement(1, times, TaskSpec("x", "pass"))


def only_time(seconds: float, then: float, **fields: float) -> TimeVerdict:
    first, second = records.time_result(ADD, seconds), records.time_result(ADD, then)
    differences = differences_of([first], [second], Thresholds(**fields))
    (change,) = differences.times
    assert change.ratio == pytest.approx(then / seconds)
    return change.verdict


@pytest.mark.parametrize(
    ("then", "verdict"),
    [
        (1.0e-6, TimeVerdict.SAME),
        (1.04e-6, TimeVerdict.SAME),
        (1.08e-6, TimeVerdict.SLOWER),
        (0.92e-6, TimeVerdict.FASTER),
        (1.0501e-6, TimeVerdict.UNCLEAR),
    ],
)
def test_a_time_has_to_leave_the_threshold_to_be_called_changed(
    then: float, verdict: TimeVerdict
) -> None:
    assert only_time(1e-6, then) is verdict


def test_the_threshold_is_the_callers() -> None:
    assert only_time(1e-6, 1.03e-6, time=0.01) is TimeVerdict.SLOWER
    assert only_time(1e-6, 1.2e-6, time=0.5) is TimeVerdict.SAME


def test_few_samples_carry_no_verdict() -> None:
    few = records.time_result(ADD, 9e-6, count=9)
    (change,) = differences_of([records.time_result(ADD, 1e-6)], [few]).times
    assert change.verdict is TimeVerdict.UNCLEAR
    assert change.is_doubtful


def test_scattered_samples_are_unclear() -> None:
    first = replace(records.time_result(ADD), measurement=drawn(1, 1e-6, 0.5))
    second = replace(records.time_result(ADD), measurement=drawn(2, 1.04e-6, 0.5))
    (change,) = differences_of([first], [second]).times
    assert change.verdict is TimeVerdict.UNCLEAR


def test_an_interval_that_reaches_below_zero_knows_no_upper_end() -> None:
    scattered = Measurement(1, [1e-9, 1.0] * 5 + [1e-9] * 5, TaskSpec("x", "pass"))
    assert scattered.median_interval.low < 0
    interval = ratio_interval(scattered, records.timed(1.0))
    assert interval.high == float("inf")
    assert ratio_interval(records.timed(1.0), scattered).low == 0


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        before, after = drawn(seed, 1.0, 0.05), drawn(seed + 10_000, 1.1, 0.08)
        low, high = ratio_interval(before, after)
        held += low <= 1.1 <= high
    assert held >= 0.93 * 400


@given(st.floats(0.5, 2), st.integers(0, 1000), st.integers(0, 1000))
def test_the_other_way_round_the_ratio_and_its_interval_are_inverse(
    factor: float, one: int, two: int
) -> None:
    before, after = drawn(one, 1.0, 0.02, 30), drawn(two, factor, 0.02, 30)
    forth, back = ratio_interval(before, after), ratio_interval(after, before)
    assert forth.low == pytest.approx(1 / back.high)
    assert forth.high == pytest.approx(1 / back.low)


@given(st.floats(0.1, 10), st.floats(1, 3), st.floats(0.0, 0.5), st.integers(0, 100))
def test_faster_and_slower_change_places_when_the_runs_do(
    low: float, width: float, threshold: float, samples: int
) -> None:
    opposite = {
        TimeVerdict.FASTER: TimeVerdict.SLOWER,
        TimeVerdict.SLOWER: TimeVerdict.FASTER,
    }
    forth = time_verdict(Interval(low, low * width), samples, threshold)
    back = time_verdict(Interval(1 / (low * width), 1 / low), samples, threshold * (1 + 1e-12))
    if forth in opposite:
        assert back in {opposite[forth], TimeVerdict.UNCLEAR}
        assert forth.value == ("slower" if low > 1 else "faster")


@pytest.mark.parametrize(
    ("then", "threshold", "verdict"),
    [
        (1000, 0.0, CountVerdict.SAME),
        (1001, 0.0, CountVerdict.MORE),
        (999, 0.0, CountVerdict.FEWER),
        (1001, 0.001, CountVerdict.CLOSE),
        (1002, 0.001, CountVerdict.MORE),
        (1000, 0.5, CountVerdict.SAME),
    ],
)
def test_counts_are_the_same_only_if_they_are_equal(
    then: int, threshold: float, verdict: CountVerdict
) -> None:
    assert count_verdict(Fraction(1000), Fraction(then), threshold) is verdict


def test_the_difference_of_counts_is_exact_and_without_the_loop() -> None:
    first = records.count_result(ADD, 1_000_700, loop=700, number=100)
    second = records.count_result(ADD, 2_000_703, loop=701, number=200)
    (change,) = differences_of([first], [second]).counts
    assert (change.before, change.after) == (Fraction(10_000), Fraction(2_000_002, 200))
    assert change.difference == Fraction(1, 100)
    assert change.share == 1e-6
    assert change.verdict is CountVerdict.MORE


def test_where_one_run_did_not_count_the_loop_both_are_compared_with_it() -> None:
    first = records.count_result(ADD, 1_000_700, loop=700)
    second = records.count_result(ADD, 1_000_700)
    (change,) = differences_of([first], [second]).counts
    assert change.verdict is CountVerdict.SAME


def test_a_case_that_took_no_instructions_before_has_infinitely_more() -> None:
    (change,) = differences_of(
        [records.count_result(ADD, 0)], [records.count_result(ADD, 5)]
    ).counts
    assert change.share == float("inf")
    assert change.verdict is CountVerdict.MORE


DONE, FAILED = records.time_result(ADD), records.failed_result(ADD, reason="it crashed")
SKIPPED = replace(DONE, status=Status.SKIPPED, measurement=None, reason="needs CUDA")


@pytest.mark.parametrize(
    ("first", "second", "gap", "reason"),
    [
        (DONE, None, Gap.ONLY_IN_FIRST, ""),
        (None, DONE, Gap.ONLY_IN_SECOND, ""),
        (FAILED, DONE, Gap.FAILED_IN_FIRST, "it crashed"),
        (DONE, FAILED, Gap.FAILED_IN_SECOND, "it crashed"),
        (None, FAILED, Gap.FAILED_IN_SECOND, "it crashed"),
        (FAILED, FAILED, Gap.FAILED_IN_BOTH, "it crashed"),
        (SKIPPED, DONE, Gap.SKIPPED_IN_FIRST, "needs CUDA"),
        (DONE, SKIPPED, Gap.SKIPPED_IN_SECOND, "needs CUDA"),
        (records.time_result(ADD, 0.0), DONE, Gap.NO_TIME, ""),
    ],
)
def test_a_case_without_a_pair_says_why(
    first: Result | None, second: Result | None, gap: Gap, reason: str
) -> None:
    differences = differences_of([first] if first else [], [second] if second else [])
    assert differences.incomparable == (
        Incomparable(case=ADD, metric=Metric.TIME, gap=gap, reason=reason),
    )
    assert not differences.changed
    assert differences.broke == (gap is Gap.FAILED_IN_SECOND)


def test_what_both_runs_left_out_is_not_told() -> None:
    differences = differences_of([SKIPPED], [SKIPPED])
    assert [*differences.times, *differences.counts, *differences.incomparable] == []


def test_cases_are_matched_by_what_they_say_not_by_their_place() -> None:
    first = [records.time_result(ADD, 1e-6), records.time_result(MUL, 2e-6)]
    differences = differences_of(first, first[::-1])
    assert [change.case for change in differences.times] == [MUL, ADD]
    assert {change.verdict for change in differences.times} == {TimeVerdict.SAME}


def test_slower_or_more_is_a_regression_and_faster_or_fewer_is_a_change() -> None:
    time, count = records.time_result(ADD, 1e-6), records.count_result(ADD, 1000)
    slow, more = records.time_result(ADD, 2e-6), records.count_result(ADD, 1100)
    for before, after in ((time, slow), (count, more)):
        assert differences_of([before], [after]).got_slower
        assert not differences_of([after], [before]).got_slower
        assert differences_of([after], [before]).changed
    assert not differences_of([time, count], [time, count]).changed


@given(st.lists(records.results, max_size=4), st.lists(records.results, max_size=4))
def test_any_two_runs_can_be_compared(first: list[Result], second: list[Result]) -> None:
    differences = differences_of(first, second)
    keys = {(result.case.id, result.metric) for result in [*first, *second]}
    told = [*differences.times, *differences.counts, *differences.incomparable]
    assert len(told) <= len(keys)


@given(st.lists(records.results, max_size=5))
def test_a_run_does_not_differ_from_itself(results: list[Result]) -> None:
    differences = differences_of(results, results)
    assert not differences.changed
    assert {change.verdict for change in differences.counts} <= {CountVerdict.SAME}


def test_a_count_per_run_is_a_fraction() -> None:
    assert instructions_per_run(records.counted(1001, loop=1, number=3)) == Fraction(1000, 3)
