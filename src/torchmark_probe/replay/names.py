"""Names of a record, resolved: operators through torch.ops alone, types through torch's own.

A name in a trace is somebody else's text. It is looked up among operators or among the members of
`torch` that are of one type, so it can never reach a function, a module or an attribute of another
kind, and an operator that takes the name of a file is not for a trace to call.
"""

import contextlib
import importlib
import re
from typing import Any, List

import torch

from torchmark_probe.replay.errors import DamagedRecordError, UnknownOperatorError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEVICE = re.compile(r"([a-z][a-z0-9_]*)(:[0-9]{1,3})?\Z")
_SHOWN = 100
"""Characters of a name that an error repeats."""

_NAMESPACE_TYPE: Any = type(torch.ops.aten)
_PACKET_TYPE: Any = type(torch.ops.aten.add)
_OVERLOAD_TYPE: Any = type(torch.ops.aten.add.Tensor)


def operator_named(name: Any) -> Any:
    """The operator of "aten.add.Tensor"."""
    parts = name.split(".") if isinstance(name, str) else []
    if len(parts) != 3 or not all(_IDENTIFIER.match(part) for part in parts):
        raise UnknownOperatorError(
            "{} is not the name of an operator, as aten.add.Tensor is".format(shown(name))
        )
    if parts[0] in _REGISTERED_BY:
        with contextlib.suppress(ImportError):  # an older torch
            importlib.import_module(_REGISTERED_BY[parts[0]])
    namespace = getattr(torch.ops, parts[0], None)
    packet = _member(namespace, parts[1]) if isinstance(namespace, _NAMESPACE_TYPE) else None
    if not isinstance(packet, _PACKET_TYPE):
        raise _missing(name)
    if parts[2] not in packet.overloads():
        raise _missing(name)
    operator = _member(packet, parts[2])
    if not isinstance(operator, _OVERLOAD_TYPE):
        raise _missing(name)
    if "filename" in argument_names(operator) or parts[0] in _FILE_NAMESPACES:
        raise UnknownOperatorError(
            "{} works on files, which a trace may not ask for".format(shown(name))
        )
    return operator


_REGISTERED_BY = {
    "prims": "torch._prims",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torch_nn": "torch.nn.modules.linear_cross_entropy",
}
"""Modules of torch whose import makes operators that `import torch` alone does not."""

_FILE_NAMESPACES = ("debugprims",)
"""Their operators read files without an argument that is called so."""


def argument_names(operator: Any) -> List[str]:
    schema = operator._schema  # noqa: SLF001 - torch has no other way to say it
    return [argument.name for argument in schema.arguments]


def dtype_named(name: Any) -> torch.dtype:
    return _of_torch(name, torch.dtype, "a dtype")  # type: ignore[no-any-return]


def layout_named(name: Any) -> torch.layout:
    return _of_torch(name, torch.layout, "a layout")  # type: ignore[no-any-return]


def memory_format_named(name: Any) -> torch.memory_format:
    return _of_torch(name, torch.memory_format, "a memory format")  # type: ignore[no-any-return]


def device_named(name: Any, stand_in: str) -> torch.device:
    """Where something goes that was on this device: `stand_in` for any but the CPU and meta.

    On meta everything is on meta.
    """
    match = _DEVICE.match(name) if isinstance(name, str) else None
    if match is None:
        raise DamagedRecordError("{} is not a device".format(shown(name)))
    stays = match.group(1) in ("cpu", "meta") and stand_in != "meta"
    return torch.device(match.group(1) if stays else stand_in)


def shown(value: Any) -> str:
    """A value of the record in a sentence, cut where it is long."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _of_torch(name: Any, kind: Any, what: str) -> Any:
    value = vars(torch).get(name) if isinstance(name, str) else None
    if not isinstance(value, kind):
        raise DamagedRecordError(
            "torch {} has no {} that is called {}".format(torch.__version__, what[2:], shown(name))
        )
    return value


def _member(of: Any, name: str) -> Any:
    try:
        return getattr(of, name, None)
    except RuntimeError:  # torch's word for some names that it does not know
        return None


def _missing(name: str) -> UnknownOperatorError:
    return UnknownOperatorError(
        "torch {} has no operator {}".format(torch.__version__, shown(name).strip("'"))
    )
