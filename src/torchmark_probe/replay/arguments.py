"""Tagged JSON of a record, turned into what an operator takes."""

from typing import Any, Callable, Dict, Iterator

import torch

from torchmark_probe.replay import names
from torchmark_probe.replay.errors import CannotRebuildError, DamagedRecordError


def tensor_records(value: Any) -> Iterator[Any]:
    """What stands behind every key "tensor" in a value, in order."""
    if isinstance(value, list):
        for each in value:
            yield from tensor_records(each)
    elif isinstance(value, dict):
        for tag, content in value.items():
            if tag == "tensor":
                yield content
            elif tag in ("tuple", "dict"):
                yield from tensor_records(content)


def argument(value: Any, tensors: Iterator[torch.Tensor], device: str) -> Any:
    """What a piece of tagged JSON stands for; its tensors are the next of `tensors`."""
    if isinstance(value, list):
        return [argument(each, tensors, device) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise DamagedRecordError("{} has not one key".format(names.shown(value)))
    ((tag, content),) = value.items()
    if tag == "tensor":
        return next(tensors)
    if tag in ("tuple", "dict"):
        return _collection(tag, content, tensors, device)
    if tag not in _PLAIN:
        raise DamagedRecordError("{} is no kind of value".format(names.shown(tag)))
    return _PLAIN[tag](content, device)


def _collection(tag: str, content: Any, tensors: Iterator[torch.Tensor], device: str) -> Any:
    if not isinstance(content, list):
        raise DamagedRecordError("{} is not the content of a {}".format(names.shown(content), tag))
    values = [argument(each, tensors, device) for each in content]
    if tag == "tuple":
        return tuple(values)
    try:
        return dict(values)
    except (TypeError, ValueError) as error:
        raise DamagedRecordError("{} are no pairs".format(names.shown(content))) from error


def _float(content: Any, _: str) -> float:
    if isinstance(content, dict) and set(content) == {"float"}:
        content = content["float"]
    if content in ("inf", "-inf", "nan") or type(content) in (int, float):
        return float(content)
    raise DamagedRecordError("{} is no float".format(names.shown(content)))


def _complex(content: Any, device: str) -> complex:
    if not isinstance(content, list) or len(content) != 2:
        raise DamagedRecordError("{} is no complex number".format(names.shown(content)))
    return complex(*(_float(part, device) for part in content))


def _generator(content: Any, device: str) -> torch.Generator:
    where = names.device_named(content, device)
    return torch.Generator("cpu" if where.type == "meta" else where).manual_seed(0)


def _opaque(content: Any, _: str) -> Any:
    raise CannotRebuildError(
        "an argument is of the type {}, which a trace cannot hold".format(names.shown(content))
    )


_PLAIN: Dict[str, Callable[[Any, str], Any]] = {
    "float": _float,
    "complex": _complex,
    "dtype": lambda content, _: names.dtype_named(content),
    "device": names.device_named,
    "layout": lambda content, _: names.layout_named(content),
    "memory_format": lambda content, _: names.memory_format_named(content),
    "generator": _generator,
    "opaque": _opaque,
}
"""By the tag: what makes a value of its content and of the device to use."""
