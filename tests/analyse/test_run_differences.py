from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import ab_records, records
from torchmark.analyse.ab import judge
from torchmark.analyse.estimates import MeasuredTime, Verdict, instructions_of, time_of_measurement
from torchmark.analyse.ratios import judge_time, ratio_interval
from torchmark.analyse.run_differences import (
    RunDifferences,
    Thresholds,
    Unmatched,
    compare_runs,
    judge_count,
)
from torchmark.model.case import TaskSpec
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric, Result, Status, TimeSummary, Timing
from torchmark_probe.loops.intervals import Interval
from torchmark_probe.loops.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")


def compare(
    first: Sequence[Result], second: Sequence[Result], thresholds: Thresholds | None = None
) -> RunDifferences:
    runs = [records.run_of(results=tuple(results)) for results in (first, second)]
    return compare_runs(runs[0], runs[1], thresholds)


def drawn(seed: int, centre: float, spread: float, count: int = 60) -> Sampling:
    draw = random.Random(seed)
    times = tuple(centre * draw.lognormvariate(0, spread) for _ in range(count))
    return Sampling(1, times, times, (1.0,) * count, 1.0, 0.0)


def time_in(sampling: Sampling) -> MeasuredTime:
    return time_of_measurement(Measurement.from_sampling(TaskSpec("x", "pass"), sampling))


def result_of(sampling: Sampling) -> Result:
    return msgspec.structs.replace(records.time_result(ADD), payload=Timing(processes=(sampling,)))


def only_time(seconds: float, then: float, **fields: float) -> Verdict:
    first, second = records.time_result(ADD, seconds), records.time_result(ADD, then)
    (change,) = compare([first], [second], Thresholds(**fields)).times
    assert change.ratio == pytest.approx(then / seconds)
    return change.verdict


@pytest.mark.parametrize(
    ("then", "verdict"),
    [
        (1.0e-6, Verdict.SAME),
        (1.03e-6, Verdict.SAME),
        (1.04e-6, Verdict.UNCLEAR),
        (1.0501e-6, Verdict.UNCLEAR),
        (1.06e-6, Verdict.UNCLEAR),
        (1.07e-6, Verdict.SLOWER),
        (1.08e-6, Verdict.SLOWER),
        (0.92e-6, Verdict.FASTER),
    ],
)
def test_a_time_has_to_leave_the_threshold_to_be_called_changed(
    then: float, verdict: Verdict
) -> None:
    assert only_time(1e-6, then) is verdict


def test_the_threshold_is_the_callers() -> None:
    assert only_time(1e-6, 1.03e-6, time=0.01) is Verdict.SLOWER
    assert only_time(1e-6, 1.2e-6, time=0.5) is Verdict.SAME


def test_few_samples_carry_no_verdict() -> None:
    few = records.time_result(ADD, 9e-6, count=9)
    (change,) = compare([records.time_result(ADD, 1e-6)], [few]).times
    assert change.verdict is Verdict.UNCLEAR
    assert change.before.warnings or change.after.warnings


def test_scattered_samples_are_unclear() -> None:
    first, second = result_of(drawn(1, 1e-6, 0.5)), result_of(drawn(2, 1.04e-6, 0.5))
    (change,) = compare([first], [second]).times
    assert change.verdict is Verdict.UNCLEAR


def test_an_interval_that_reaches_zero_or_below_knows_no_upper_end() -> None:
    times = (1e-9, 1.0) * 5 + (1e-9,) * 5
    sampled = time_in(Sampling(1, times, times, (1.0,) * 15, 1.0, 0.0))
    bare = time_of_measurement(Measurement(1, list(times), TaskSpec("x", "pass")))
    steady = time_in(records.timed(1.0).processes[0])
    assert sampled.interval is not None
    assert bare.interval is not None
    assert sampled.interval.low == 0
    assert bare.interval.low < 0
    for scattered in (sampled, bare):
        assert ratio_interval(scattered, steady).high == float("inf")
        assert ratio_interval(steady, scattered).low == 0


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        before, after = time_in(drawn(seed, 1.0, 0.05)), time_in(drawn(seed + 10_000, 1.1, 0.08))
        low, high = ratio_interval(before, after)
        held += low <= 1.1 <= high
    assert held >= 0.93 * 400


@given(st.floats(0.5, 2), st.integers(0, 1000), st.integers(0, 1000))
def test_the_other_way_round_the_ratio_and_its_interval_are_inverse(
    factor: float, one: int, two: int
) -> None:
    before, after = time_in(drawn(one, 1.0, 0.02, 30)), time_in(drawn(two, factor, 0.02, 30))
    forth, back = ratio_interval(before, after), ratio_interval(after, before)
    assert forth.low == pytest.approx(1 / back.high)
    assert forth.high == pytest.approx(1 / back.low)


@given(st.floats(0.1, 10), st.floats(1, 3), st.floats(0.0, 0.5))
def test_faster_and_slower_change_places_when_the_runs_do(
    low: float, width: float, threshold: float
) -> None:
    opposite = {
        Verdict.FASTER: Verdict.SLOWER,
        Verdict.SLOWER: Verdict.FASTER,
    }
    forth = judge_time(Interval(low, low * width), threshold)
    back = judge_time(Interval(1 / (low * width), 1 / low), threshold * (1 + 1e-12))
    if forth in opposite:
        assert back in {opposite[forth], Verdict.UNCLEAR}
        assert forth.value == ("slower" if low > 1 else "faster")


@pytest.mark.parametrize(
    ("then", "threshold", "verdict"),
    [
        (1000, 0.0, Verdict.SAME),
        (1001, 0.0, Verdict.MORE),
        (999, 0.0, Verdict.FEWER),
        (1001, 0.001, Verdict.CLOSE),
        (1002, 0.001, Verdict.MORE),
        (1000, 0.5, Verdict.SAME),
    ],
)
def test_counts_are_the_same_only_if_they_are_equal(
    then: int, threshold: float, verdict: Verdict
) -> None:
    assert judge_count(Fraction(1000), Fraction(then), threshold) is verdict


def test_the_difference_of_counts_is_exact_and_without_the_loop() -> None:
    first = records.count_result(ADD, 1_000_700, loop=700, number=100)
    second = records.count_result(ADD, 2_000_703, loop=701, number=200)
    (change,) = compare([first], [second]).counts
    assert (change.before, change.after) == (Fraction(10_000), Fraction(2_000_002, 200))
    assert change.difference == Fraction(1, 100)
    assert change.share == 1e-6
    assert change.verdict is Verdict.MORE


def test_where_one_run_did_not_count_the_loop_both_are_compared_with_it() -> None:
    first = records.count_result(ADD, 1_000_700, loop=700)
    second = records.count_result(ADD, 1_000_700)
    (change,) = compare([first], [second]).counts
    assert change.verdict is Verdict.SAME


def test_a_case_that_took_no_instructions_before_has_infinitely_more() -> None:
    (change,) = compare([records.count_result(ADD, 0)], [records.count_result(ADD, 5)]).counts
    assert change.share == float("inf")
    assert change.verdict is Verdict.MORE


DONE, FAILED = records.time_result(ADD), records.failed_result(ADD, reason="it crashed")
SKIPPED = msgspec.structs.replace(DONE, status=Status.SKIPPED, payload=None, reason="needs CUDA")
SUMMARY = msgspec.structs.replace(
    DONE, payload=TimeSummary(samples=40, median=4e-6, low=3.9e-6, high=4.1e-6)
)


@pytest.mark.parametrize(
    ("first", "second", "why", "reason"),
    [
        (DONE, None, "only in the first run", ""),
        (None, DONE, "only in the second run", ""),
        (FAILED, DONE, "failed in the first run", "it crashed"),
        (FAILED, None, "failed in the first run", "it crashed"),
        (FAILED, SKIPPED, "failed in the first run", "needs CUDA"),
        (DONE, FAILED, "failed in the second run", "it crashed"),
        (None, FAILED, "failed in the second run", "it crashed"),
        (SKIPPED, FAILED, "failed in the second run", "it crashed"),
        (FAILED, FAILED, "failed in both runs", "it crashed"),
        (SKIPPED, DONE, "skipped in the first run", "needs CUDA"),
        (DONE, SKIPPED, "skipped in the second run", "needs CUDA"),
        (records.time_result(ADD, 0.0), DONE, "has a time of 0 s", ""),
    ],
)
def test_a_case_without_a_pair_says_why(
    first: Result | None, second: Result | None, why: str, reason: str
) -> None:
    differences = compare([first] if first else [], [second] if second else [])
    has_broken = why == "failed in the second run"
    assert differences.unmatched == (
        Unmatched(case=ADD, metric=Metric.TIME, why=why, reason=reason, has_broken=has_broken),
    )
    assert not differences.has_change
    assert differences.has_broken == has_broken


def test_a_time_of_which_only_statistics_are_known_is_compared_too() -> None:
    (change,) = compare([DONE], [SUMMARY]).times
    assert change.ratio == pytest.approx(2)
    assert change.verdict is Verdict.SLOWER


@pytest.mark.parametrize(
    ("then", "verdict"), [(1.0, Verdict.SAME), (1.03, Verdict.SLOWER), (0.97, Verdict.FASTER)]
)
def test_the_ratios_of_two_ab_runs_are_compared(then: float, verdict: Verdict) -> None:
    """B was as fast as A in the first run; a change of 3 % is found, unlike between plain runs."""
    (change,) = compare([ab_records.timed(ADD, 1.0)], [ab_records.timed(ADD, then)]).times
    assert change.is_of_ratios
    assert change.before.median == pytest.approx(1.0, abs=1e-3)
    assert change.after.median == pytest.approx(then, abs=1e-3)
    assert change.verdict is verdict


def test_the_interval_of_a_ratio_is_that_of_95_per_cent_without_the_allowance() -> None:
    """As those of times are, with which it is combined."""
    (change,) = compare([ab_records.timed(ADD, 1.0)], [ab_records.timed(ADD, 1.0)]).times
    effect = judge(ab_records.run_of(ab_records.timed(ADD, 1.0)), ab_records.PAIR).times[0].effect
    assert change.before.interval == change.after.interval == effect.interval_95
    assert effect.interval.low < effect.interval_95.low


def test_a_ratio_with_one_crossover_has_no_interval_to_compare() -> None:
    differences = compare([ab_records.timed(ADD, 1.0)], [ab_records.timed(ADD, 1.0, replicates=1)])
    assert [each.why for each in differences.unmatched] == [
        "was measured differently in the two runs"
    ]


def test_controls_are_not_compared() -> None:
    """They say how good their own run was; in which cases they were taken is chance."""
    plain = [ab_records.timed(ADD, 1.0)]
    calm, wolf = ([*plain, ab_records.controlled(ADD, ratio)] for ratio in (1.0, 1.2))
    for first, second in ((calm, wolf), (calm, plain), (plain, wolf)):
        assert compare(first, second) == compare(plain, plain)


def test_counts_of_b_in_two_ab_runs_differ_by_more_than_layouts_move_them() -> None:
    first = ab_records.counted(ADD, {"f": 1000}, {"f": 1000}, layouts=(0, 2, 4))
    near = ab_records.counted(ADD, {"f": 1000}, {"f": 1003}, layouts=(0, 2, 4))
    far = ab_records.counted(ADD, {"f": 1000}, {"f": 1100}, layouts=(0, 2, 4))
    verdicts = [compare([first], [each]).counts[0].verdict for each in (first, near, far)]
    assert verdicts == [Verdict.SAME, Verdict.CLOSE, Verdict.MORE]


def test_a_time_and_a_ratio_are_not_compared() -> None:
    plain = msgspec.structs.replace(DONE, environments=ab_records.PAIR)
    differences = compare([plain], [ab_records.timed(ADD, 1.0)])
    assert [each.why for each in differences.unmatched] == [
        "was measured differently in the two runs"
    ]


def test_what_both_runs_left_out_is_not_told() -> None:
    differences = compare([SKIPPED], [SKIPPED])
    assert [*differences.times, *differences.counts, *differences.unmatched] == []


def test_cases_are_matched_by_what_they_say_not_by_their_place() -> None:
    first = [records.time_result(ADD, 1e-6), records.time_result(MUL, 2e-6)]
    differences = compare(first, first[::-1])
    assert [change.case for change in differences.times] == [MUL, ADD]
    assert {change.verdict for change in differences.times} == {Verdict.SAME}


def test_slower_or_more_is_a_regression_and_faster_or_fewer_is_a_change() -> None:
    time, count = records.time_result(ADD, 1e-6), records.count_result(ADD, 1000)
    slow, more = records.time_result(ADD, 2e-6), records.count_result(ADD, 1100)
    for before, after in ((time, slow), (count, more)):
        assert compare([before], [after]).has_regression
        assert not compare([after], [before]).has_regression
        assert compare([after], [before]).has_change
    assert not compare([time, count], [time, count]).has_change


@given(st.lists(records.plain_results, max_size=4), st.lists(records.plain_results, max_size=4))
def test_any_two_runs_can_be_compared(first: list[Result], second: list[Result]) -> None:
    differences = compare(first, second)
    keys = {result.key for result in [*first, *second]}
    told = [*differences.times, *differences.counts, *differences.unmatched]
    assert len(told) <= len(keys)


@given(st.lists(records.plain_results, max_size=5))
def test_a_run_does_not_differ_from_itself(results: list[Result]) -> None:
    differences = compare(results, results)
    assert not differences.has_change
    assert {change.verdict for change in differences.counts} <= {Verdict.SAME}


def test_a_count_per_run_is_a_fraction() -> None:
    assert instructions_of(records.counted(1001, loop=1, number=3)) == Fraction(1000, 3)
