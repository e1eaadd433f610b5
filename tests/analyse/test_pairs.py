"""What replicates say, on made-up ones whose truth is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ab_records import alone
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import (
    FALSE_ALARMS,
    FALSE_DISCOVERIES,
    Effect,
    effect_of,
    is_decided,
    verdicts_of,
)
from torchmark.errors import EmptyMeasurementError
from torchmark.model.run import FEWEST_REPLICATES
from torchmark_probe.loops.intervals import Interval

if TYPE_CHECKING:
    from torchmark.model.result import Crossover

CROSSOVERS = 2
"""Of a replicate."""

FIRST = 0.01
"""What it costs to be started first."""


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
@pytest.mark.parametrize("starts", [0.0, 0.006, 0.03])
def test_the_interval_covers_the_truth_as_often_as_it_says(count: int, starts: float) -> None:
    """Whether replicates differ no more than their process pairs do, as much again, or far more."""
    draw = random.Random(1)
    covered = 0
    for _ in range(1000):
        interval = effect_of(replicates(0.01, count, draw, starts=starts)).interval
        covered += interval.low <= math.exp(0.01) <= interval.high
    assert 920 <= covered <= 980


@pytest.mark.parametrize("starts", [0.0, 0.006, 0.03])
def test_no_difference_is_called_a_change_in_one_of_a_hundred_at_most(starts: float) -> None:
    """By the fewest replicates, at the look that they are judged by."""
    draw = random.Random(2)
    effects = [
        effect_of(replicates(0.0, FEWEST_REPLICATES, draw, starts=starts), penalty=4.0)
        for _ in range(1000)
    ]
    alarms = sum(verdicts_of([effect])[0] in (Verdict.FASTER, Verdict.SLOWER) for effect in effects)
    assert alarms <= 15


def test_process_pairs_that_agree_make_few_replicates_say_more() -> None:
    """The same replicates with one crossover each, or with two whose process pairs are near."""
    starts = [0.010, 0.012, 0.008, 0.011, 0.009]
    alike = [[(each - 0.002, each + 0.002), (each + 0.002, each - 0.002)] for each in starts]
    once = effect_of(alone(starts))
    assert effect_of(alike).p < once.p / 10
    assert effect_of(alike).ratio == pytest.approx(once.ratio)


def test_replicates_that_differ_more_than_their_process_pairs_are_what_counts() -> None:
    starts = [0.010, 0.020, 0.000, 0.015, 0.005]
    apart = [[(each - 0.0001, each + 0.0001), (each + 0.0001, each)] for each in starts]
    assert effect_of(apart).p == pytest.approx(effect_of(alone(starts)).p, rel=0.05)


def test_one_process_pair_that_was_disturbed_costs_little() -> None:
    steady = replicates(0.02, 10, random.Random(8), spread=0.002)
    disturbed = [*steady[1:], [(0.5, steady[0][0][1]), *steady[0][1:]]]
    assert effect_of(disturbed).ratio == pytest.approx(effect_of(steady).ratio, abs=0.001)
    assert verdicts_of([effect_of(disturbed)]) == [Verdict.SLOWER]


def test_what_costs_whoever_is_started_first_neither_moves_nor_widens_the_interval() -> None:
    plain = replicates(0.0, 10, random.Random(9))
    more = [[(one - 0.2, other + 0.2) for one, other in each] for each in plain]
    assert effect_of(more).interval == pytest.approx(effect_of(plain).interval)


@pytest.mark.parametrize(("truth", "verdict"), [(0.01, Verdict.SLOWER), (-0.01, Verdict.FASTER)])
def test_one_per_cent_is_found_nearly_always(truth: float, verdict: Verdict) -> None:
    draw = random.Random(3)
    found = sum(
        verdicts_of([effect_of(replicates(truth, 20, draw))])[0] is verdict for _ in range(200)
    )
    assert found >= 190


def test_over_many_cases_false_discoveries_are_held() -> None:
    draw = random.Random(4)
    truths = [0.0] * 180 + [0.02] * 20
    verdicts = verdicts_of([effect_of(replicates(truth, 20, draw)) for truth in truths])
    called = [v in (Verdict.FASTER, Verdict.SLOWER) for v in verdicts]
    assert sum(called[180:]) == 20
    assert sum(called[:180]) <= 2


def test_among_many_cases_one_must_be_clearer_than_by_itself() -> None:
    """But not as clear as if each of them had a share of what one alone may have."""
    nothing = [effect_of(alone([0.001, -0.001] * 10)) for _ in range(20)]
    changed = replace(effect_of(alone([0.02, 0.021] * 10)), p=FALSE_ALARMS)
    assert verdicts_of([changed]) == [Verdict.SLOWER]
    assert verdicts_of([changed, *nothing])[0] is not Verdict.SLOWER
    clearer = replace(changed, p=FALSE_DISCOVERIES / 21)
    assert clearer.p > FALSE_ALARMS / 21
    assert verdicts_of([clearer, *nothing])[0] is Verdict.SLOWER


def test_what_spreads_widely_is_unclear_and_says_what_is_detectable() -> None:
    effect = effect_of(replicates(0.0, 20, random.Random(5), spread=0.1))
    assert verdicts_of([effect]) == [Verdict.UNCLEAR]
    assert effect.detectable > 0.02
    assert not is_decided(effect)


@pytest.mark.parametrize("count", [5, 10])
def test_process_pairs_that_oppose_each_other_are_no_reason_for_a_wide_interval(count: int) -> None:
    """What the pages of memory do is in both of a crossover, with opposite signs."""
    draw = random.Random(1)
    covered = 0
    for _ in range(1000):
        opposed = []
        for _ in range(count):
            pages = draw.gauss(0, 0.02)
            opposed.append([(draw.gauss(pages, 0.01), draw.gauss(-pages, 0.01))])
        interval = effect_of(opposed).interval
        covered += interval.low <= 1 <= interval.high
    assert 920 <= covered <= 980


def test_replicates_that_agree_to_the_last_digit_are_as_sure_as_their_process_pairs() -> None:
    """A coarse clock gives equal numbers; that is no proof of a change."""
    equal = [[(0.01, -0.004), (-0.004, 0.01)]] * 5
    assert effect_of(equal).interval.low < 1 < effect_of(equal).interval.high


def test_what_is_near_but_surely_not_the_same_goes_on() -> None:
    """With more replicates it may be a change of half a per cent."""
    near = Effect(
        ratio=1.0033, interval=Interval(1.0016, 1.0049), p=0.02, replicates=5, detectable=0.004
    )
    assert not is_decided(near)
    assert is_decided(replace(near, interval=Interval(0.9984, 1.0049)))


def test_what_the_layout_may_do_is_no_change_however_steady_it_is() -> None:
    """And what goes beyond it is one, with as much to say for it as there is beyond it."""
    steady = alone([0.0040, 0.0041, 0.0039, 0.0042, 0.0038] * 4)
    assert verdicts_of([effect_of(steady)]) == [Verdict.SLOWER]
    assert verdicts_of([effect_of(steady, layout_effect=0.0041)]) == [Verdict.SAME]
    assert verdicts_of([effect_of(steady, layout_effect=0.003)]) == [Verdict.SLOWER]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_change_is_judged_by_what_the_layout_does_not_explain(sign: int) -> None:
    taken = [0.011, 0.014, 0.009, 0.016, 0.010, 0.012]
    judged = effect_of(alone([sign * each for each in taken]), layout_effect=0.003)
    less = effect_of(alone([sign * (each - 0.003) for each in taken]))
    assert judged.p == pytest.approx(less.p)
    assert judged.ratio == effect_of(alone([sign * each for each in taken])).ratio
    assert judged.detectable == pytest.approx(less.detectable + 0.003, abs=1e-4)


def test_what_agrees_is_decided_but_not_by_few_replicates() -> None:
    steady = alone([0.0005, -0.0005] * 10)
    assert is_decided(effect_of(steady))
    assert not is_decided(effect_of(steady[: FEWEST_REPLICATES - 1]))
    assert verdicts_of([effect_of(alone([0.1, 0.1001]))]) == [Verdict.UNCLEAR]


def test_looking_often_costs() -> None:
    taken = replicates(0.003, 20, random.Random(6))
    once, often = effect_of(taken), effect_of(taken, penalty=5.0)
    assert often.p == pytest.approx(min(1.0, 5 * once.p))
    assert often.interval.low < once.interval.low
    assert often.interval.high > once.interval.high


crossovers = st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))


@given(st.lists(st.lists(crossovers, min_size=1, max_size=4), min_size=2, max_size=30))
def test_the_ratio_lies_in_its_interval_and_swapping_sides_turns_it_over(
    taken: list[list[Crossover]],
) -> None:
    effect = effect_of(taken)
    assert effect.interval.low <= effect.ratio * (1 + 1e-12)
    assert effect.ratio <= effect.interval.high * (1 + 1e-12)
    assert 0 <= effect.p <= 1
    turned = effect_of([[(-other, -one) for one, other in each] for each in taken])
    assert turned.ratio == pytest.approx(1 / effect.ratio)


def test_with_many_cases_it_takes_more_to_be_decided() -> None:
    effect = effect_of(replicates(0.004, 12, random.Random(7)))
    assert effect.p > 0.00001
    assert is_decided(effect_of(replicates(0.05, 12, random.Random(7))), cases=181)
    wide = effect_of(alone([0.02, 0.03, 0.025, 0.021, 0.029, 0.024, 0.026]))
    assert is_decided(wide, cases=1)
    assert not is_decided(wide, cases=100_000)


def test_nothing_says_nothing() -> None:
    with pytest.raises(EmptyMeasurementError):
        effect_of(alone([0.1]))
