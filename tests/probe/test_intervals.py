from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark_probe.loops.intervals import Interval, median, median_interval, quantile_of_sorted

samples = st.lists(st.floats(min_value=0, max_value=1e3), min_size=1, max_size=200)


@given(samples)
def test_the_interval_holds_the_median(values: list[float]) -> None:
    low, high = median_interval(values)
    assert low <= median(values) <= high


@given(samples, st.floats(min_value=0, max_value=1))
def test_quantiles_stay_within_the_samples(values: list[float], fraction: float) -> None:
    ordered = sorted(values)
    assert ordered[0] <= quantile_of_sorted(ordered, fraction) <= ordered[-1]


@given(st.lists(st.floats(min_value=0, max_value=1e3), min_size=1, max_size=5))
def test_five_samples_cannot_carry_95_per_cent_so_all_of_them_are_the_interval(
    values: list[float],
) -> None:
    low, high = median_interval(values)
    assert low <= min(values)
    assert high >= max(values)


def coverage(make: object, count: int, true_median: float) -> float:
    assert callable(make)
    draw = random.Random(count)
    intervals = [median_interval(make(draw, count)) for _ in range(600)]
    return sum(low <= true_median <= high for low, high in intervals) / len(intervals)


def bell(draw: random.Random, count: int) -> list[float]:
    return [draw.gauss(10, 1) for _ in range(count)]


def skewed(draw: random.Random, count: int) -> list[float]:
    return [draw.expovariate(1) for _ in range(count)]


def wandering(draw: random.Random, count: int) -> list[float]:
    """Neighbours alike: half of each sample's deviation is handed to the next."""
    values, deviation = [], draw.gauss(0, 1)
    for _ in range(count):
        values.append(10 + deviation)
        deviation = 0.5 * deviation + draw.gauss(0, 0.75**0.5)
    return values


@pytest.mark.parametrize("count", [10, 30, 100, 400])
def test_it_covers_the_true_median_of_independent_samples(count: int) -> None:
    assert coverage(bell, count, 10) >= 0.94
    assert coverage(skewed, count, 0.6931471805599453) >= 0.94


def test_it_covers_the_true_median_of_samples_whose_neighbours_are_alike() -> None:
    assert coverage(wandering, 400, 10) >= 0.9


def width_of(interval: Interval) -> float:
    return interval.high - interval.low


def test_more_samples_make_it_narrower() -> None:
    draw = random.Random(0)
    widths = [
        sum(width_of(median_interval(bell(draw, count))) for _ in range(50))
        for count in (20, 200, 2000)
    ]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]
