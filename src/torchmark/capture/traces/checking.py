"""Values of a call, checked: tagged JSON as docs/trace-format.md has it, and nothing else.

A trace is data that anybody may have written. What passes here has the types, signs and names that
the format promises; how large a tensor is does not matter here, as none is made.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads it
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from torchmark.capture.traces.names import sanitize

_DEEPEST = 32
"""Values within values; torch's own operators have lists of lists at most."""

_LARGEST = 2**63 - 1
"""Sizes, strides and counts are signed numbers of 64 bits everywhere in torch."""

Size = Annotated[int, Meta(ge=0, le=_LARGEST)]
Count = Annotated[int, Meta(ge=1, le=_LARGEST)]

Word = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]*\Z", max_length=200)]
"""The name of a dtype, a layout or a memory format."""

Device = Annotated[str, Meta(pattern=r"\A[a-z][a-z_]*(:[0-9]{1,4})?\Z", max_length=200)]

SpecialFloat = Literal["inf", "-inf", "nan"]
"""What JSON has no numbers for."""

T = TypeVar("T")


class WrongValueError(ValueError):
    """Something in a line that the format does not allow; whoever knows the line catches it."""


class _Float(Struct, frozen=True, forbid_unknown_fields=True):
    float_: SpecialFloat = msgspec.field(name="float")


class _Bound(Struct, frozen=True, forbid_unknown_fields=True):
    float_: SpecialFloat | UnsetType = msgspec.field(name="float", default=UNSET)
    complex_: tuple[int | float | _Float, int | float | _Float] | UnsetType = msgspec.field(
        name="complex", default=UNSET
    )

    def __post_init__(self) -> None:
        if (self.float_ is UNSET) == (self.complex_ is UNSET):
            raise ValueError("expected a float or a complex number")


class Content(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a tensor's content: bounds, counts and flags, and a short list."""

    min: int | float | _Bound | UnsetType = UNSET
    max: int | float | _Bound | UnsetType = UNSET
    sum: int | float | _Bound | UnsetType = UNSET
    distinct: Size | UnsetType = UNSET
    true: Size | UnsetType = UNSET
    nonfinite: bool | UnsetType = UNSET
    symmetric: bool | UnsetType = UNSET
    offsets: bool | UnsetType = UNSET
    order: Literal["ascending", "descending", "none"] | UnsetType = UNSET

    list_: Annotated[list[int | bool], Meta(max_length=64)] | UnsetType = msgspec.field(
        name="list", default=UNSET
    )
    """The elements of a small tensor."""


class Tensor(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor as a trace describes it."""

    shape: list[Size]
    dtype: Word
    device: Device | UnsetType = UNSET
    strides: list[Size] | UnsetType = UNSET
    offset: Size | UnsetType = UNSET
    storage: Size | UnsetType = UNSET
    storage_bytes: Size | UnsetType = UNSET
    requires_grad: bool | UnsetType = UNSET
    parameter: bool | UnsetType = UNSET
    conj: bool | UnsetType = UNSET
    neg: bool | UnsetType = UNSET
    layout: Word | UnsetType = UNSET
    parts: Mapping[Word, Tensor] | UnsetType = UNSET
    coalesced: bool | UnsetType = UNSET
    values: Content | UnsetType = UNSET
    exact: Annotated[str, Meta(pattern=r"\A[0-9]+\.[0-9]+\Z", max_length=40)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.strides is not UNSET and len(self.strides) != len(self.shape):
            raise ValueError(f"{len(self.shape)} sizes and {len(self.strides)} strides")


_TYPES: dict[str, Any] = {
    "tensor": Tensor,
    "tuple": list[Any],
    "dict": list[tuple[Any, Any]],
    "float": SpecialFloat,
    "complex": tuple[int | float | _Float, int | float | _Float],
    "dtype": Word,
    "device": Device,
    "layout": Word,
    "memory_format": Word,
    "generator": Device,
    "opaque": str,
}
"""What stands behind each tag."""


def check_value(value: Any, depth: int = 0) -> Any:
    """The value itself, if it is tagged JSON."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth >= _DEEPEST:
        raise WrongValueError(f"has values nested deeper than {_DEEPEST}")
    if isinstance(value, list):
        for part in value:
            check_value(part, depth + 1)
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise WrongValueError("has a value that is not an object with one key")
    tag, content = next(iter(value.items()))
    if tag not in _TYPES:
        raise WrongValueError(f"has a value of the unknown kind {sanitize(repr(tag), 80)}")
    convert(content, _TYPES[tag], tag)
    if tag in ("tuple", "dict"):
        check_value(content, depth + 1)
    return value


def convert(value: Any, kind: type[T] | Any, what: str) -> T:
    """The value as this type; an error that names what is wrong, and where in it."""
    try:
        converted: T = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        where = f"{place.strip('`').lstrip('.')}: " if place.strip("`") else ""
        reason = f"{where}{said[0].lower()}{said[1:]}"
        raise WrongValueError(f"has a wrong {what} ({sanitize(reason, 200)})") from error
    except RecursionError as error:
        raise WrongValueError(f"has a {what} that is nested too deeply") from error
    return converted
