"""Student's t beside values of printed tables and beside the normal distribution."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.analyse.student import quantile, two_sided_p


@pytest.mark.parametrize(
    ("confidence", "freedom", "value"),
    [
        (0.95, 1, 12.706),
        (0.95, 5, 2.571),
        (0.95, 10, 2.228),
        (0.95, 30, 2.042),
        (0.99, 5, 4.032),
        (0.99, 20, 2.845),
        (0.999, 60, 3.460),
    ],
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: int, value: float) -> None:
    assert quantile(confidence, freedom) == pytest.approx(value, abs=5e-4)


def test_with_many_degrees_of_freedom_it_is_the_normal_distribution() -> None:
    assert quantile(0.95, 1e6) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-5)


@given(st.floats(0.01, 0.9999), st.floats(1, 1000))
def test_the_quantile_undoes_the_p_value(confidence: float, freedom: float) -> None:
    assert two_sided_p(quantile(confidence, freedom), freedom) == pytest.approx(
        1 - confidence, abs=1e-9
    )


@given(st.floats(-50, 50), st.floats(1, 1000))
def test_p_values_are_chances_and_symmetric(t: float, freedom: float) -> None:
    p = two_sided_p(t, freedom)
    assert 0 <= p <= 1
    assert p == two_sided_p(-t, freedom)


@given(st.floats(-40, 40), st.integers(1, 250).map(lambda half: 2 * half))
def test_an_even_freedom_lies_between_its_neighbours(t: float, freedom: int) -> None:
    """They are computed in another way, so that one checks the other."""
    below, p, above = (two_sided_p(t, freedom + step) for step in (-1e-3, 0, 1e-3))
    assert above * (1 - 1e-6) <= p <= below * (1 + 1e-6)
    assert p == pytest.approx((below + above) / 2, rel=1e-4)


def test_the_ends() -> None:
    assert two_sided_p(0.0, 7) == 1.0
    assert two_sided_p(math.inf, 7) == 0.0
