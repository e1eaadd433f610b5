from __future__ import annotations

import math
import random

import pytest

from torchmark import Measurement, TaskSpec
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.ratios import Ratio, ratio_of
from torchmark.errors import InvalidArgumentError
from torchmark_probe.loops.intervals import Interval
from torchmark_probe.loops.sampling import Sampling


def measured(wall: list[float], pace: list[float] | None = None, number: int = 1) -> Measurement:
    paces = tuple(pace or [1.0] * len(wall))
    sampling = Sampling(number, tuple(wall), tuple(wall), paces, 1.0, 1e-9)
    return Measurement(number, wall, TaskSpec("x", "pass"), sampling=sampling)


def weather(seed: int, count: int) -> list[float]:
    """How slow the machine is in each round: it doubles now and then, for both alike."""
    draw = random.Random(seed)
    return [draw.choice([1.0, 1.0, 1.0, 2.1]) for _ in range(count)]


def test_what_slows_the_machine_for_both_cancels_out() -> None:
    slow = weather(1, 400)
    draw = random.Random(2)
    a = measured([1e-4 * s * draw.gauss(1, 0.01) for s in slow])
    b = measured([1.02e-4 * s * draw.gauss(1, 0.01) for s in slow])
    ratio = ratio_of(b, a)
    assert ratio.value == pytest.approx(1.02, abs=0.003)
    assert ratio.interval.low < 1.02 < ratio.interval.high
    assert ratio.interval.high - ratio.interval.low < 0.01
    assert ratio.verdict is Verdict.SLOWER
    assert ratio_of(a, b).verdict is Verdict.FASTER


def test_blocks_of_different_size_are_compared_per_run() -> None:
    assert ratio_of(measured([4.0] * 40, number=4), measured([2.0] * 40)).value == 0.5


def test_rounds_in_which_either_block_was_disturbed_do_not_count() -> None:
    pace_a = [9.0] * 10 + [1.0] * 90
    pace_b = [1.0] * 90 + [9.0] * 10
    ratio = ratio_of(measured([1.0] * 100, pace_a), measured([1.0] * 100, pace_b))
    assert ratio.rounds == 80


def test_where_no_round_was_quiet_all_count() -> None:
    assert ratio_of(measured([1.0] * 50, [9.0] * 50), measured([1.0] * 50)).rounds == 50


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.02, 1.03, Verdict.SLOWER),
        (0.9, 0.98, Verdict.FASTER),
        (1.001, 1.004, Verdict.SAME),
        (0.9, 1.2, Verdict.UNCLEAR),
        (1.004, 1.02, Verdict.UNCLEAR),
    ],
)
def test_the_verdict_leaves_out_what_one_process_cannot_resolve(
    low: float, high: float, verdict: Verdict
) -> None:
    ratio = Ratio(value=math.sqrt(low * high), interval=Interval(low, high), rounds=100)
    assert ratio.verdict is verdict


def test_measurements_that_were_not_taken_together_have_no_ratio() -> None:
    with pytest.raises(InvalidArgumentError, match="not measured together"):
        ratio_of(measured([1.0] * 40), measured([1.0] * 41))
    with pytest.raises(InvalidArgumentError, match="measure_together"):
        ratio_of(Measurement(1, [1.0], TaskSpec("x", "pass")), measured([1.0]))


def test_times_of_zero_have_no_ratio() -> None:
    with pytest.raises(InvalidArgumentError, match="time of 0 s"):
        ratio_of(measured([0.0] * 40), measured([1.0] * 40))


def test_a_few_rounds_carry_no_verdict() -> None:
    assert ratio_of(measured([2.0] * 9), measured([1.0] * 9)).verdict is Verdict.UNCLEAR
    assert ratio_of(measured([2.0] * 10), measured([1.0] * 10)).verdict is Verdict.SLOWER
