"""Made-up samples with a known flaw, and thousands without one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from torchmark.model.result_warnings import (
    WarningKind,
    find_interval_warnings,
    find_sampling_warnings,
    find_warnings,
)
from torchmark_probe.loops.intervals import Interval, median, result_interval
from torchmark_probe.loops.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence


def kinds(samples: Sequence[float]) -> set[WarningKind]:
    return {warning.kind for warning in find_warnings(samples)}


def bell(seed: int, count: int, spread: float = 0.02) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(1e-6, spread * 1e-6) for _ in range(count)]


def skewed(seed: int, count: int) -> list[float]:
    draw = random.Random(seed)
    return [1e-6 * (1 + draw.lognormvariate(-4, 1)) for _ in range(count)]


@pytest.mark.parametrize("make", [bell, skewed])
@pytest.mark.parametrize("count", [30, 100, 1000])
def test_steady_samples_raise_a_warning_in_one_of_a_hundred_runs_at_most(
    make: object, count: int
) -> None:
    assert callable(make)
    doubtful = [seed for seed in range(300) if kinds(make(seed, count))]
    assert len(doubtful) <= 3


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_two_groups_are_bimodal(seed: int, share: float) -> None:
    draw = random.Random(seed)
    samples = [
        time * (1.0 if draw.random() < share else 1.4) for time in bell(seed, 200, spread=0.01)
    ]
    assert WarningKind.BIMODAL in kinds(samples)


def test_a_few_outliers_are_not_a_second_mode() -> None:
    samples = bell(1, 200)
    samples[10::40] = [5e-6] * len(samples[10::40])
    assert WarningKind.BIMODAL not in kinds(samples)


@pytest.mark.parametrize("change", [-0.08, 0.08])
def test_samples_that_grow_or_shrink_are_drifting(change: float) -> None:
    samples = [time * (1 + change * index / 100) for index, time in enumerate(bell(2, 100, 0.01))]
    assert WarningKind.DRIFTING in kinds(samples)


def test_a_drift_of_half_a_per_cent_is_nobodys_concern() -> None:
    samples = [time * (1 + 0.005 * index / 1000) for index, time in enumerate(bell(3, 1000, 0.001))]
    assert kinds(samples) == set()


def test_few_samples_are_too_few() -> None:
    assert kinds(bell(4, 29)) == {WarningKind.TOO_FEW_SAMPLES}
    assert kinds(bell(4, 30)) == set()


def test_a_wide_middle_half_is_a_warning() -> None:
    assert WarningKind.HIGH_IQR in kinds(bell(5, 100, spread=0.2))


def test_equal_samples_raise_no_warning() -> None:
    assert kinds([1e-6] * 50) == set()
    assert kinds([0.0] * 50) == set()


def sampling(quiet: int, disturbed: int, resolution: float = 1e-9) -> Sampling:
    count = quiet + disturbed
    return Sampling(
        number=1,
        wall=(1e-4,) * count,
        cpu=(1e-4,) * count,
        pace=(1.0,) * quiet + (2.0,) * disturbed,
        quiet_pace=1.0,
        clock_resolution=resolution,
    )


def test_a_coarse_clock_is_a_warning() -> None:
    found = find_sampling_warnings(sampling(50, 0, resolution=2e-6))
    assert [warning.kind for warning in found] == [WarningKind.COARSE_CLOCK]


def test_a_disturbed_machine_is_no_warning_if_it_left_enough_quiet_samples() -> None:
    assert find_sampling_warnings(sampling(quiet=30, disturbed=500)) == ()


@pytest.mark.parametrize(
    ("quiet", "says"),
    [
        (0, "none of 500 samples was undisturbed, so the least disturbed are used"),
        (10, "only 10 of 510 samples were undisturbed, and only those are used"),
    ],
)
def test_a_disturbed_machine_with_few_quiet_samples_is_a_warning(quiet: int, says: str) -> None:
    (warning,) = find_sampling_warnings(sampling(quiet, disturbed=500))
    assert warning.kind is WarningKind.DISTURBED
    assert warning.text == f"{says}; close other programs or measure longer"


def test_a_median_that_is_hardly_known_has_a_wide_interval() -> None:
    (warning,) = find_interval_warnings(87e-6, Interval(22e-6, 152e-6))
    assert warning.kind is WarningKind.WIDE_INTERVAL
    assert warning.figures["share"] == pytest.approx(65 / 87)
    assert warning.text.startswith("the 95 % interval of the median 87 us is 22 us to 152 us")
    assert find_interval_warnings(1.0, Interval(0.85, 1.01))
    assert not find_interval_warnings(1.0, Interval(0.91, 1.09))
    assert not find_interval_warnings(0.0, Interval(0.0, 1.0)), "no time on the clock"


@pytest.mark.parametrize("make", [bell, skewed])
@pytest.mark.parametrize("count", [30, 100, 1000])
def test_the_interval_of_steady_samples_is_not_wide(make: object, count: int) -> None:
    assert callable(make)
    for seed in range(300):
        samples = make(seed, count)
        interval = result_interval(samples, sample_seconds=2e-3, disturbed=0.0, unsteady=0.0)
        assert not find_interval_warnings(median(samples), interval)
