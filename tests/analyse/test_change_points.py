"""Change points in series whose changes are known."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import noisy
from torchmark.analyse.change_points import (
    Fate,
    Rule,
    find_changes,
    level_of,
    rank_p,
    welch_p,
)

FIGURES = st.lists(st.floats(1e-12, 1e12), max_size=60)


def indices(values: list[float], **given: object) -> list[int]:
    return [each.index for each in find_changes(values, **given).points]  # type: ignore[arg-type]


def test_a_step_is_found_with_its_size_and_interval() -> None:
    (found,) = find_changes(noisy([1.0] * 30 + [1.03] * 30)).points
    assert abs(found.index - 30) <= 1
    assert found.interval.low <= 1.03 <= found.interval.high
    assert found.interval.low > 1.02
    assert found.fate is Fate.STAYED
    assert found.ratio == pytest.approx(found.after / found.before)


def test_steps_in_both_directions_are_found() -> None:
    found = indices(noisy([1.0] * 25 + [1.05] * 25 + [0.98] * 25 + [1.01] * 25))
    assert len(found) == 3
    assert all(abs(at - wanted) <= 1 for at, wanted in zip(found, (25, 50, 75), strict=True))


def test_noise_alone_is_hardly_ever_a_change() -> None:
    alarms = sum(bool(indices(noisy([1.0] * 80, seed=seed))) for seed in range(200))
    assert alarms <= 5


def test_single_bad_runs_are_not_changes() -> None:
    values = noisy([1.0] * 60)
    for at in (7, 20, 21, 44, 59):
        values[at] *= 1.4
    assert indices(values) == []


def test_a_slow_drift_is_not_a_step() -> None:
    assert indices(noisy([1 + 0.0008 * at for at in range(100)])) == []


def test_a_step_within_a_drift_is_found() -> None:
    levels = [(1 + 0.0001 * at) * (1.05 if at >= 50 else 1) for at in range(100)]
    assert 50 in indices(noisy(levels))


def test_a_change_that_returns_has_passed() -> None:
    there, back = find_changes(noisy([1.0] * 30 + [1.1] * 6 + [1.0] * 30)).points
    assert (there.fate, back.fate) == (Fate.PASSED, Fate.PASSED)
    assert find_changes(noisy([1.0] * 30 + [1.1] * 6 + [1.0] * 30)).lasting == ()


def test_a_change_that_returns_in_part_has_stayed() -> None:
    found = find_changes(noisy([1.0] * 30 + [1.1] * 20 + [1.05] * 30)).points
    assert [each.fate for each in found] == [Fate.STAYED, Fate.STAYED]


def test_neighbours_that_are_alike_make_a_step_less_certain() -> None:
    draw, state, alike = random.Random(1), 0.0, []
    for _ in range(200):
        state = 0.9 * state + draw.gauss(0, 0.003)
        alike.append(math.exp(state))
    mixed = draw.sample(alike, len(alike))
    assert level_of(alike).error > 1.5 * level_of(mixed).error
    left, right = np.arange(20.0), np.arange(12.0, 32.0)
    assert rank_p(left, right, 3.0) > 3 * rank_p(left, right)
    assert welch_p(left, right, 3.0) > 3 * welch_p(left, right)


def test_few_points_that_are_far_apart_are_a_change() -> None:
    assert indices(noisy([1.0] * 5 + [1.1] * 5)) == [5]
    assert indices(noisy([1.0] * 4 + [1.1] * 4)) == [4]
    assert indices(noisy([1.0] * 30 + [1.2] * 3)) == [30]


@given(st.lists(st.integers(0, 6), min_size=2, max_size=9), st.integers(1, 8))
def test_the_rank_test_is_exact(values: list[int], place: int) -> None:
    """Compared with all orders of the values, one by one, if no two are equal."""
    place = min(place, len(values) - 1)
    ranks = [float(each) for each in np.argsort(np.argsort(values, kind="stable"))]
    left, right = np.array(ranks[:place]), np.array(ranks[place:])
    middle = len(right) * (len(ranks) - 1) / 2
    away = abs(right.sum() - middle)
    sums = [sum(each) for each in itertools.combinations(ranks, len(right))]
    share = sum(abs(each - middle) >= away - 1e-9 for each in sums) / len(sums)
    assert rank_p(left, right) == pytest.approx(share)


def test_small_changes_can_be_ignored() -> None:
    values = noisy([1.0] * 40 + [1.02] * 40)
    assert indices(values, rule=Rule(least=0.015)) == indices(values)
    assert indices(values, rule=Rule(least=0.03)) == []


def test_significance_can_be_chosen() -> None:
    values = noisy([1.0] * 12 + [1.004] * 12, spread=0.0028, seed=4)
    assert indices(values, rule=Rule(significance=1e-6)) == []
    assert indices(values, rule=Rule(significance=0.5)) != []


def test_counts_change_by_one_instruction() -> None:
    (found,) = find_changes([1000.0] * 10 + [1001.0] * 10, is_exact=True).points
    assert (found.index, found.before, found.after) == (10, 1000.0, 1001.0)
    assert found.interval == (1.001, 1.001)


def test_a_single_different_count_is_no_change_unless_it_is_the_last() -> None:
    assert indices([5.0] * 5 + [6.0] + [5.0] * 5, is_exact=True) == []
    (found,) = find_changes([5.0] * 5 + [6.0], is_exact=True).points
    assert (found.index, found.fate) == (5, Fate.RECENT)


def test_counts_that_vary_are_treated_like_times() -> None:
    draw = random.Random(1)
    values = [float(1000 + draw.randint(0, 3)) for _ in range(60)]
    assert indices(values, is_exact=True) == []
    raised = [value + (50 if at >= 30 else 0) for at, value in enumerate(values)]
    assert indices(raised, is_exact=True) == [30]


def test_a_count_of_zero_can_change() -> None:
    (found,) = find_changes([0.0] * 6 + [8.0] * 6, is_exact=True).points
    assert (found.index, found.ratio) == (6, math.inf)


@pytest.mark.parametrize("count", range(8))
def test_short_series_have_no_change_of_times(count: int) -> None:
    changes = find_changes(noisy([1.0] * count))
    assert changes.points == ()
    assert sum(each.points for each in changes.segments) == count


@given(FIGURES, st.booleans())
def test_segments_cover_any_series_without_gaps(values: list[float], is_exact: bool) -> None:
    changes = find_changes(values, is_exact=is_exact)
    ends = [0, *(each.stop for each in changes.segments)]
    assert [each.start for each in changes.segments] == ends[:-1]
    assert ends[-1] == len(values)
    assert len(changes.points) == max(0, len(changes.segments) - 1)
    for each in changes.points:
        assert each.index in ends


@given(st.lists(st.floats(0.9, 1.1), min_size=1, max_size=40), st.floats(1e-9, 1e9))
def test_the_unit_of_a_series_does_not_matter(values: list[float], unit: float) -> None:
    scaled = [value * unit for value in values]
    assert indices(scaled) == indices(values)


def test_the_level_is_not_moved_by_outliers() -> None:
    values = noisy([1.0] * 30)
    plain = level_of(values)
    values[3] = values[17] = 5.0
    level = level_of(values)
    assert level.log == pytest.approx(plain.log, abs=0.002)
    assert plain.spread == pytest.approx(0.003, rel=0.5)
    assert level.spread < 0.006
    assert np.isfinite(level_of([1.0]).error)
