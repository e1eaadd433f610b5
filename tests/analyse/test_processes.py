"""What runs of several processes can detect, and how many a size of change needs."""

from __future__ import annotations

import math
import random

import pytest

from tests import records
from torchmark.analyse.processes import (
    FEWEST_PROCESSES,
    detectable_in,
    detectable_with,
    forecast_processes,
)
from torchmark.model.result import Metric, PlannedResult, Result, Timing
from torchmark_probe.loops.sampling import Sampling


def timed(medians: list[float]) -> Result:
    """A case whose processes have these medians."""
    samplings = tuple(
        Sampling(
            number=1, wall=(each,) * 30, cpu=(each,) * 30, pace=(1e-6,) * 30, quiet_pace=1e-6,
            clock_resolution=1e-9,
        )
        for each in medians
    )  # fmt: skip
    planned = PlannedResult(case=records.case("case"), metric=Metric.TIME)
    return planned.finish(payload=Timing(processes=samplings))


def draws(spread: float, count: int, draw: random.Random, centre: float = 1e-3) -> list[float]:
    return [centre * math.exp(draw.gauss(0, spread)) for _ in range(count)]


def test_two_runs_that_differ_by_the_detectable_change_are_told_apart_in_four_of_five() -> None:
    """By Student's test of the logarithms of their medians, at 95 %."""
    draw, found, spread, count = random.Random(3), 0, 0.01, 12
    change = math.log1p(detectable_with(spread, count))
    for _ in range(1000):
        one, other = (
            [math.log(each) for each in draws(spread, count, draw, centre)]
            for centre in (1e-3, 1e-3 * math.exp(change))
        )
        means = [math.fsum(each) / count for each in (one, other)]
        squares = sum(
            (each - mean) ** 2 for of, mean in zip((one, other), means, strict=True) for each in of
        )
        error = math.sqrt(squares / (2 * count - 2) * 2 / count)
        found += abs(means[1] - means[0]) > 2.074 * error  # Student's t, 22 degrees, 95 %
    assert 760 <= found <= 850


def test_few_processes_have_nothing_detectable() -> None:
    assert detectable_in(timed([1e-3] * (FEWEST_PROCESSES - 1))) is None
    assert detectable_in(timed([1.0e-3, 1.01e-3, 0.99e-3, 1.02e-3, 1e-3])) is not None


@pytest.mark.parametrize("wanted", [0.002, 0.01, 0.05])
def test_a_forecast_is_close_to_what_is_achieved(wanted: float) -> None:
    draw, close = random.Random(5), 0
    for _ in range(100):
        pilot = draws(0.006, 10, draw)
        forecast = forecast_processes(timed(pilot), wanted, most=100)
        assert forecast.detectable <= wanted or forecast.processes == 100
        achieved = detectable_in(timed(pilot + draws(0.006, forecast.processes - 10, draw)))
        assert achieved is not None
        close += forecast.detectable / 1.5 <= achieved <= forecast.detectable * 1.5
    assert close >= 90


def test_a_case_that_failed_in_the_pilot_is_tried_once() -> None:
    failed = PlannedResult(case=records.case("case"), metric=Metric.TIME).finish()
    assert forecast_processes(failed, 0.01, most=100).processes == 1
