"""torch itself is the reference: every figure must be its own, to the bit."""

from __future__ import annotations

import math
import random
import struct

import pytest
import torch
import torch.utils.benchmark as reference
from hypothesis import given
from hypothesis import strategies as st

import torchmark
from torchmark.errors import InvalidArgumentError
from torchmark.model.units import first_line, log10_single, mean_double, std_single
from torchmark_probe.loops.intervals import quantile_of_sorted

times = st.floats(min_value=1e-9, max_value=1e3)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 15, 16, 17, 63, 125, 255, 256, 257, 4097, 30000])
def test_the_mean_is_torchs_to_the_bit(count: int) -> None:
    draw = random.Random(count)
    for _ in range(10):
        values = sorted(draw.gauss(8e-9, 4e-10) for _ in range(count))
        assert mean_double(values) == torch.tensor(values, dtype=torch.float64).mean().item()


@given(st.lists(times, min_size=1, max_size=200), st.sampled_from([0.25, 0.5, 0.75]))
def test_quantiles_are_torchs_to_the_bit(values: list[float], fraction: float) -> None:
    ordered = sorted(values)
    expected = torch.tensor(ordered, dtype=torch.float64).quantile(fraction).item()
    assert quantile_of_sorted(ordered, fraction) == expected


@given(st.lists(times, min_size=1, max_size=100))
def test_the_deviation_in_single_precision_is_torchs(values: list[float]) -> None:
    expected = torch.tensor(values).std(unbiased=False).item()
    rounding_of_the_mean = 2.0**-23 * max(values)
    assert std_single(values) == pytest.approx(expected, rel=1e-6, abs=rounding_of_the_mean)


def test_logarithms_round_as_torchs_do_next_to_powers_of_ten() -> None:
    for power in range(-12, 10):
        bits = struct.unpack("i", struct.pack("f", 10.0**power))[0]
        for offset in range(-200, 201):
            value = struct.unpack("f", struct.pack("i", bits + offset))[0]
            ours, theirs = log10_single(value), torch.tensor(value).log10().item()
            assert math.ceil(ours) == math.ceil(theirs)
            assert ours // 3 == theirs // 3


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_units_are_torchs(value: float) -> None:
    assert torchmark.select_unit(value) == reference.select_unit(value)


@given(
    st.floats(min_value=1e-9, max_value=1e9) | st.floats(min_value=-1e9, max_value=-1e-9),
    st.integers(min_value=1, max_value=6),
)
def test_trimmed_figures_are_torchs(value: float, figures: int) -> None:
    assert torchmark.trim_sigfig(value, figures) == reference.trim_sigfig(value, figures)


@pytest.mark.parametrize("seconds", [0.0, 1e-10, 1e-12, 3e-13, 1e-30, 5e-324])
def test_times_below_a_nanosecond_are_fractions_of_one(seconds: float) -> None:
    assert torchmark.select_unit(seconds) == ("ns", 1e-9)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_what_is_no_time_has_no_unit(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="finite and at least zero"):
        torchmark.select_unit(seconds)


def test_zero_has_no_figures_to_trim() -> None:
    assert torchmark.trim_sigfig(0.0, 3) == 0.0


def test_figures_must_be_a_whole_number() -> None:
    with pytest.raises(InvalidArgumentError):
        torchmark.trim_sigfig(1.0, 0)
    with pytest.raises(InvalidArgumentError):
        torchmark.trim_sigfig(math.nan, 2)


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match="'h'"):
        torchmark.unit_to_english("h")


@given(st.lists(st.integers(0, 5)))
def test_uniqueness_keeps_the_order(values: list[int]) -> None:
    assert torchmark.ordered_unique(values) == reference.ordered_unique(values)


def test_the_first_line_of_a_reason_is_not_too_long() -> None:
    assert first_line(f"the case raised: {'y' * 1000}\nmore") == f"the case raised: {'y' * 222}…"
