"""A grid of values: every combination becomes a benchmark of its own.

The values are names at the top of the setup, `n = 4` in Python and `const auto n = 4;` in C++, so
statements and setups of both languages read them like any other variable. A global setup, which
stands outside of the function, does not see them.
"""

from __future__ import annotations

import itertools
import json
import keyword
import math
from collections.abc import Iterable, Iterator, Mapping

from torchmark.arguments import shown
from torchmark.define.signature import RESERVED
from torchmark.errors import DefinitionError

Value = bool | int | float | str | tuple[int, ...]
"""What can be written as a literal in both languages; a tuple is a shape."""

Grid = tuple[tuple[str, tuple[Value, ...]], ...]
"""Each name with its values, in the order in which they were given."""

Point = tuple[tuple[str, Value], ...]
"""Each name with one of its values."""

_INT64 = range(-(2**63) + 1, 2**63)
"""Literals that C++ reads as they stand; the least of all is no literal there."""


_MOST_POINTS = 10_000
"""Combinations of a definition, each of which becomes several cases: more are refused before they
are made."""


def check_grid(params: Mapping[str, Iterable[Value]] | None) -> Grid:
    """The grid, if every value can be written in Python and C++ and none stands twice."""
    grid = tuple(
        (_check_name(name), _check_values(name, values)) for name, values in (params or {}).items()
    )
    number = math.prod(len(values) for _, values in grid)
    if number > _MOST_POINTS:
        raise DefinitionError(
            f"params have {number:,} combinations, and at most {_MOST_POINTS:,} are expanded; give "
            "fewer values, or measure a model with `torchmark sweep --sample`"
        )
    return grid


def points(grid: Grid) -> Iterator[Point]:
    """All combinations, the last name changing fastest; a single empty one without names.

    >>> list(points((("n", (1, 4)), ("m", (2,)))))
    [(('n', 1), ('m', 2)), (('n', 4), ('m', 2))]
    """
    names = [name for name, _ in grid]
    for values in itertools.product(*(values for _, values in grid)):
        yield tuple(zip(names, values, strict=True))


def py_lines(point: Point) -> str:
    return "\n".join(f"{name} = {value!r}" for name, value in point)


def cpp_lines(point: Point) -> str:
    return "\n".join(f"const auto {name} = {_cpp_literal(value)};" for name, value in point)


def _cpp_literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"std::vector<int64_t>{{{', '.join(map(str, value))}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # the escapes of JSON are those of C++ too
    return repr(value)


def _check_name(name: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
        raise DefinitionError(f"a parameter is named like a variable, not {name!r}")
    return name


def _check_values(name: str, values: Iterable[Value]) -> tuple[Value, ...]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise DefinitionError(f"params[{name!r}] is a list of values, got {values!r}")
    some = list(itertools.islice(values, _MOST_POINTS + 1))  # a range may have billions
    if len(some) > _MOST_POINTS:
        raise DefinitionError(f"params[{name!r}] has more than {_MOST_POINTS:,} values: the most")
    checked = tuple(_check_value(name, value) for value in some)
    texts = [repr(value) for value in checked]  # 1, 1.0 and True are equal, but not the same
    if not checked or len(set(texts)) < len(texts):
        raise DefinitionError(
            f"params[{name!r}] needs at least one value and none twice, got {shown(checked)}"
        )
    return checked


def _check_value(name: str, value: object) -> Value:
    if isinstance(value, (list, tuple)) and all(_is_int(item) for item in value):
        return tuple(value)
    if isinstance(value, (bool, str)) or _is_int(value):
        return value  # type: ignore[return-value] # mypy does not look into _is_int
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise DefinitionError(
        f"params[{name!r}] has {shown(value)}; a value is a bool, an int of 64 bits, a finite "
        "float, a str or a tuple of ints, as these can be written in Python and in C++"
    )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64
