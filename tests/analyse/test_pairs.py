"""What replicates say, on made-up ones whose truth is known."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ab_records import alone
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.mixed_model import fit_replicates
from torchmark.analyse.pairs import (
    ALLOWANCE,
    FALSE_DISCOVERIES,
    OTHER_FILES_ALLOWANCE,
    SAME_WITHIN,
    Effect,
    can_be_judged,
    is_decided,
    judge_alone,
    judge_times,
)
from torchmark.errors import EmptyMeasurementError
from torchmark.model.result import PairedTiming
from torchmark.model.run import FEWEST_REPLICATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.result import Crossover

CROSSOVERS = 2
"""Of a replicate."""

FIRST = 0.01
"""What it costs to be started first."""

FIRST_LOOK = 1 / 4


def timing(replicates: Sequence[Sequence[Crossover]], **fields: Any) -> PairedTiming:
    return PairedTiming(a_seconds=1e-6, replicates=tuple(map(tuple, replicates)), **fields)


def judged(replicates: Sequence[Sequence[Crossover]], **fields: Any) -> Effect:
    return judge_alone(timing(replicates, **fields))


def replicates(
    truth: float, count: int, draw: random.Random, spread: float = 0.006, starts: float = 0.0
) -> list[list[Crossover]]:
    """Log ratios; one process pair in ten was disturbed. Launches differ by `starts`."""

    def pair(middle: float) -> float:
        return middle + draw.gauss(0, spread) * (4 if draw.random() < 0.1 else 1)

    middles = [truth + draw.gauss(0, starts) for _ in range(count)]
    return [
        [(pair(middle - FIRST), pair(middle + FIRST)) for _ in range(CROSSOVERS)]
        for middle in middles
    ]


@pytest.mark.parametrize("count", [FEWEST_REPLICATES, 20])
@pytest.mark.parametrize(("starts", "same_files"), [(0.0, True), (0.006, True), (0.03, False)])
def test_the_interval_covers_the_truth_as_often_as_it_says(
    count: int, starts: float, same_files: bool
) -> None:
    """Whether replicates differ no more than their process pairs do, as much again, or far more."""
    draw = random.Random(1)
    covered = 0
    for _ in range(400):
        taken = replicates(0.01, count, draw, starts=starts)
        interval = judged(taken, same_files=same_files).interval_95
        covered += interval.low <= math.exp(0.01) <= interval.high
    assert 0.92 * 400 <= covered <= 0.985 * 400


@pytest.mark.parametrize(("starts", "same_files"), [(0.0, True), (0.006, True), (0.03, False)])
def test_no_difference_is_called_a_change_in_one_of_a_hundred_at_most(
    starts: float, same_files: bool
) -> None:
    """By the fewest replicates, at the look that they are judged by."""
    draw = random.Random(2)
    alarms = sum(
        judged(
            replicates(0.0, FEWEST_REPLICATES, draw, starts=starts),
            alpha_share=FIRST_LOOK,
            same_files=same_files,
        ).verdict.is_change
        for _ in range(400)
    )
    assert alarms <= 4


@pytest.mark.parametrize("count", [FEWEST_REPLICATES, 20])
def test_a_change_of_the_detectable_size_is_found_in_four_trials_of_five(count: int) -> None:
    """What one comparison says is detectable, injected into another one."""
    draw = random.Random(11)
    found = 0
    for _ in range(400):
        size = math.log1p(judged(replicates(0.0, count, draw)).detectable)
        found += judged(replicates(size, count, draw)).verdict is Verdict.SLOWER
    assert 0.75 * 400 <= found <= 0.85 * 400


def test_a_second_crossover_makes_few_replicates_say_more() -> None:
    draw = random.Random(12)
    once = twice = 0.0
    for _ in range(50):
        taken = replicates(0.0, FEWEST_REPLICATES, draw)
        twice += judged(taken).detectable
        once += judged([each[:1] for each in taken]).detectable
    assert twice < 0.65 * once


def test_replicates_that_differ_more_than_their_process_pairs_are_what_counts() -> None:
    starts = [0.010, 0.020, 0.000, 0.015, 0.005]
    apart = [[(each - 0.0001, each + 0.0001), (each + 0.0001, each)] for each in starts]
    effect = judged(apart, same_files=False)
    deviation = math.sqrt(math.fsum((each - 0.01) ** 2 for each in starts) / 4 / 5)
    low, high = map(math.log, effect.interval_95)
    assert (high - low) / 2 > 1.9 * deviation


def test_one_process_pair_that_was_disturbed_costs_little() -> None:
    steady = replicates(0.02, 10, random.Random(8), spread=0.002)
    disturbed = [*steady[1:], [(0.5, steady[0][0][1]), *steady[0][1:]]]
    assert judged(disturbed).ratio == pytest.approx(judged(steady).ratio, abs=0.001)
    assert judged(disturbed).verdict is Verdict.SLOWER


def test_what_costs_whoever_is_started_first_neither_moves_nor_widens_the_interval() -> None:
    plain = replicates(0.0, 10, random.Random(9))
    more = [[(one - 0.2, other + 0.2) for one, other in each] for each in plain]
    assert judged(more).interval == pytest.approx(judged(plain).interval, abs=1e-5)


@pytest.mark.parametrize(("truth", "verdict"), [(0.01, Verdict.SLOWER), (-0.01, Verdict.FASTER)])
def test_one_per_cent_is_found_nearly_always(truth: float, verdict: Verdict) -> None:
    draw = random.Random(3)
    found = sum(judged(replicates(truth, 20, draw)).verdict is verdict for _ in range(200))
    assert found >= 190


def test_over_many_cases_false_discoveries_are_held() -> None:
    draw = random.Random(4)
    truths = [0.0] * 180 + [0.02] * 20
    effects = judge_times([timing(replicates(truth, 20, draw)) for truth in truths])
    called = [effect.verdict.is_change for effect in effects]
    assert sum(called[180:]) == 20
    assert sum(called[:180]) <= 2
    assert {effect.level for effect in effects} == {1 - FALSE_DISCOVERIES * sum(called) / 200}


def test_among_many_cases_all_are_shown_at_a_higher_level() -> None:
    slower = timing(alone([0.02, 0.021] * 10))
    nothing = [timing(alone([0.001, -0.001] * 10))] * 20
    assert judge_alone(slower).level == 1 - FALSE_DISCOVERIES
    among_many = judge_times([slower, *nothing])[0]
    assert among_many.level == 1 - FALSE_DISCOVERIES / 21
    assert among_many.interval.low < judge_alone(slower).interval.low


def test_what_spreads_widely_is_unclear_and_says_what_is_detectable() -> None:
    taken = timing(replicates(0.0, 20, random.Random(5), spread=0.1))
    assert judge_alone(taken).verdict is Verdict.UNCLEAR
    assert judge_alone(taken).detectable > 0.02
    assert not is_decided(taken)


@pytest.mark.parametrize("count", [5, 10])
def test_process_pairs_that_oppose_each_other_are_no_reason_for_a_wide_interval(count: int) -> None:
    """What the pages of memory do is in both of a crossover, with opposite signs."""
    draw = random.Random(1)
    wide = narrow = 0.0
    for _ in range(100):
        pages = [draw.gauss(0, 0.02) for _ in range(count)]
        noise = [(draw.gauss(0, 0.01), draw.gauss(0, 0.01)) for _ in range(count)]
        both = list(zip(noise, pages, strict=True))
        opposed = [[(one + page, other - page)] for (one, other), page in both]
        together = [[(one + page, other + page)] for (one, other), page in both]
        narrow += math.log(judged(opposed, same_files=False).interval_95.high)
        wide += math.log(judged(together, same_files=False).interval_95.high)
    assert narrow < 0.8 * wide


def test_replicates_that_agree_to_the_last_digit_are_as_sure_as_their_process_pairs() -> None:
    """A coarse clock gives equal numbers; that is no proof of a change."""
    equal = [[(0.01, -0.004), (-0.004, 0.01)]] * 5
    assert judged(equal).interval.low < 1 < judged(equal).interval.high


def test_what_is_near_but_may_be_half_a_per_cent_goes_on() -> None:
    """With more replicates it may be a change."""
    shape = [0.0010, -0.0008, 0.0004, -0.0011, 0.0005]
    near, nearer = (timing(alone(centre + each for each in shape * 2)) for centre in (0.0045, 0.0))
    assert not judge_alone(near).verdict.is_change or is_decided(near)
    assert is_decided(nearer)


def test_what_may_differ_for_nothing_is_no_change_however_steady_it_is() -> None:
    """And what goes beyond it is one."""
    steady = alone([0.0025, 0.0026, 0.0024, 0.0025, 0.0025] * 4)
    assert judged(steady).verdict is Verdict.SLOWER
    assert judged(steady, same_files=False).verdict is Verdict.SAME
    beyond = alone([0.0055, 0.0056, 0.0054, 0.0055, 0.0055] * 4)
    assert judged(beyond, same_files=False).verdict is Verdict.SLOWER


@pytest.mark.parametrize("same_files", [True, False])
def test_the_allowance_is_in_the_interval_and_in_what_is_detectable(same_files: bool) -> None:
    taken = alone([0.011, 0.014, 0.009, 0.016, 0.010, 0.012])
    effect = judged(taken, same_files=same_files)
    fit = fit_replicates(taken, same_files=same_files)
    allowance = ALLOWANCE if same_files else OTHER_FILES_ALLOWANCE
    low, high = fit.quantile(FALSE_DISCOVERIES / 2), fit.quantile(1 - FALSE_DISCOVERIES / 2)
    assert math.log(effect.interval.low) == pytest.approx(low - allowance, abs=1e-6)
    assert math.log(effect.interval.high) == pytest.approx(high + allowance, abs=1e-6)
    power = fit.quantile(0.8) - fit.quantile(0.5)
    assert math.log1p(effect.detectable) > (high - low) / 2 + power + allowance


def test_what_agrees_is_decided_but_not_by_few_replicates() -> None:
    steady = alone([0.0005, -0.0005] * 10)
    assert is_decided(timing(steady))
    assert not is_decided(timing(steady[: FEWEST_REPLICATES - 1]))


def test_looking_often_costs() -> None:
    taken = replicates(0.003, 20, random.Random(6))
    once, often = judged(taken), judged(taken, alpha_share=0.2)
    assert often.p == pytest.approx(min(1.0, 5 * once.p))
    assert often.interval.low < once.interval.low
    assert often.interval.high > once.interval.high


crossovers = st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
timings = st.builds(
    timing,
    st.lists(st.lists(crossovers, min_size=1, max_size=4), min_size=2, max_size=12),
    alpha_share=st.floats(0.05, 1),
    same_files=st.booleans(),
)
narrow_timings = st.builds(
    lambda centre, offs, same_files: timing(
        [[(centre + one, centre + other)] for one, other in offs], same_files=same_files
    ),
    st.floats(-0.02, 0.02),
    st.lists(st.tuples(st.floats(-0.002, 0.002), st.floats(-0.002, 0.002)), min_size=2, max_size=9),
    st.booleans(),
)
"""Near the margins, where verdicts change."""


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(timings, narrow_timings), min_size=1, max_size=4))
def test_ratio_interval_verdict_and_detectable_change_never_contradict_each_other(
    taken: list[PairedTiming],
) -> None:
    effects = judge_times(taken)
    for each, effect in zip(taken, effects, strict=True):
        low, high = effect.interval
        assert low <= effect.ratio * (1 + 1e-6)
        assert effect.ratio <= high * (1 + 1e-6)
        assert low <= effect.interval_95.low
        assert effect.interval_95.high <= high
        match effect.verdict:
            case Verdict.SLOWER:
                assert low > 1
            case Verdict.FASTER:
                assert high < 1
            case Verdict.SAME:
                assert low <= 1 <= high
                assert high <= 1 + SAME_WITHIN
                assert low >= 1 / (1 + SAME_WITHIN)
            case _:
                assert effect.verdict is Verdict.UNCLEAR
                assert low <= 1 <= high
                assert high > 1 + SAME_WITHIN or low < 1 / (1 + SAME_WITHIN)
        if effect.ratio - 1 > 1.01 * effect.detectable:
            assert effect.verdict is Verdict.SLOWER, "it is larger than what is found usually"
        allowance = ALLOWANCE if each.same_files else OTHER_FILES_ALLOWANCE
        assert effect.detectable >= math.expm1(allowance)
        assert effect.level == effects[0].level


@settings(deadline=None, max_examples=40)
@given(timings)
def test_swapping_the_sides_turns_the_ratio_over(taken: PairedTiming) -> None:
    turned = timing(
        [[(-other, -one) for one, other in each] for each in taken.replicates],
        alpha_share=taken.alpha_share,
        same_files=taken.same_files,
    )
    assert judge_alone(turned).ratio == pytest.approx(1 / judge_alone(taken).ratio, rel=1e-6)


def test_with_many_cases_it_takes_more_to_be_decided() -> None:
    assert is_decided(timing(replicates(0.05, 12, random.Random(7))), cases=181)
    wide = timing(replicates(0.02, 7, random.Random(7)))
    assert is_decided(wide, cases=1)
    assert not is_decided(wide, cases=100_000_000)


def test_nothing_says_nothing() -> None:
    with pytest.raises(EmptyMeasurementError):
        judged(alone([0.1]))


def test_a_change_that_is_clear_goes_on_until_it_is_known_well() -> None:
    """Otherwise the next comparison of the same two things would report quite another ratio."""
    spread = [0.016, -0.016, 0.008, -0.012, 0.004]
    clear = timing(alone(0.1 + each for each in spread))
    known = timing(alone(0.1 + each / 5 for each in spread))
    assert judge_alone(clear).verdict is judge_alone(known).verdict is Verdict.SLOWER
    assert not is_decided(clear)
    assert is_decided(known)


@pytest.mark.parametrize(("count", "is_enough"), [(1, False), (2, False), (4, False), (5, True)])
def test_a_verdict_needs_as_many_replicates_as_the_method_says(count: int, is_enough: bool) -> None:
    clear = ((0.3, 0.3), (0.3, 0.3))
    assert can_be_judged(timing((clear,) * count)) is is_enough
    assert not can_be_judged(timing(((),) * count)), "no crossover was taken"
