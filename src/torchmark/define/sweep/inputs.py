"""The inputs of a model: the dimensions of each, by name, and what its elements are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchmark.errors import DefinitionError

FLOATING = "floating"
"""Elements of the job config's dtype, drawn from a normal distribution."""

INTEGERS = ("int64", "int32")
"""Elements that are drawn evenly from 0 up to `below`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input."""

    dims: tuple[str | int, ...]
    """The name of a dimension, or a size that is always the same."""

    dtype: str = FLOATING
    below: str | int | None = None
    """Of integers: all are smaller; the name of a dimension or a number."""

    @property
    def names(self) -> tuple[str, ...]:
        """Dimensions that must have sizes for this input to be made."""
        return tuple(name for name in (*self.dims, self.below) if isinstance(name, str))

    def shape(self, sizes: Mapping[str, int]) -> list[int]:
        return [sizes[dim] if isinstance(dim, str) else dim for dim in self.dims]


def indices(*dims: str | int, below: str | int, dtype: str = "int64") -> dict[str, Any]:
    """An input of integers from 0 up to `below`, such as the rows of a table.

    >>> indices("batch", "bag", below="rows")
    {'dims': ['batch', 'bag'], 'dtype': 'int64', 'below': 'rows'}
    """
    return {"dims": list(dims), "dtype": dtype, "below": below}


def inputs_of(given: Any) -> tuple[Input, ...]:
    """What `input_params` says; an error says which input."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise DefinitionError(
            f"input_params is {given!r}; write a list with one list of dimension names for each "
            'input: [["batch", "features"]]'
        )
    return tuple(_input(number, each) for number, each in enumerate(given, start=1))


def _input(number: int, given: Any) -> Input:
    if isinstance(given, Mapping):
        return _described(number, given)
    return Input(dims=_dims(number, given))


def _described(number: int, given: Mapping[str, Any]) -> Input:
    unknown = [name for name in given if name not in ("dims", "dtype", "below")]
    dtype, below = given.get("dtype", FLOATING), given.get("below")
    if unknown or "dims" not in given:
        raise DefinitionError(
            f"input {number} of input_params is {dict(given)!r}; "
            "it has dims, and may have dtype and below"
        )
    dtype = str(dtype).removeprefix("torch.")
    if dtype not in (FLOATING, *INTEGERS):
        raise DefinitionError(
            f"input {number} of input_params has the dtype {dtype!r}; "
            f"there are {', '.join(INTEGERS)}, or none for the job config's own"
        )
    if (dtype in INTEGERS) != (below is not None):
        raise DefinitionError(
            f"input {number} of input_params has the dtype {dtype} and below={below!r}; "
            "integers need below, others do not know it"
        )
    if below is not None and not _is_dim(below):
        raise DefinitionError(
            f"input {number} of input_params has below={below!r}; "
            "write the name of a dimension or a number from 1 on"
        )
    return Input(dims=_dims(number, given["dims"]), dtype=dtype, below=below)


def _dims(number: int, given: Any) -> tuple[str | int, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DefinitionError(
            f"input {number} of input_params is {given!r}; "
            'write the names of its dimensions: ["batch", "features"]'
        )
    for dim in given:
        if not _is_dim(dim):
            raise DefinitionError(
                f"input {number} of input_params has the dimension {dim!r}; "
                "write a name or a size from 1 on"
            )
    return tuple(given)


def _is_dim(dim: Any) -> bool:
    if isinstance(dim, str):
        return bool(dim)
    return isinstance(dim, int) and not isinstance(dim, bool) and dim >= 1
