"""Arguments and outputs of a node of an execution trace, as tagged JSON.

The file has a value, a type, a shape and strides for each; a tensor's value is its own id, that of
its storage, its offset, its number of elements, their size and the device. Numbers stand for
dtypes, layouts and memory formats, and only the operator's schema tells which. It stands in the
file as torch prints it, with the operator's name and what its arguments are called:
`aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`. Contents are not in the
file, and floats have six digits in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchmark.capture.traces.checking import WrongValueError
from torchmark.capture.traces.names import (
    DTYPES_BY_NUMBER,
    LAYOUTS_BY_NUMBER,
    MEMORY_FORMATS_BY_NUMBER,
    sanitize,
)
from torchmark.capture.traces.signatures import is_contiguous

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\(", re.ASCII)
_QUOTED = re.compile(r"""\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'""")
"""Text as a default, which may have commas and parentheses in it."""

_LONGEST = 10_000
"""Characters; the longest of torch's own has 1,300."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaArgument:
    """One argument."""

    name: str
    type: str
    """As it is written, with marks: "Tensor(a!)", "SymInt[]?"."""

    is_keyword_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What can be read from the text without torch."""

    op: str
    """`namespace.name.overload`."""

    arguments: tuple[SchemaArgument, ...]


def parse_schema(text: str) -> Schema | None:
    """The schema in a text; None if it is none.

    >>> schema = parse_schema("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor")
    >>> schema.op, [argument.name for argument in schema.arguments]
    ('aten.sum.default', ['self', 'dtype'])
    """
    head = _HEAD.match(text) if len(text) <= _LONGEST else None
    if head is None:
        return None
    parts = _parts(_QUOTED.sub('""', text), head.end())
    if parts is None:
        return None
    arguments = []
    is_keyword_only = False
    for part in parts:
        if part == "*":
            is_keyword_only = True
            continue
        kind, _, name = part.partition("=")[0].strip().rpartition(" ")
        arguments.append(
            SchemaArgument(name=name, type=kind.strip(), is_keyword_only=is_keyword_only)
        )
    return Schema(op=f"{head[1]}.{head[2]}.{head[3] or 'default'}", arguments=tuple(arguments))


def _parts(text: str, start: int) -> list[str] | None:
    """What stands between the commas up to the parenthesis that closes; None if none does."""
    parts = []
    depth = 0
    begin = start
    for position in range(start, len(text)):
        character = text[position]
        if character in "([":
            depth += 1
        elif character in ")]" and depth > 0:
            depth -= 1
        elif character == ")" or (character == "," and depth == 0):
            parts.append(text[begin:position].strip())
            begin = position + 1
            if character == ")":
                return [part for part in parts if part]
    return None


_TENSOR = re.compile(r"Tensor\((.*)\)")
_LIST = re.compile(r"(?:GenericList|Tuple)\[(.*)\]", re.DOTALL)
_UNDEFINED = "nullptr (uninitialized)"
_DEEPEST = 8

_DTYPES_IN_CPP = {
    "unsigned char": "uint8", "signed char": "int8", "short": "int16", "short int": "int16",
    "int": "int32", "long": "int64", "long int": "int64", "long long": "int64",
    "c10::Half": "float16", "float": "float32", "double": "float64", "c10::BFloat16": "bfloat16",
    "c10::complex<c10::Half>": "complex32", "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128", "bool": "bool",
    "unsigned short": "uint16", "short unsigned int": "uint16",
    "unsigned int": "uint32", "unsigned long": "uint64", "long unsigned int": "uint64",
}  # fmt: skip

_PLAIN_TYPES = {"Bool": bool, "Int": int, "SymInt": int, "String": str}

_ENUMERATIONS = {
    "ScalarType": ("dtype", DTYPES_BY_NUMBER),
    "Layout": ("layout", LAYOUTS_BY_NUMBER),
    "MemoryFormat": ("memory_format", MEMORY_FORMATS_BY_NUMBER),
}


class NodeValues:
    """Makes the values of one node; tensors that share a storage get the same number."""

    def __init__(self) -> None:
        self._storages: dict[Any, int] = {}

    def arguments(
        self, schema: Schema, inputs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional arguments, and those that the schema takes by name alone."""
        columns = _columns(inputs)
        if len(columns) != len(schema.arguments):
            raise WrongValueError(
                f"has {len(columns)} inputs for {len(schema.arguments)} arguments of {schema.op}"
            )
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument, column in zip(schema.arguments, columns, strict=True):
            value = _with_meaning(self._value(*column, 0), argument.type.rstrip("?"))
            if argument.is_keyword_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return args, kwargs

    def outputs(self, outputs: Mapping[str, Any]) -> Any:
        values = [self._value(*column, 0) for column in _columns(outputs)]
        if not values:
            return None
        return values[0] if len(values) == 1 else {"tuple": values}

    def _value(self, value: Any, kind: Any, shape: Any, strides: Any, depth: int) -> Any:
        if depth > _DEEPEST or not isinstance(kind, str):
            raise WrongValueError("has values nested too deeply, or without a type")
        if kind == "None":
            return None
        tensor = _TENSOR.fullmatch(kind)
        if tensor is not None:
            return self._tensor(value, tensor[1], shape, strides)
        parts = _LIST.fullmatch(kind)
        if parts is not None:
            return self._list(value, parts[1], shape, strides, depth)
        return _plain(value, kind)

    def _list(self, value: Any, kinds: str, shape: Any, strides: Any, depth: int) -> Any:
        types = _split(kinds)
        if not isinstance(value, list) or len(types) != len(value):
            return {"opaque": "a list that the file does not tell whole"}
        rows = zip(value, types, _as_list(shape, value), _as_list(strides, value), strict=True)
        return [self._value(*row, depth + 1) for row in rows]

    def _tensor(self, value: Any, kind: str, shape: Any, strides: Any) -> Any:
        if kind == _UNDEFINED:
            return None
        dtype = _dtype(kind)
        if not isinstance(value, list) or len(value) < 6 or dtype is None:
            return {"opaque": sanitize(f"Tensor({kind})", 80)}
        _, storage, offset, _, _, device = value[:6]
        if not device:  # the file has that of strided tensors alone
            return {"opaque": f"a tensor of {dtype} that is not strided"}
        tensor: dict[str, Any] = {"shape": shape, "dtype": dtype}
        if device != "cpu":
            tensor["device"] = device
        if _are_sizes(shape) and _are_sizes(strides):
            if len(shape) != len(strides):
                raise WrongValueError(f"has {len(strides)} strides for {len(shape)} sizes")
            if not is_contiguous(shape, strides):
                tensor["strides"] = strides
        if offset:
            tensor["offset"] = offset
        if isinstance(storage, int):
            tensor["storage"] = self._storages.setdefault(storage, len(self._storages))
        return {"tensor": tensor}


def _columns(side: Mapping[str, Any]) -> list[tuple[Any, Any, Any, Any]]:
    """Value, type, shape and strides of each; early files have no strides."""
    values, types, shapes = (side.get(key) for key in ("values", "types", "shapes"))
    if not all(isinstance(part, list) for part in (values, types, shapes)):
        raise WrongValueError("has inputs or outputs without values, types and shapes")
    assert isinstance(values, list), "just seen"
    strides = side.get("strides")
    if not isinstance(strides, list):
        strides = [None] * len(values)
    try:
        return list(zip(values, types or [], shapes or [], strides, strict=True))
    except ValueError as error:
        raise WrongValueError(
            "does not have as many values as types, shapes and strides"
        ) from error


def _plain(value: Any, kind: str) -> Any:
    if kind in ("Double", "SymFloat"):
        return _float(value)
    if type(value) is _PLAIN_TYPES.get(kind):
        return value
    if kind == "Device" and isinstance(value, str):
        return {"device": value}
    if kind == "Generator":
        return {"generator": "cpu"}
    return {"opaque": sanitize(kind, 80)}


def _float(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if abs(value) < float("inf") else {"opaque": "Double"}
    return {"float": value} if value in ("inf", "-inf", "nan") else {"opaque": "Double"}


def _with_meaning(value: Any, kind: str) -> Any:
    """A number where the schema has a dtype, a layout or a memory format, by its name."""
    if kind not in _ENUMERATIONS or not isinstance(value, int) or isinstance(value, bool):
        return value
    tag, names = _ENUMERATIONS[kind]
    return {tag: names[value]} if 0 <= value < len(names) else {"opaque": f"{kind} {value}"}


def _dtype(kind: str) -> str | None:
    if kind in _DTYPES_IN_CPP:
        return _DTYPES_IN_CPP[kind]
    name = kind.removeprefix("c10::").lower()
    return name if name in DTYPES_BY_NUMBER else None


def _split(kinds: str) -> list[str]:
    """
    >>> _split("Int,GenericList[Int,Int],Tensor(c10::complex<float>)")
    ['Int', 'GenericList[Int,Int]', 'Tensor(c10::complex<float>)']
    """
    parts = [""]
    depth = 0
    for character in kinds:
        depth += (character in "([<") - (character in ")]>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if kinds else []


def _as_list(shape: Any, value: list[Any]) -> list[Any]:
    return shape if isinstance(shape, list) and len(shape) == len(value) else [None] * len(value)


def _are_sizes(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int for number in numbers)
