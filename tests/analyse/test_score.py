"""The score: a geometric mean of ratios with an interval that holds the truth."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import ab_records, records
from torchmark.analyse.ab import judge
from torchmark.analyse.run_differences import compare_runs
from torchmark.analyse.score import (
    CaseRatio,
    count_ratios,
    ratios_between_runs,
    score_of,
    scores_by_group,
    time_ratios,
)
from torchmark_probe.loops.intervals import Interval

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
MM = records.case("Linear algebra", "mm", stmt="x @ y")


def known(ratio: float, half: float) -> CaseRatio:
    """A ratio whose interval reaches so far, as a logarithm."""
    interval = Interval(ratio * math.exp(-half), ratio * math.exp(half))
    return CaseRatio(case=ADD, ratio=ratio, interval=interval)


def test_halving_and_doubling_cancel() -> None:
    score = score_of([known(0.5, 0.01), known(2.0, 0.01)])
    assert score is not None
    assert score.ratio == pytest.approx(1.0)
    assert score.cases == 2


def test_the_interval_becomes_narrower_with_more_cases_but_not_than_what_they_share() -> None:
    def width(count: int, shared: float) -> float:
        score = score_of([known(1.1, 0.02)] * count, shared=shared)
        assert score is not None
        assert score.interval is not None
        return math.log(score.interval.high / score.interval.low) / 2

    assert width(1, 0.0) == pytest.approx(0.02)
    assert width(100, 0.0) == pytest.approx(0.002)
    assert width(100, 0.005) == pytest.approx(0.007)


def test_the_interval_holds_the_true_mean_in_95_of_100() -> None:
    draw = random.Random(3)
    held = 0
    for _ in range(2000):
        ratios = []
        for _ in range(30):
            spread = draw.choice((0.002, 0.01))
            ratios.append(known(math.exp(draw.gauss(math.log(1.02), spread)), 1.96 * spread))
        score = score_of(ratios)
        assert score is not None
        assert score.interval is not None
        held += score.interval.low <= 1.02 <= score.interval.high
    assert 0.93 <= held / 2000 <= 0.97


def test_exact_ratios_have_no_interval() -> None:
    score = score_of([CaseRatio(case=ADD, ratio=1.1), CaseRatio(case=MUL, ratio=1.1)])
    assert score is not None
    assert score.interval is None


def test_ratios_that_are_no_numbers_do_not_count() -> None:
    assert score_of([]) is None
    assert score_of([CaseRatio(case=ADD, ratio=ratio) for ratio in (0.0, math.inf)]) is None
    score = score_of([CaseRatio(case=ADD, ratio=ratio) for ratio in (0.0, 1.5)])
    assert score is not None
    assert score.ratio == pytest.approx(1.5)
    assert score.cases == 1


def test_an_interval_without_an_end_gives_one_without_an_end() -> None:
    endless = CaseRatio(case=ADD, ratio=1.0, interval=Interval(0.0, math.inf))
    score = score_of([endless, known(1.0, 0.01)])
    assert score is not None
    assert score.interval is not None
    assert score.interval.high > 1e100


def test_groups_are_first_labels_in_order() -> None:
    ratios = [
        CaseRatio(case=case, ratio=ratio) for case, ratio in ((ADD, 1.1), (MM, 2.0), (MUL, 1.1))
    ]
    found = [(name, round(score.ratio, 3)) for name, score in scores_by_group(ratios)]
    assert found == [("Pointwise", 1.1), ("Linear algebra", 2.0)]


def test_a_comparison_has_ratios_of_times_and_of_counts() -> None:
    run = ab_records.run_of(
        ab_records.timed(ADD, 1.1),
        ab_records.counted(ADD, {"f": 1000}, {"f": 1200}),
        ab_records.counted(MUL, {"f": 0}, {"f": 10}),
    )
    judged = judge(run, ab_records.PAIR)
    (time,) = time_ratios(judged)
    assert time.ratio == pytest.approx(1.1, rel=1e-3)
    assert time.interval is not None
    (count,) = count_ratios(judged)
    assert count.ratio == pytest.approx(1.2, rel=1e-2)
    assert count.interval is None


def test_two_runs_have_ratios_of_their_times() -> None:
    first, second = (
        records.run_of(ADD, id=name, results=(records.time_result(ADD, seconds),))
        for name, seconds in (("20261115-221530-a1b2c3", 1e-6), ("20261116-221530-a1b2c3", 2e-6))
    )
    (ratio,) = ratios_between_runs(compare_runs(first, second))
    assert ratio.ratio == pytest.approx(2.0)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_the_score_lies_between_the_ratios(ratios: list[float]) -> None:
    score = score_of([CaseRatio(case=ADD, ratio=ratio) for ratio in ratios])
    assert score is not None
    assert min(ratios) * (1 - 1e-9) <= score.ratio <= max(ratios) * (1 + 1e-9)
