"""Read the arguments and outputs of a node of an execution trace, as tagged JSON.

For each, the file has a value, a type, a shape and strides. The value of a tensor is a list: its
id, the id of its storage, its offset, its number of elements, their size and the device. Dtypes,
layouts and memory formats are numbers, which only the operator's schema tells apart. The file has
the schema as torch prints it, with the names of the operator and its arguments:
`aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`. The file has no contents
of tensors, and floats have six digits.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from msgspec import Struct

from torchmark.capture.traces.checking import (
    NAMES_BY_NUMBER,
    WrongValueError,
    convert,
    sanitize,
    tag_float,
)
from torchmark.capture.traces.signatures import is_contiguous

_LONGEST_SCHEMA = 10_000
"""Characters; the longest schema of torch has 1,300."""

_DEEPEST = 8

_HEAD = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\(", re.ASCII)
_QUOTED = re.compile(r"""\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'""")
"""A default value that is text; it may contain commas and parentheses."""

_TENSOR = re.compile(r"Tensor\((.*)\)")
_LIST = re.compile(r"(?:GenericList|Tuple)\[(.*)\]", re.DOTALL)
_UNDEFINED = "nullptr (uninitialized)"

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

_ENUMERATIONS = {"ScalarType": "dtype", "Layout": "layout", "MemoryFormat": "memory_format"}


class SchemaArgument(NamedTuple):
    """One argument."""

    name: str
    type: str
    """The type as it is written, with marks: "Tensor(a!)", "SymInt[]?"."""

    is_keyword_only: bool


class Schema(NamedTuple):
    """What the text of a schema says, read without torch."""

    op: str
    """`namespace.name.overload`."""

    arguments: list[SchemaArgument]


def parse_schema(text: str) -> Schema | None:
    """The schema in a text; None if the text is not a schema.

    >>> schema = parse_schema("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor")
    >>> schema.op, [argument.name for argument in schema.arguments]
    ('aten.sum.default', ['self', 'dtype'])
    """
    head = _HEAD.match(text) if len(text) <= _LONGEST_SCHEMA else None
    inputs, arrow, _ = _QUOTED.sub('""', text).partition(") -> ")
    if head is None or not arrow:
        return None
    arguments = []
    is_keyword_only = False
    for part in _split_at_commas(inputs[head.end() :]):
        if part.strip() == "*":
            is_keyword_only = True
            continue
        kind, _, name = part.partition("=")[0].strip().rpartition(" ")
        arguments.append(SchemaArgument(name, kind.strip(), is_keyword_only))
    return Schema(f"{head[1]}.{head[2]}.{head[3] or 'default'}", arguments)


class _Side(Struct, frozen=True):
    """The inputs or outputs of a node."""

    values: list[Any]
    types: list[str]
    shapes: list[Any]
    strides: list[Any] | None = None
    """None in early versions of the format."""


class NodeValues:
    """Reads the values of one node. Tensors that share a storage get the same storage number."""

    def __init__(self) -> None:
        self._storages: dict[Any, int] = {}

    def arguments(self, schema: Schema, inputs: Any) -> tuple[list[Any], dict[str, Any]]:
        """The positional arguments, and those that the schema takes by keyword only."""
        values = self._values(inputs, "inputs")
        if len(values) != len(schema.arguments):
            raise WrongValueError(
                f"has {len(values)} inputs for {len(schema.arguments)} arguments of {schema.op}"
            )
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument, value in zip(schema.arguments, values, strict=True):
            named = _name_number(value, argument.type.rstrip("?"))
            if argument.is_keyword_only:
                kwargs[argument.name] = named
            else:
                args.append(named)
        return args, kwargs

    def outputs(self, outputs: Any) -> Any:
        values = self._values(outputs, "outputs")
        if not values:
            return None
        return values[0] if len(values) == 1 else {"tuple": values}

    def _values(self, content: Any, name: str) -> list[Any]:
        side: _Side = convert(content, _Side, f"list of {name}")
        strides = [None] * len(side.values) if side.strides is None else side.strides
        try:
            rows = list(zip(side.values, side.types, side.shapes, strides, strict=True))
        except ValueError as error:
            raise WrongValueError(
                "does not have as many values as types, shapes and strides"
            ) from error
        return [self._value(*row, 0) for row in rows]

    def _value(self, value: Any, kind: str, shape: Any, strides: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise WrongValueError("has values nested too deeply")
        if kind == "None":
            return None
        if tensor := _TENSOR.fullmatch(kind):
            return self._tensor(value, tensor[1], shape, strides)
        if parts := _LIST.fullmatch(kind):
            return self._list(value, parts[1], shape, strides, depth)
        return _plain_value(value, kind)

    def _list(self, value: Any, kinds: str, shape: Any, strides: Any, depth: int) -> Any:
        types = _split_at_commas(kinds)
        if not isinstance(value, list) or len(types) != len(value):
            return {"opaque": "an incomplete list"}
        rows = zip(value, types, _as_list(shape, value), _as_list(strides, value), strict=True)
        return [self._value(*row, depth + 1) for row in rows]

    def _tensor(self, value: Any, kind: str, shape: Any, strides: Any) -> Any:
        if kind == _UNDEFINED:
            return None
        dtype = _dtype(kind)
        if not isinstance(value, list) or len(value) < 6 or dtype is None:
            return {"opaque": sanitize(f"Tensor({kind})", 80)}
        _, storage, offset, _, _, device = value[:6]
        if not device:  # the file has a device for strided tensors only
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


def _plain_value(value: Any, kind: str) -> Any:
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
    if isinstance(value, float):
        return tag_float(value)
    if type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    return {"float": value} if value in ("inf", "-inf", "nan") else {"opaque": "Double"}


def _name_number(value: Any, kind: str) -> Any:
    """The name of a dtype, layout or memory format, if the schema says that the number is one."""
    if kind not in _ENUMERATIONS or type(value) is not int:
        return value
    tag = _ENUMERATIONS[kind]
    names = NAMES_BY_NUMBER[tag]
    return {tag: names[value]} if 0 <= value < len(names) else {"opaque": f"{kind} {value}"}


def _dtype(kind: str) -> str | None:
    if kind in _DTYPES_IN_CPP:
        return _DTYPES_IN_CPP[kind]
    name = kind.removeprefix("c10::").lower()
    return name if name in NAMES_BY_NUMBER["dtype"] else None


def _split_at_commas(text: str) -> list[str]:
    """The parts of a text between the commas that are not inside brackets.

    >>> _split_at_commas("Int,GenericList[Int,Int],Tensor(c10::complex<float>)")
    ['Int', 'GenericList[Int,Int]', 'Tensor(c10::complex<float>)']
    """
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if text else []


def _as_list(shape: Any, value: list[Any]) -> list[Any]:
    return shape if isinstance(shape, list) and len(shape) == len(value) else [None] * len(value)


def _are_sizes(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int for number in numbers)
