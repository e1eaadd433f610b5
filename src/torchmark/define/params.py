"""A grid of values: every combination becomes a separate benchmark.

The values become variables at the top of the setup: `n = 4` in Python, `const auto n = 4;` in C++.
Statements and setups of both languages can use them. A C++ global setup cannot, because it is
outside of the function.
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
"""Values that can be written as a literal in both languages; a tuple is a shape."""

Grid = tuple[tuple[str, tuple[Value, ...]], ...]
"""Each name with its values, in the order given."""

Point = tuple[tuple[str, Value], ...]
"""Each name with one of its values."""

_INT64 = range(-(2**63) + 1, 2**63)
"""Integers that can be literals in C++; the smallest 64-bit integer cannot."""


_MOST_POINTS = 10_000
"""Maximum number of combinations of a definition, each of which becomes several cases. This is
checked before any are made."""


def check_grid(params: Mapping[str, Iterable[Value]] | None) -> Grid:
    """Return the grid; raise if a value is a duplicate or cannot be written in Python and C++."""
    grid = tuple(
        (_check_name(name), _check_values(name, values)) for name, values in (params or {}).items()
    )
    number = math.prod(len(values) for _, values in grid)
    if number > _MOST_POINTS:
        raise DefinitionError(
            f"params have {number:,} combinations, and at most {_MOST_POINTS:,} are supported; "
            "give fewer values, or measure a model with `torchmark sweep --sample`"
        )
    return grid


def points(grid: Grid) -> Iterator[Point]:
    """Yield all combinations, the last name changing fastest; without names, one empty one.

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
        return json.dumps(value, ensure_ascii=False)  # JSON's escapes are valid in C++
    return repr(value)


def _check_name(name: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
        raise DefinitionError(
            f"a parameter needs a variable name that is not reserved, not {name!r}"
        )
    return name


def _check_values(name: str, values: Iterable[Value]) -> tuple[Value, ...]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise DefinitionError(f"params[{name!r}] must be a list of values, not {values!r}")
    some = list(itertools.islice(values, _MOST_POINTS + 1))  # a range may be huge
    if len(some) > _MOST_POINTS:
        raise DefinitionError(
            f"params[{name!r}] has more than {_MOST_POINTS:,} values, the maximum"
        )
    checked = tuple(_check_value(name, value) for value in some)
    texts = [repr(value) for value in checked]  # 1, 1.0 and True are equal but differ as literals
    if not checked or len(set(texts)) < len(texts):
        raise DefinitionError(
            f"params[{name!r}] needs at least one value and no duplicates, got {shown(checked)}"
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
        f"params[{name!r}] has {shown(value)}; a value must be a bool, a 64-bit int, a finite "
        "float, a str or a tuple of ints, so that it can be written in Python and C++"
    )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64
