"""Resolves what a record contains: tagged JSON, and names of operators, types and devices.

A name in a trace may come from anybody. It is only looked up among operators, or among the members
of `torch` of one type, so it can never reach a function, a module or any other attribute. Operators
that take the name of a file are refused.

If a record is not valid, or cannot be recreated here, the error is a sentence for a row of a table.
"""

import contextlib
import functools
import importlib
import re
from typing import Any, Callable, Dict, Iterator, List

import torch

from torchmark_probe.zygote.handlers import UnsupportedError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEVICE = re.compile(r"([a-z][a-z0-9_]*)(:[0-9]{1,3})?\Z")
_SHOWN = 100
"""Maximum characters of a name in an error."""

_NAMESPACE_TYPE: Any = type(torch.ops.aten)
_PACKET_TYPE: Any = type(torch.ops.aten.add)
_OVERLOAD_TYPE: Any = type(torch.ops.aten.add.Tensor)


class CannotRebuildError(UnsupportedError):
    """A recorded call cannot be recreated; the sentence says why."""


class DamagedRecordError(CannotRebuildError):
    """The record is not valid: a negative size, strides beyond the memory, no JSON."""


class UnknownOperatorError(CannotRebuildError):
    """The installed torch lacks the operator, or traces may not use it."""


def shown(value: Any) -> str:
    """Return a value of the record for use in a sentence, shortened if it is long."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


_REGISTERED_BY = {
    "prims": "torch._prims",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torch_nn": "torch.nn.modules.linear_cross_entropy",
}
"""Modules of torch that must be imported for these operators, as `import torch` does not."""

_OWN_NAMESPACES = ("aten", "prim", *_REGISTERED_BY)
"""torch's own namespaces: no other module can define an operator that is missing there."""

_FILE_NAMESPACES = ("debugprims",)
"""Their operators read files, without an argument called filename."""


def operator_named(name: Any) -> Any:
    """Return the operator with a name like "aten.add.Tensor"."""
    parts = name.split(".") if isinstance(name, str) else []
    if len(parts) != 3 or not all(_IDENTIFIER.match(part) for part in parts):
        raise UnknownOperatorError(
            f"{shown(name)} is not an operator name, such as aten.add.Tensor"
        )
    if parts[0] in _REGISTERED_BY:
        with contextlib.suppress(ImportError):  # an older torch
            importlib.import_module(_REGISTERED_BY[parts[0]])
    namespace = _member(torch.ops, parts[0], _NAMESPACE_TYPE)
    packet = _member(namespace, parts[1], _PACKET_TYPE)
    is_known = packet is not None and parts[2] in packet.overloads()
    operator = _member(packet, parts[2], _OVERLOAD_TYPE) if is_known else None
    if operator is None:
        known = shown(name).strip("'")
        raise UnknownOperatorError(
            f"torch {torch.__version__} has no operator {known}"
            if parts[0] in _OWN_NAMESPACES
            else f"torch.ops has no {known}: name the module that defines it with --import "
            f"(e.g. --import {parts[0]})"
        )
    if "filename" in argument_names(operator) or parts[0] in _FILE_NAMESPACES:
        raise UnknownOperatorError(f"{shown(name)} works on files, which a trace may not do")
    return operator


def _member(of: Any, name: str, kind: Any) -> Any:
    """Return the attribute with this name, if it has this type."""
    try:
        found = getattr(of, name, None)
    except RuntimeError:  # torch raises this for some unknown names
        return None
    return found if isinstance(found, kind) else None


def argument_names(operator: Any) -> List[str]:
    schema = operator._schema  # noqa: SLF001 - there is no public way
    return [argument.name for argument in schema.arguments]


def _of_torch(name: Any, kind: Any, what: str) -> Any:
    value = vars(torch).get(name) if isinstance(name, str) else None
    if not isinstance(value, kind):
        raise DamagedRecordError(f"torch {torch.__version__} has no {what} {shown(name)}")
    return value


dtype_named = functools.partial(_of_torch, kind=torch.dtype, what="dtype")
layout_named = functools.partial(_of_torch, kind=torch.layout, what="layout")


def device_named(name: Any) -> torch.device:
    """Return the device for something that was on this device: the CPU, unless it was meta."""
    match = _DEVICE.match(name) if isinstance(name, str) else None
    if match is None:
        raise DamagedRecordError(f"{shown(name)} is not a device")
    return torch.device("meta" if match.group(1) == "meta" else "cpu")


def tensor_records(value: Any) -> Iterator[Any]:
    """Yield the content of every key "tensor" in a value, in order."""
    if isinstance(value, list):
        for each in value:
            yield from tensor_records(each)
    elif isinstance(value, dict):
        for tag, content in value.items():
            if tag == "tensor":
                yield content
            elif tag in ("tuple", "dict"):
                yield from tensor_records(content)


def argument(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Convert a piece of tagged JSON; its tensors are the next ones of `tensors`."""
    if isinstance(value, list):
        return [argument(each, tensors) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise DamagedRecordError(f"{shown(value)} does not have exactly one key")
    ((tag, content),) = value.items()
    if tag == "tensor":
        return next(tensors)
    if tag in ("tuple", "dict"):
        return _collection(tag, content, tensors)
    if tag not in _PLAIN:
        raise DamagedRecordError(f"{shown(tag)} is not a known kind of value")
    return _PLAIN[tag](content)


def _collection(tag: str, content: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if not isinstance(content, list):
        raise DamagedRecordError(f"{shown(content)} is not the content of a {tag}")
    values = argument(content, tensors)
    if tag == "tuple":
        return tuple(values)
    try:
        return dict(values)
    except (TypeError, ValueError) as error:
        raise DamagedRecordError(f"{shown(content)} are not pairs") from error


def as_float(content: Any) -> float:
    """Return a number, or the float that JSON cannot represent."""
    if isinstance(content, dict) and set(content) == {"float"}:
        content = content["float"]
    if content in ("inf", "-inf", "nan") or type(content) in (int, float):
        with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
            return float(content)
    raise DamagedRecordError(f"{shown(content)} is not a float")


def _complex(content: Any) -> complex:
    if not isinstance(content, list) or len(content) != 2:
        raise DamagedRecordError(f"{shown(content)} is not a complex number")
    return complex(*map(as_float, content))


def _generator(content: Any) -> torch.Generator:
    device_named(content)
    return torch.Generator().manual_seed(0)


def _opaque(content: Any) -> Any:
    raise CannotRebuildError(
        f"an argument has the type {shown(content)}, which a trace cannot store"
    )


_PLAIN: Dict[str, Callable[[Any], Any]] = {
    "float": as_float,
    "complex": _complex,
    "dtype": dtype_named,
    "device": device_named,
    "layout": layout_named,
    "memory_format": functools.partial(_of_torch, kind=torch.memory_format, what="memory format"),
    "generator": _generator,
    "opaque": _opaque,
}
"""By tag: the function that converts its content."""
