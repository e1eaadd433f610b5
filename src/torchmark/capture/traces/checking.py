"""Check the names, values and calls of a trace, as docs/reference/trace-format.md defines them.

A trace is data that anybody may have written. A name that is used in a look-up must have the form
of such a name, or the file is refused. Text that is only shown is sanitized. Everything that passes
has the types, signs and names of the format. Tensors may have any size, because none is created
here. Some traces have numbers or short names for dtypes, layouts and memory formats; the tables at
the end have torch's names for them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from torchmark.model.trace import RecordedCall, Size

_LONGEST_NAME = 200
"""The longest name of torch's operators has 61 characters."""

_LONGEST_TEXT = 2_000
"""Characters of text that is only shown: module paths, commands, sentences."""

_DEEPEST = 32
"""Levels of nested values. torch's operators have lists of lists at most."""

_LARGEST_RECORDS = 128 * 2**20
"""Bytes of all lines that are kept as objects: calls and places. In memory they take about ten
times as much. A model whose shapes never repeat has about a kilobyte for each distinct call."""

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_OPERATOR = re.compile(rf"({_IDENTIFIER})\.({_IDENTIFIER})\.({_IDENTIFIER})")

_OPERATORS_IN_UNDERSCORES = frozenset(
    f"__{name}__"
    for name in (
        "and", "iand", "or", "ior", "xor", "ixor", "lshift", "ilshift", "rshift", "irshift",
        "contains", "getitem", "is", "isnot", "not", "round_to_zero_floordiv",
    )
)  # fmt: skip
"""aten's own; every other name of this form is an attribute of Python."""

Word = Annotated[str, Meta(pattern=r"\A_?[a-z][a-z0-9_]*\Z", max_length=_LONGEST_NAME)]
"""The name of a dtype, a layout (`_mkldnn` is one) or a memory format."""

Device = Annotated[str, Meta(pattern=r"\A[a-z][a-z_]*(:[0-9]{1,4})?\Z", max_length=_LONGEST_NAME)]

SpecialFloat = Literal["inf", "-inf", "nan"]
"""Floats that JSON cannot write as numbers."""

T = TypeVar("T")


class WrongValueError(ValueError):
    """A value that the format does not allow; the caller adds the file and the line."""


def sanitize(text: str, longest: int = _LONGEST_TEXT) -> str:
    r"""Make text safe to print: no control or direction characters, and a limited length.

    >>> sanitize("a\x1b[31m\nb"), sanitize("abcdef", longest=4)
    ('a?[31m?b', 'abc…')
    """
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(each if each.isprintable() else "?" for each in shown)


def tag_float(number: float) -> Any:
    """A float as tagged JSON.

    >>> tag_float(1.5), tag_float(float("-inf"))
    (1.5, {'float': '-inf'})
    """
    return number if math.isfinite(number) else {"float": str(number)}


def is_operator(name: str) -> bool:
    """Whether it has the form of an operator with its overload.

    >>> is_operator("aten.add.Tensor"), is_operator("aten.__and__.Scalar")
    (True, True)
    >>> is_operator("os.system"), is_operator("aten.__class__.default")
    (False, False)
    """
    match = _OPERATOR.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    if match is None:
        return False
    namespace, operator, overload = match.groups()
    return not (
        _is_of_python(namespace)
        or _is_of_python(overload)
        or (_is_of_python(operator) and operator not in _OPERATORS_IN_UNDERSCORES)
    )


def _is_keyword(name: str) -> bool:
    """Whether the name can be that of an operator's argument."""
    has_the_form = len(name) <= _LONGEST_NAME and re.fullmatch(_IDENTIFIER, name) is not None
    return has_the_form and not _is_of_python(name)


def _is_of_python(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class _Float(Struct, frozen=True, forbid_unknown_fields=True):
    float_: SpecialFloat = msgspec.field(name="float")


_Complex = tuple[int | float | _Float, int | float | _Float]


class _Bound(Struct, frozen=True, forbid_unknown_fields=True):
    float_: SpecialFloat | UnsetType = msgspec.field(name="float", default=UNSET)
    complex_: _Complex | UnsetType = msgspec.field(name="complex", default=UNSET)

    def __post_init__(self) -> None:
        if (self.float_ is UNSET) == (self.complex_ is UNSET):
            raise ValueError("expected a float or a complex number")


class _Content(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known about a tensor's content: bounds, counts, flags and a short list."""

    min: int | float | _Bound | UnsetType = UNSET
    max: int | float | _Bound | UnsetType = UNSET
    sum: int | float | _Bound | UnsetType = UNSET
    distinct: Size | UnsetType = UNSET
    true: Size | UnsetType = UNSET
    nonfinite: bool | UnsetType = UNSET
    symmetric: bool | UnsetType = UNSET
    offsets: bool | UnsetType = UNSET
    order: Literal["ascending", "descending", "none"] | UnsetType = UNSET
    apart: Annotated[list[tuple[int, Size]], Meta(max_length=2)] | UnsetType = UNSET
    rest: tuple[int, int] | UnsetType = UNSET

    list_: Annotated[list[int | bool], Meta(max_length=64)] | UnsetType = msgspec.field(
        name="list", default=UNSET
    )
    """The elements of a small tensor."""


class _Tensor(Struct, frozen=True, forbid_unknown_fields=True):
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
    parts: Mapping[Word, dict[str, Any]] | UnsetType = UNSET
    coalesced: bool | UnsetType = UNSET
    values: _Content | UnsetType = UNSET
    exact: Annotated[str, Meta(pattern=r"\A[0-9]+\.[0-9]+\Z", max_length=40)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.strides is not UNSET and len(self.strides) != len(self.shape):
            raise ValueError(f"{len(self.shape)} sizes and {len(self.strides)} strides")
        if self.parts is not UNSET:
            for part in self.parts.values():  # a capture tags them, the importers do not
                convert(part.get("tensor", part), _Tensor, "part")


_TYPES: dict[str, Any] = {
    "tensor": _Tensor,
    "tuple": list[Any],
    "dict": list[tuple[Any, Any]],
    "float": SpecialFloat,
    "complex": _Complex,
    "dtype": Word,
    "device": Device,
    "layout": Word,
    "memory_format": Word,
    "generator": Device,
    "opaque": str,
}
"""The type of the content of each tag."""


def check_call(body: Any) -> RecordedCall:
    """The call in the body of a `call` line. Raise a WrongValueError if it is not one."""
    call: RecordedCall = convert(body, RecordedCall, "call")
    check_names(call.op, call.kwargs)
    outputs = () if call.outputs is UNSET else (call.outputs,)
    for value in (*call.args, *call.kwargs.values(), *outputs):
        _check_value(value)
    if call.schema is None:
        return call
    return msgspec.structs.replace(call, schema=sanitize(call.schema))


def check_names(op: str, arguments: Iterable[str]) -> None:
    """Raise a WrongValueError unless a trace can name this operator and these arguments."""
    if not is_operator(op):
        raise WrongValueError(
            f"has an operator {sanitize(repr(op), 80)}, which is not a name like aten.add.Tensor"
        )
    wrong = next((name for name in arguments if not _is_keyword(name)), None)
    if wrong is not None:
        raise WrongValueError(
            f"has an argument {sanitize(repr(wrong), 80)}, which is not a valid name"
        )


def _check_value(value: Any, depth: int = 0) -> None:
    """Raise a WrongValueError unless the value is tagged JSON."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return
    if depth >= _DEEPEST:
        raise WrongValueError(f"has values nested deeper than {_DEEPEST}")
    if isinstance(value, list):
        for part in value:
            _check_value(part, depth + 1)
        return
    if not isinstance(value, dict) or len(value) != 1:
        raise WrongValueError("has a value that is not an object with one key")
    tag, content = next(iter(value.items()))
    if tag not in _TYPES:
        raise WrongValueError(f"has a value of the unknown kind {sanitize(repr(tag), 80)}")
    convert(content, _TYPES[tag], tag)
    if tag in ("tuple", "dict"):
        _check_value(content, depth + 1)


def convert(value: Any, kind: type[T] | Any, what: str) -> T:
    """The value as this type. The error of a wrong value says what is wrong, and where."""
    try:
        converted: T = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        where = f"{place.strip('`').lstrip('.')}: " if place.strip("`") else ""
        reason = f"{where}{said[0].lower()}{said[1:]}"
        raise WrongValueError(f"has a wrong {what} ({sanitize(reason, 200)})") from error
    except RecursionError as error:
        raise WrongValueError(f"has a {what} that is nested too deeply") from error
    except UnicodeError as error:
        raise WrongValueError(f"has a {what} with an incomplete character") from error
    return converted


def check_record_bytes(total: int) -> None:
    if total > _LARGEST_RECORDS:
        raise WrongValueError(f"makes more than {_LARGEST_RECORDS // 2**20} MiB of distinct calls")


class DistinctCalls:
    """The calls of an imported trace. Each is checked, and kept once."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self._numbers: dict[str, int] = {}
        self._bytes = 0

    def number_of(self, body: dict[str, Any]) -> int:
        """The number of the call with this body, as in a `call` line."""
        key = json.dumps(body, sort_keys=True)
        if key not in self._numbers:
            self._bytes += len(key)
            check_record_bytes(self._bytes)
            self._numbers[key] = len(self.calls)
            self.calls.append(check_call(body))
        return self._numbers[key]


NAMES_BY_NUMBER: dict[str, tuple[str, ...]] = {
    "dtype": (
        "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
        "complex32", "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16",
        "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16",
        "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz",
        "uint16", "uint32", "uint64",
        "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
        "int1", "int2", "int3", "int4", "int5", "int6", "int7",
        "float8_e8m0fnu", "float4_e2m1fn_x2",
    ),
    "layout": (
        "strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc",
        "jagged",
    ),
    "memory_format": ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"),
}  # fmt: skip
"""The names by torch's numbers in C++; new ones were only ever added at the end."""

_ALIASES = {
    "half": "float16", "float": "float32", "double": "float64",
    "cfloat": "complex64", "cdouble": "complex128",
    "short": "int16", "int": "int32", "long": "int64",
}  # fmt: skip
"""Second names of dtypes in torch."""


def tag_attribute(name: str) -> dict[str, Any]:
    """`torch.NAME` as tagged JSON; opaque if a trace has no tag for it.

    >>> tag_attribute("bool"), tag_attribute("strided"), tag_attribute("load")
    ({'dtype': 'bool'}, {'layout': 'strided'}, {'opaque': 'torch.load'})
    """
    name = _ALIASES.get(name, name)
    for tag, names in NAMES_BY_NUMBER.items():
        if name in names:
            return {tag: name}
    return {"opaque": f"torch.{name}"}
