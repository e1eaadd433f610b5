from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from torchmark.define.fuzz import FuzzedParameter, ParameterAlias
from torchmark.errors import FuzzerDefinitionError

from .comparison import THEIRS


def _draws(parameter: FuzzedParameter, count: int = 200, seed: int = 0) -> list[Any]:
    state = np.random.RandomState(seed)
    return [parameter.sample(state) for _ in range(count)]


def test_a_dict_that_adds_up_to_one_is_accepted_where_torch_refuses_it() -> None:
    distribution = {1: 0.3, 2: 0.4, 3: 0.3}
    with pytest.raises(AssertionError):
        THEIRS.FuzzedParameter("k", distribution=distribution)
    assert set(_draws(FuzzedParameter("k", distribution=distribution))) == {1, 2, 3}


@pytest.mark.parametrize("total", [0.5, 1 - 2e-5, 1 + 2e-5, 2.0])
def test_a_dict_that_does_not_add_up_to_one_is_refused_where_torch_accepts_it(total: float) -> None:
    distribution = {1: total / 2, 2: total / 2}
    THEIRS.FuzzedParameter("k", distribution=distribution)
    with pytest.raises(FuzzerDefinitionError, match=r"parameter 'k': .*add up to"):
        FuzzedParameter("k", distribution=distribution)


@pytest.mark.parametrize("error", [-5e-6, 5e-6, -1.2e-8, 1.2e-8])
def test_a_dict_that_adds_up_to_nearly_one_is_drawn_although_numpy_is_stricter(
    error: float,
) -> None:
    exact = FuzzedParameter("k", distribution={1: 0.25, 2: 0.75})
    nearly = FuzzedParameter("k", distribution={1: 0.25, 2: 0.75 + error})
    assert _draws(nearly) == _draws(exact)


def test_a_dict_that_numpy_accepts_is_handed_to_it_as_it_is() -> None:
    class State:
        def choice(self, positions: Any, p: tuple[float, ...]) -> int:
            self.seen = p
            return 0

    state: Any = State()
    FuzzedParameter("k", distribution={1: 0.25, 2: 0.75 + 5e-9}).sample(state)
    assert state.seen == (0.25, 0.75 + 5e-9)


def test_a_choice_of_probability_zero_is_never_drawn() -> None:
    parameter = FuzzedParameter("k", distribution={"never": 0.0, "always": 1.0, "nor this": 0})
    assert set(_draws(parameter)) == {"always"}


def test_a_choice_keeps_its_own_type() -> None:
    choices = [True, 2, 2.5, "text", None, ParameterAlias("other")]
    parameter = FuzzedParameter("k", distribution=dict.fromkeys(choices, 1 / 6))
    assert {id(drawn) for drawn in _draws(parameter)} == {id(choice) for choice in choices}


def test_a_dict_changed_afterwards_changes_no_draw() -> None:
    distribution = {1: 0.5, 2: 0.5}
    parameter = FuzzedParameter("k", distribution=distribution)
    distribution[3] = 9.0
    assert set(_draws(parameter)) == {1, 2}


@pytest.mark.parametrize(
    ("distribution", "complaint"),
    [
        ({}, "at least one choice"),
        ({1: -0.5, 2: 1.5}, "probability of 1 .* not -0.5"),
        ({1: math.nan, 2: 1.0}, "probability of 1 .* not nan"),
        ({0.5: ParameterAlias("x")}, "probability of 0.5 .* not ParameterAlias"),
        ("normal", "unknown distribution 'normal'"),
        (None, "unknown distribution None"),
    ],
)
def test_a_distribution_that_cannot_be_drawn_is_refused_and_named(
    distribution: Any, complaint: str
) -> None:
    with pytest.raises(FuzzerDefinitionError, match=f"parameter 'k': .*{complaint}"):
        FuzzedParameter("k", distribution=distribution)


@pytest.mark.parametrize("bound", ["minval", "maxval"])
def test_a_dict_takes_no_bounds_beside_it(bound: str) -> None:
    bounds: dict[str, Any] = {bound: 1}
    with pytest.raises(FuzzerDefinitionError, match=r"parameter 'k': .*neither minval nor maxval"):
        FuzzedParameter("k", distribution={1: 1.0}, **bounds)


@pytest.mark.parametrize("distribution", ["uniform", "loguniform"])
@pytest.mark.parametrize(
    ("minval", "maxval", "complaint"),
    [
        (None, 4, "finite minval, not None"),
        (4, None, "finite maxval, not None"),
        (math.nan, 4, "finite minval, not nan"),
        (1, math.inf, "finite maxval, not inf"),
        (1, 10**400, "finite maxval, not 1000"),
        ("1", 4, "finite minval, not '1'"),
        (5, 4, "minval 5 is greater than maxval 4"),
    ],
)
def test_a_range_without_two_bounds_in_order_is_refused(
    distribution: str, minval: Any, maxval: Any, complaint: str
) -> None:
    with pytest.raises(FuzzerDefinitionError, match=f"parameter 'k': .*{complaint}"):
        FuzzedParameter("k", minval, maxval, distribution)


@pytest.mark.parametrize("minval", [0, -1, 0.0])
def test_a_loguniform_range_starts_above_zero(minval: float) -> None:
    with pytest.raises(FuzzerDefinitionError, match=r"parameter 'k': .*above zero"):
        FuzzedParameter("k", minval, 4, "loguniform")


@pytest.mark.parametrize(("minval", "maxval"), [(0, 2**63), (-(2**63) - 1, 0), (-1.5e308, 1.5e308)])
def test_a_uniform_range_that_numpy_cannot_draw_is_refused_at_once(
    minval: float, maxval: float
) -> None:
    with pytest.raises(FuzzerDefinitionError, match="parameter 'k'"):
        FuzzedParameter("k", minval, maxval, "uniform")


def test_a_name_must_be_a_string() -> None:
    nameless: Any = 3
    with pytest.raises(FuzzerDefinitionError, match="must be a string, not 3"):
        FuzzedParameter(nameless, 1, 4, "uniform")


@settings(deadline=None)
@given(
    bounds=st.tuples(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62)).map(sorted),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_uniform_draw_of_whole_numbers_lies_within_its_bounds(
    bounds: list[int], seed: int
) -> None:
    minval, maxval = bounds
    drawn = FuzzedParameter("k", minval, maxval, "uniform").sample(np.random.RandomState(seed))
    assert isinstance(drawn, int)
    assert minval <= drawn <= maxval


@settings(deadline=None)
@given(
    bounds=st.tuples(
        st.floats(1e-6, 1e12) | st.integers(1, 2**50), st.floats(1e-6, 1e12) | st.integers(1, 2**50)
    ).map(sorted),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_loguniform_draw_lies_within_its_bounds(bounds: list[float], seed: int) -> None:
    minval, maxval = bounds
    drawn = FuzzedParameter("k", minval, maxval, "loguniform").sample(np.random.RandomState(seed))
    assert minval <= drawn <= maxval


def test_a_uniform_range_includes_both_bounds() -> None:
    assert set(_draws(FuzzedParameter("k", 1, 3, "uniform"))) == {1, 2, 3}


def test_name_and_strict_can_be_read() -> None:
    parameter = FuzzedParameter("k", 1, 3, "uniform", True)
    assert parameter.name == "k"
    assert parameter.strict is True
    assert FuzzedParameter("k", 1, 3, "uniform").strict is False


def test_an_alias_reads_as_torchs_does() -> None:
    alias = ParameterAlias("other")
    assert alias.alias_to == "other"
    assert repr(alias) == repr(THEIRS.ParameterAlias("other"))
