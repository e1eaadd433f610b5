"""How many bytes a recorded call has to move, from its record alone.

Every tensor that is read counts once and every tensor that is written counts once, by the elements
that it really has: a dimension of stride 0 is one element however long it is. A view moves nothing.
What a kernel reads twice, or keeps in a buffer of its own, is not in here: this is the least that
the call must move, and where that is not known it is None.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchmark.model.trace import RecordedCall

_SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex128": 16, "complex64": 8,
    "complex32": 4, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4,
    "uint16": 2, "uint8": 1, "bool": 1, "qint8": 1, "quint8": 1, "qint32": 4,
}  # fmt: skip
"""Bytes of an element; those of float8 are known by their name."""

_WRITES_NOTHING = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
)
_WRITES_ONLY = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_", "exponential_"}
)
"""In-place operators that do not read what they overwrite."""

_GATHERS = frozenset({"embedding", "index_select", "gather", "index", "take", "_unsafe_index"})
"""Read no more of their first tensor than they write."""

_SCATTERS = frozenset(
    {"index_put_", "_index_put_impl_", "index_add_", "index_copy_", "scatter_", "scatter_add_"}
)
"""Touch no more of their first tensor than they are given for it."""

_ARGUMENT = re.compile(r"(?P<type>.+?)\s(?P<name>\w+)(?:=.*)?$")


class _Seen(NamedTuple):
    """One tensor of a call."""

    bytes: int
    storage: int | None
    is_written: bool
    is_read: bool


class _UnknownError(Exception):
    """A tensor whose size the record does not tell."""


def bytes_moved(call: RecordedCall) -> int | None:
    """The bytes that the call reads and writes; None where the record does not tell."""
    name = _name_of(call.op)
    if name in _WRITES_NOTHING:
        return 0
    if not call.has_outputs:
        return None
    try:
        arguments = list(_arguments(call))
        outputs = [
            _Seen(_size(each), each.get("storage"), True, False) for each in _tensors(call.outputs)
        ]
    except _UnknownError:
        return None
    known = {each.storage for each in arguments if each.storage is not None}
    is_changed = any(each.is_written for each in arguments)
    fresh = [each for each in outputs if each.storage is None or each.storage not in known]
    if outputs and not fresh and not is_changed:
        return 0  # a view
    written = sum(each.bytes for each in fresh)
    sizes = [each.bytes * (each.is_read + each.is_written) for each in arguments]
    if sizes and name in _GATHERS:
        sizes[0] = min(sizes[0], written)
    if sizes and name in _SCATTERS:
        sizes[0] = min(sizes[0], 2 * max(sizes[1:], default=0))
    return written + sum(sizes)


def _name_of(op: str) -> str:
    """
    >>> _name_of("aten.add_.Tensor")
    'add_'
    """
    return op.split(".")[1] if op.count(".") else op


def _arguments(call: RecordedCall) -> Iterator[_Seen]:
    """Every tensor among the arguments, with what the schema says is done to it."""
    names, written = _schema(call.schema)
    only_written = _name_of(call.op) in _WRITES_ONLY
    given = [(names[i] if i < len(names) else "", value) for i, value in enumerate(call.args)]
    for name, value in [*given, *call.kwargs.items()]:
        is_written = name in written
        is_read = not (is_written and (only_written or name.startswith("out")))
        for tensor in _tensors(value):
            yield _Seen(_size(tensor), tensor.get("storage"), is_written, is_read)


def _schema(schema: str | None) -> tuple[list[str], set[str]]:
    """The names of the arguments in their order, and of those that are changed.

    >>> _schema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")
    (['self', 'other', 'alpha'], {'self'})
    """
    names: list[str] = []
    written: set[str] = set()
    for part in _split(schema or ""):
        found = _ARGUMENT.match(part)
        if found:
            names.append(found["name"])
            written |= {found["name"]} if "!" in found["type"] else set()
    return names, written


def _split(schema: str) -> Iterator[str]:
    """What stands between the commas of the outermost parentheses."""
    depth, part = 0, ""
    for letter in schema:
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and letter == ")":
            yield part.strip()
            return
        if depth == 1 and letter == ",":
            yield part.strip()
            part = ""
        elif depth > 1 or (depth == 1 and letter != "("):
            part += letter


def _tensors(value: Any) -> Iterator[Mapping[str, Any]]:
    """The records of all tensors in a value of tagged JSON."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        if "tensor" in value:
            yield value["tensor"]
        else:
            for tag in ("tuple", "dict"):
                yield from _tensors(value.get(tag, ()))


def _size(tensor: Mapping[str, Any]) -> int:
    """Bytes of the elements that the tensor really has."""
    parts = tensor.get("parts")
    if parts is not None:
        return sum(_size(part.get("tensor", part)) for part in parts.values())
    dtype = str(tensor["dtype"])
    element = 1 if dtype.startswith("float8") else _SIZES.get(dtype)
    if element is None or "layout" in tensor:
        raise _UnknownError
    shape = tensor["shape"]
    strides = tensor.get("strides") or [1] * len(shape)
    if 0 in shape:
        return 0
    real = math.prod(int(size) for size, stride in zip(shape, strides, strict=True) if stride)
    held = tensor.get("storage_bytes")
    return real * element if held is None else min(real * element, int(held))
