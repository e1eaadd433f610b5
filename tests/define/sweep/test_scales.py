from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.sweep.axes import linspace, logspace, setting, sizes_of
from torchmark.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("given_sizes", "sizes"),
    [
        ([1, 2, 2, 4], (1, 2, 4)),
        (range(1, 4), (1, 2, 3)),
        (8, (8,)),
        ([8.0], (8,)),
        ({"range": [1, 9, 4]}, (1, 5)),
        ({"linspace": [1, 100, 4]}, (1, 34, 67, 100)),
        ({"logspace": {"start": 0, "end": 3, "steps": 4}}, (1, 10, 100, 1000)),
        ("logspace(3, 5, 3, base=2)", (8, 16, 32)),
        ("1, 2, 4", (1, 2, 4)),
    ],
)
def test_sizes_are_read_in_every_form(given_sizes: Any, sizes: tuple[int, ...]) -> None:
    assert sizes_of("batch", given_sizes) == sizes


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 50))
def test_equal_steps_begin_and_end_where_they_are_told_to(a: int, b: int, steps: int) -> None:
    sizes = linspace(a, b, steps)
    assert sizes[0] == a
    assert steps == 1 or sizes[-1] == b
    assert len(set(sizes)) == len(sizes) <= steps


@given(st.integers(0, 10), st.integers(0, 10), st.integers(2, 30))
def test_logarithmic_steps_have_whole_ends(a: int, b: int, steps: int) -> None:
    sizes = logspace(a, b, steps, base=2)
    assert (sizes[0], sizes[-1]) == (2**a, 2**b)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ([1, 2.5], "2.5"),
        ([], "no sizes"),
        ([True], "True"),
        (["many"], "'many'"),
        ({"arange": [1, 2]}, "arange"),
        ({"range": [1, 2, 0]}, "range"),
        ("__import__('os')", "__import__"),
        ("range(10", "range(10"),
        ([2**60], str(2**60)),
        ("logspace(1, 1024, 11)", "torch.logspace"),
    ],
)
def test_what_is_no_size_is_told_with_the_dimension_and_the_value(wrong: Any, named: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        sizes_of("batch", wrong)
    assert named in str(raised.value)
    assert "batch" in str(raised.value) or "torch.logspace" in named


def test_a_setting_without_a_value_says_how_to_write_it() -> None:
    assert setting("batch=range(1, 3)") == ("batch", (1, 2))
    with pytest.raises(InvalidArgumentError, match="batch=8"):
        setting("batch")
