"""The gate: what fails, what is doubtful, and how often it is wrong."""

from __future__ import annotations

import math
import random

import pytest

from tests import histories, records
from torchmark.analyse.gate import (
    DEFAULT_LIMIT,
    GateRow,
    Limit,
    Outcome,
    agree,
    decide,
    judge_point,
)
from torchmark.analyse.history import history_of
from torchmark.model.run import RunKind
from torchmark.model.series import Origin, Point, Quantity, Series

ADD = records.case("add")


def points(values: list[float]) -> tuple[Point, ...]:
    run = histories.run_on(1, records.time_result(ADD))
    return tuple(
        Point(
            origin=Origin(
                run=f"run-{at}", started=f"2026-01-01T00:00:{at:02d}", kind=RunKind.RUN,
                suite="", environment=run.environment,
            ),
            value=value,
        )
        for at, value in enumerate(values)
    )  # fmt: skip


def judged(
    before: list[float],
    value: float,
    limit: Limit = DEFAULT_LIMIT,
    quantity: Quantity = Quantity.TIME,
    cases: int = 1,
) -> GateRow:
    series = Series(case_id=ADD.id, case=ADD, quantity=quantity, machine="m", points=points(before))
    history = history_of(series) if before else None
    (point,) = points([value])
    return judge_point(ADD, quantity, point, history, limit, cases=cases)


STEADY = histories.noisy([1e-6] * 30, spread=0.002)


@pytest.mark.parametrize(
    ("factor", "outcome"),
    [
        (1.05, Outcome.FAIL),
        (1.0, Outcome.FINE),
        (1.009, Outcome.WARN),
        (1.003, Outcome.FINE),
        (0.95, Outcome.BETTER),
    ],
)
def test_a_figure_is_judged_by_its_limits(factor: float, outcome: Outcome) -> None:
    limit = Limit(soft=0.008, hard=0.01) if factor < 1.01 else DEFAULT_LIMIT
    assert judged(STEADY, 1e-6 * factor, limit).outcome is outcome


def test_only_the_last_segment_is_the_baseline() -> None:
    before = histories.noisy([1e-6] * 20 + [1.2e-6] * 20, spread=0.002)
    row = judged(before, 1.2e-6)
    assert row.outcome is Outcome.FINE
    assert row.baseline is not None
    assert row.baseline.points == pytest.approx(20, abs=1)
    assert judged(before, 1e-6).outcome is Outcome.BETTER


def test_noise_that_reaches_the_limit_is_unclear_and_no_failure() -> None:
    noisy = histories.noisy([1e-6] * 30, spread=0.02)
    assert judged(noisy, 1.03e-6).outcome is Outcome.NEAR


def test_what_has_happened_in_the_baseline_is_not_certain() -> None:
    """A burst of other programs made one of thirty runs slower, and may do so again."""
    before = list(STEADY)
    before[12] *= 1.08
    assert judged(STEADY, 1.035e-6).outcome is Outcome.FAIL
    assert judged(before, 1.035e-6).outcome is Outcome.NEAR


def test_the_spread_of_few_runs_is_not_trusted() -> None:
    assert judged([1e-6, 1e-6], 1.04e-6).outcome is Outcome.NEAR
    assert judged([1e-6, 1e-6], 2e-6).outcome is Outcome.FAIL


def test_a_case_without_baseline_is_new() -> None:
    assert judged([], 1e-6).outcome is Outcome.NEW


def test_counts_are_exact() -> None:
    counts = [1000.0] * 5

    def of(value: float, limit: Limit = DEFAULT_LIMIT) -> Outcome:
        return judged(counts, value, limit, Quantity.INSTRUCTIONS).outcome

    assert of(1000.0) is Outcome.FINE
    assert of(1001.0) is Outcome.WARN
    assert of(1011.0) is Outcome.FAIL
    assert of(980.0) is Outcome.BETTER
    assert of(1001.0, Limit(soft=0.002, hard=0.01)) is Outcome.FINE


def test_a_count_that_was_zero_may_not_grow() -> None:
    quantity = Quantity.INSTRUCTIONS
    assert judged([0.0] * 4, 0.0, quantity=quantity).outcome is Outcome.FINE
    assert judged([0.0] * 4, 3.0, quantity=quantity).outcome is Outcome.FAIL


def test_clean_runs_of_a_hundred_cases_hardly_ever_fail() -> None:
    draw = random.Random(5)
    failed = 0
    for _ in range(40):
        rows = [
            judged(
                [1e-6 * math.exp(draw.gauss(0, 0.005)) for _ in range(20)],
                1e-6 * math.exp(draw.gauss(0, 0.005)),
                cases=100,
            )
            for _ in range(20)
        ]
        failed += any(row.outcome is Outcome.FAIL for row in rows)
    assert failed <= 2


def test_certain_changes_within_the_limit_are_fine() -> None:
    assert decide(0.004, (0.002, 0.006), (0.003, 0.0045), Limit(0.005, 0.01)) is Outcome.FINE


def test_a_second_measurement_must_agree() -> None:
    bad, good = judged(STEADY, 1.05e-6), judged(STEADY, 1.001e-6)
    assert agree(bad, good) is good
    assert agree(bad, judged(STEADY, 1.04e-6)).outcome is Outcome.FAIL
