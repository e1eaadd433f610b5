"""Every combination of a grid is a point, written in Python and in C++."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.params import Value, check_grid, cpp_lines, points, py_lines
from torchmark.errors import DefinitionError

VALUES = (
    st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.lists(st.integers(0, 9), max_size=3).map(tuple)
)
GRIDS = st.dictionaries(
    st.sampled_from(["n", "m", "shape", "kind"]),
    st.lists(VALUES, min_size=1, max_size=4, unique_by=repr),
    max_size=3,
)


@given(GRIDS)
def test_a_grid_has_as_many_points_as_combinations(params: dict[str, list[Value]]) -> None:
    found = list(points(check_grid(params)))
    assert len(found) == math.prod(len(values) for values in params.values())
    assert len(set(map(repr, found))) == len(found)


@given(GRIDS)
def test_the_lines_in_python_give_the_values_back(params: dict[str, list[Value]]) -> None:
    for point in points(check_grid(params)):
        names: dict[str, Any] = {}
        for line in ast.parse(py_lines(point)).body:
            assert isinstance(line, ast.Assign)
            assert isinstance(line.targets[0], ast.Name)
            names[line.targets[0].id] = ast.literal_eval(line.value)
        assert repr(names) == repr(dict(point))


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (4, "const auto n = 4;"),
        (-1.5, "const auto n = -1.5;"),
        (True, "const auto n = true;"),
        ('a"b\n', 'const auto n = "a\\"b\\n";'),
        ((4, 4), "const auto n = std::vector<int64_t>{4, 4};"),
        ([4], "const auto n = std::vector<int64_t>{4};"),
        (1e20, "const auto n = 1e+20;"),
    ],
)
def test_values_are_literals_in_cpp(value: Value, line: str) -> None:
    (point,) = points(check_grid({"n": [value]}))
    assert cpp_lines(point) == line


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"n": []}, "at least one value"),
        ({"n": [1, 1]}, "no duplicates"),
        ({"n": 4}, "a list of values, not 4"),
        ({"n": "abc"}, "a list of values, not 'abc'"),
        ({"n": [None]}, "has None"),
        ({"n": [float("nan")]}, "has nan"),
        ({"n": [2**63]}, "64-bit"),
        ({"n": [(1, "a")]}, "tuple of ints"),
        ({"2n": [1]}, "a variable name that is not reserved, not '2n'"),
        ({"for": [1]}, "not 'for'"),
        ({"torch": [1]}, "not 'torch'"),
    ],
)
def test_what_cannot_be_written_in_both_languages_is_refused(
    params: dict[str, Any], says: str
) -> None:
    with pytest.raises(DefinitionError, match=says):
        check_grid(params)


def test_numbers_that_are_equal_but_not_the_same_are_two_values() -> None:
    assert len(list(points(check_grid({"n": [1, 1.0, True]})))) == 3


def test_a_grid_is_bounded_before_it_is_made() -> None:
    with pytest.raises(DefinitionError, match=r"params\['n'\] has more than 10,000 values"):
        check_grid({"n": range(10**12)})
    with pytest.raises(DefinitionError, match="1,000,000,000,000 combinations, and at most 10,000"):
        check_grid({name: range(10_000) for name in ("a", "b", "c")})
