"""What pairs say, on made-up pairs whose truth is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.analyse.pairs import (
    FALSE_ALARMS,
    FALSE_DISCOVERIES,
    FEWEST_PAIRS,
    Round,
    Verdict,
    effect_of,
    estimate_of,
    is_decided,
    verdicts_of,
)
from torchmark.errors import EmptyMeasurementError


def pairs(truth: float, count: int, draw: random.Random, spread: float = 0.003) -> list[float]:
    """Log ratios; one in ten comes from a pair that was disturbed."""
    return [truth + draw.gauss(0, spread) * (4 if draw.random() < 0.1 else 1) for _ in range(count)]


def rounds(*ratios: float, slowest: float = 1.0) -> list[Round]:
    return [Round(a=1.0, b=ratio, fastest=1.0, slowest=slowest) for ratio in ratios]


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(1)
    covered = 0
    for _ in range(1000):
        interval = effect_of(pairs(0.01, 20, draw)).interval
        covered += interval.low <= math.exp(0.01) <= interval.high
    assert 925 <= covered <= 975


def test_no_difference_is_called_a_change_in_one_of_a_hundred_at_most() -> None:
    draw = random.Random(2)
    effects = [effect_of(pairs(0.0, 20, draw)) for _ in range(500)]
    alarms = sum(verdicts_of([effect])[0] in (Verdict.FASTER, Verdict.SLOWER) for effect in effects)
    assert alarms <= 10


@pytest.mark.parametrize(("truth", "verdict"), [(0.01, Verdict.SLOWER), (-0.01, Verdict.FASTER)])
def test_one_per_cent_is_found_nearly_always(truth: float, verdict: Verdict) -> None:
    draw = random.Random(3)
    found = sum(verdicts_of([effect_of(pairs(truth, 20, draw))])[0] is verdict for _ in range(200))
    assert found >= 190


def test_over_many_cases_false_discoveries_are_held() -> None:
    draw = random.Random(4)
    truths = [0.0] * 180 + [0.02] * 20
    verdicts = verdicts_of([effect_of(pairs(truth, 20, draw)) for truth in truths])
    called = [v in (Verdict.FASTER, Verdict.SLOWER) for v in verdicts]
    assert sum(called[180:]) == 20
    assert sum(called[:180]) <= 2


def test_among_many_cases_one_must_be_clearer_than_by_itself() -> None:
    """But not as clear as if each of them had a share of what one alone may have."""
    nothing = [effect_of([0.001, -0.001] * 10) for _ in range(20)]
    changed = replace(effect_of([0.02, 0.021] * 10), p=FALSE_ALARMS)
    assert verdicts_of([changed]) == [Verdict.SLOWER]
    assert verdicts_of([changed, *nothing])[0] is not Verdict.SLOWER
    clearer = replace(changed, p=FALSE_DISCOVERIES / 21)
    assert clearer.p > FALSE_ALARMS / 21
    assert verdicts_of([clearer, *nothing])[0] is Verdict.SLOWER


def test_what_spreads_widely_is_unclear_and_says_what_could_have_been_seen() -> None:
    effect = effect_of(pairs(0.0, 20, random.Random(5), spread=0.05))
    assert verdicts_of([effect]) == [Verdict.UNCLEAR]
    assert effect.smallest > 0.02
    assert not is_decided(effect)


def test_what_agrees_is_decided_but_not_by_few_pairs() -> None:
    steady = [0.0005, -0.0005] * 10
    assert is_decided(effect_of(steady))
    assert not is_decided(effect_of(steady[: FEWEST_PAIRS - 1]))
    assert verdicts_of([effect_of([0.1, 0.1001])]) == [Verdict.UNCLEAR]


def test_looking_often_costs() -> None:
    estimates = pairs(0.003, 20, random.Random(6))
    once, often = effect_of(estimates), effect_of(estimates, penalty=5.0)
    assert often.p == pytest.approx(min(1.0, 5 * once.p))
    assert often.interval == once.interval


@given(st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=60))
def test_the_ratio_lies_in_its_interval_and_swapping_sides_turns_it_over(
    estimates: list[float],
) -> None:
    effect = effect_of(estimates)
    assert effect.interval.low <= effect.ratio * (1 + 1e-12)
    assert effect.ratio <= effect.interval.high * (1 + 1e-12)
    assert 0 <= effect.p <= 1
    turned = effect_of([-each for each in estimates])
    assert turned.ratio == pytest.approx(1 / effect.ratio)


def test_a_pair_is_judged_by_the_rounds_during_which_the_core_kept_its_pace() -> None:
    steady = rounds(1.01, 1.02, 1.03, 1.02, 1.02)
    disturbed = rounds(*[5.0] * 20, slowest=2.0)
    assert estimate_of([*steady, *disturbed]) == pytest.approx(math.log(1.02))
    assert estimate_of(disturbed) == pytest.approx(math.log(5.0)), "where none was steady"


def test_a_core_that_is_slow_all_the_time_is_steady() -> None:
    slow = [Round(a=2.0, b=2.1, fastest=2.0, slowest=2.1)] * 5
    assert estimate_of([*slow, *rounds(*[5.0] * 20, slowest=2.0)]) == pytest.approx(math.log(1.05))


def test_with_many_cases_it_takes_more_to_be_decided() -> None:
    effect = effect_of(pairs(0.004, 12, random.Random(7)))
    assert effect.p > 0.00001
    assert is_decided(effect_of(pairs(0.05, 12, random.Random(7))), cases=181)
    wide = effect_of([0.02, 0.03, 0.025, 0.021, 0.029, 0.024, 0.026])
    assert is_decided(wide, cases=1)
    assert not is_decided(wide, cases=100_000)


def test_nothing_says_nothing() -> None:
    with pytest.raises(EmptyMeasurementError):
        estimate_of([])
    with pytest.raises(EmptyMeasurementError):
        effect_of([0.1])
