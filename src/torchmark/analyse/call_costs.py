"""The bytes that a recorded call must move, and what its time is spent on: work or overhead.

*Bytes.* Each tensor that is read or written counts once, with the elements that it really has: a
dimension with stride 0 is one element. A view moves nothing. This is the least that a call must
move: it does not include what a kernel reads twice or keeps in a buffer. It is None if the record
does not have the sizes.

*Time.* It is compared with the best speed of the machine, measured in the same run.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from torchmark.capture.traces.chakra_values import parse_schema
from torchmark.model.trace import RecordedCall

if TYPE_CHECKING:
    from torchmark.model.run import MachineSpeeds

WORK_FROM = 0.5
"""A call is work if the machine's best speed explains at least this share of its time."""

MOST_OVERHEAD = 20
"""A call of up to 20 times the time of the smallest call can be overhead: no operator had longer
fixed costs. A longer call that bytes and FLOPs do not explain computes something else."""

_SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex128": 16, "complex64": 8,
    "complex32": 4, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4,
    "uint16": 2, "uint8": 1, "bool": 1, "qint8": 1, "quint8": 1, "qint32": 4,
}  # fmt: skip
"""Bytes of an element; float8 dtypes are recognised by their name."""

_WRITES_NOTHING = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
)
_WRITES_ONLY = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_", "exponential_"}
)
"""In-place operators that do not read what they overwrite."""

_GATHERS = frozenset({"embedding", "index_select", "gather", "index", "take", "_unsafe_index"})
"""Operators that read no more of their first tensor than they write."""

_SCATTERS = frozenset(
    {"index_put_", "_index_put_impl_", "index_add_", "index_copy_", "scatter_", "scatter_add_"}
)
"""Operators that read and write no more of their first tensor than the size of their inputs."""


class Nature(enum.Enum):
    """What the time of a call is spent on."""

    WORK = "work"
    """Its bytes or FLOPs need at least half of the time at the machine's best speed."""

    OVERHEAD = "overhead"
    """They need less than half, and the call is short: dispatch, checks, allocation."""

    SLOW = "slow"
    """They need less than half, and the call is long: it computes what is not counted (sines,
    sorting), or is slower than a plain copy or matrix product."""


def explain_time(
    seconds: float,
    call: RecordedCall,
    moved: int | None,
    flops: int | None,
    speeds: MachineSpeeds,
) -> tuple[float | None, Nature | None]:
    """The part of a call's time that its bytes or FLOPs need (at most 1), and its nature.

    None if neither bytes nor FLOPs are known.
    """
    needed = seconds_needed(call, moved, flops, speeds)
    if needed is None:
        return None, None
    explained = min(1.0, needed / seconds) if seconds else 1.0
    if explained >= WORK_FROM:
        return explained, Nature.WORK
    is_short = seconds <= MOST_OVERHEAD * speeds.small_call_seconds
    return explained, Nature.OVERHEAD if is_short else Nature.SLOW


def seconds_needed(
    call: RecordedCall, moved: int | None, flops: int | None, speeds: MachineSpeeds
) -> float | None:
    """The longer of the times that bytes and FLOPs need at the machine's best speed.

    The speed for bytes is that of a copy of the same size: small copies stay in a cache and are
    faster.
    """
    needed = []
    if moved is not None and speeds.bytes_per_second:
        needed.append(moved / _copy_speed(moved, speeds.bytes_per_second))
    speed = speeds.flops_per_second.get(computed_type(call))
    if flops is not None and speed:
        needed.append(flops / speed)
    return max(needed, default=None)


def computed_type(call: RecordedCall) -> str:
    """The dtype of its first tensor; "" if it has no tensor."""
    for value in (*call.args, *call.kwargs.values()):
        if isinstance(value, dict) and "tensor" in value:
            return str(value["tensor"]["dtype"])
    return ""


def _copy_speed(moved: int, measured: Mapping[int, float]) -> float:
    """Bytes per second for a size, interpolated between measured sizes on a log scale.

    >>> _copy_speed(1000, {100: 8.0, 10_000: 4.0}), _copy_speed(1, {100: 8.0, 10_000: 4.0})
    (6.0, 8.0)
    """
    sizes = sorted(measured)
    if moved <= sizes[0]:
        return measured[sizes[0]]
    for low, high in pairwise(sizes):
        if moved <= high:
            place = math.log(moved / low) / math.log(high / low)
            return measured[low] + place * (measured[high] - measured[low])
    return measured[sizes[-1]]


class _Seen(NamedTuple):
    """One tensor of a call."""

    bytes: int
    storage: int | None
    is_written: bool
    is_read: bool


class _UnknownError(Exception):
    """The record does not have the size of a tensor."""


def bytes_moved(call: RecordedCall) -> int | None:
    """The bytes that the call reads and writes; None if the record does not have the sizes."""
    name = _name_of(call.op)
    if name in _WRITES_NOTHING:
        return 0
    if call.outputs is UNSET:
        return None
    try:
        arguments = list(_arguments(call))
        outputs = [
            _Seen(_size(each), each.get("storage"), True, False)
            for each in tensors_in(call.outputs)
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
    """Each tensor in the arguments, with whether the schema says it is read or written."""
    schema = parse_schema(call.schema or "")
    arguments = schema.arguments if schema is not None else []
    names = [argument.name for argument in arguments]
    written = {argument.name for argument in arguments if "!" in argument.type}
    only_written = _name_of(call.op) in _WRITES_ONLY
    given = [(names[i] if i < len(names) else "", value) for i, value in enumerate(call.args)]
    for name, value in [*given, *call.kwargs.items()]:
        is_written = name in written
        is_read = not (is_written and (only_written or name.startswith("out")))
        for tensor in tensors_in(value):
            yield _Seen(_size(tensor), tensor.get("storage"), is_written, is_read)


def tensors_in(value: Any) -> Iterator[Mapping[str, Any]]:
    """The records of all tensors in a tagged JSON value."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        if "tensor" in value:
            yield value["tensor"]
        else:
            for tag in ("tuple", "dict"):
                yield from tensors_in(value.get(tag, ()))


def _size(tensor: Mapping[str, Any]) -> int:
    """Bytes of the elements that the tensor really has; stride 0 counts as one element."""
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
