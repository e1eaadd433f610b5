"""A recorded call, made again: the operator, and arguments that look as they did.

    recorded_calls.settle()
    operator, args, kwargs = recorded_calls.rebuilt(text)
    operator(*args, **kwargs)

The text is the JSON that stands behind "call" in docs/trace-format.md. Nothing in it is evaluated
and no memory is taken before all sizes are checked. The same text and seed give the same bytes.
What cannot be made again is a `CannotRebuildError` with a sentence.

A trace holds the calls that autograd had already dispatched, so they run with gradients off, as
they did below it: `settle` sees to that for a process that replays.

What a record does not know is chosen so that most operators run. Floats lie in [0, 1). Integers lie from 0
up to the smallest positive size of the call's other tensors, so they are indices into any of them;
those of an argument called `…offsets` or `c…_indices` ascend from 0. Half of the booleans are true.
"""

import json
from typing import Any, Dict, Iterator, List, Tuple

import torch

from torchmark_probe import recorded_names as names
from torchmark_probe.recorded_contents import fill
from torchmark_probe.recorded_errors import CannotRebuildError, DamagedRecordError
from torchmark_probe.recorded_memory import (
    buffers,
    check_memory,
    key_of,
    storage_sizes,
    view_of,
)
from torchmark_probe.recorded_sparse import put_together
from torchmark_probe.recorded_tensors import Described, described


def settle() -> None:
    """Make this process fit for replays: once, before the first of them.

    Gradients are off. Numbers too small for the normal form count as 0: an operator that works in
    place (`mul_(0.9)`) runs many thousand times on its own result, which would come to such numbers, and
    a processor takes many times as long for them.
    """
    torch.set_grad_enabled(False)
    torch.set_flush_denormal(True)


def rebuilt(text: str, seed: int = 0, device: str = "cpu") -> Tuple[Any, List[Any], Dict[str, Any]]:
    """The operator and its arguments; what was on an accelerator goes to `device`.

    With `device="meta"` everything is on meta: sizes of any kind, and no memory.
    """
    call = parsed(text)
    operator = names.operator_named(call["op"])
    tensors = list(_described_in(call, operator, device))
    check_memory(
        [memory for tensor in tensors for memory in tensor.memories()],
        [
            memory
            for record in tensor_records(call.get("outputs"))
            for memory in described(record, "", device).memories()
        ],
    )
    with torch.no_grad():
        made = iter(_made_tensors(tensors, seed))
        args = [_value(value, made, device) for value in call["args"]]
        kwargs = {name: _value(value, made, device) for name, value in call["kwargs"].items()}
    return operator, args, kwargs


def parsed(text: str) -> Dict[str, Any]:
    """The call in a text, with its outermost form checked."""
    try:
        call = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedRecordError("the call is no JSON: {}".format(error)) from error
    if not isinstance(call, dict):
        raise DamagedRecordError("{} is not a call".format(names.shown(call)))
    call = {"args": [], "kwargs": {}, **call}
    if (
        not isinstance(call["args"], list)
        or not isinstance(call["kwargs"], dict)
        or "op" not in call
    ):
        raise DamagedRecordError("a call without op, args or kwargs")
    return call


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


def _described_in(call: Dict[str, Any], operator: Any, device: str) -> Iterator[Described]:
    schema = [argument.name for argument in operator._schema.arguments]
    schema += [""] * len(call["args"])
    for argument, value in [*zip(schema, call["args"]), *call["kwargs"].items()]:
        for record in tensor_records(value):
            yield described(record, argument, device)


def _made_tensors(tensors: List[Described], seed: int) -> List[torch.Tensor]:
    memories = [memory for tensor in tensors for memory in tensor.memories()]
    on_meta = all(memory.device.type == "meta" for memory in memories)
    drawn = buffers(storage_sizes(memories), "meta" if on_meta else "cpu")
    if not on_meta:
        _fill_all(memories, drawn, seed)
    return [_made(tensor, drawn) for tensor in tensors]


def _fill_all(memories: List[Described], drawn: Dict[Any, torch.Tensor], seed: int) -> None:
    """The larger tensor of a storage first: what is known of a part of it then holds."""
    generator = torch.Generator().manual_seed(seed)
    seen = set()
    for memory in sorted(memories, key=lambda each: -each.numel):
        look = (key_of(memory), memory.dtype, memory.shape, memory.strides, memory.offset)
        if look not in seen:
            seen.add(look)
            known = _guessed(memory, memories) if memory.values is None else memory.values
            fill(view_of(drawn[key_of(memory)], memory), known, generator)


def _guessed(memory: Described, memories: List[Described]) -> Dict[str, Any]:
    """What is taken to be true of a tensor of which nothing is known."""
    others = [each for each in memories if each is not memory] or [memory]
    sizes = [size for each in others for size in each.shape if size > 0]
    known = {"min": 0, "max": min(sizes, default=1) - 1}  # type: Dict[str, Any]
    is_offsets = memory.argument.endswith(("offsets", "crow_indices", "ccol_indices"))
    if is_offsets:
        known["order"] = "ascending"
    is_integer = not (memory.dtype.is_floating_point or memory.dtype.is_complex)
    return known if is_integer and memory.dtype is not torch.bool else {}


def _made(tensor: Described, drawn: Dict[Any, torch.Tensor]) -> torch.Tensor:
    if not tensor.is_strided:
        parts = {name: _made(part, drawn) for name, part in tensor.parts.items()}
        return put_together(tensor, parts)
    buffer = drawn[key_of(tensor)]
    if buffer.device.type != tensor.device.type:
        buffer = drawn[key_of(tensor)] = buffer.to(tensor.device)
    made = view_of(buffer, tensor)
    if tensor.conj:
        made = made.conj()
    if tensor.neg:
        made = torch._neg_view(made)
    if tensor.requires_grad and (made.is_floating_point() or made.is_complex()):
        made.requires_grad_()
    return made


def _value(value: Any, tensors: Iterator[torch.Tensor], device: str) -> Any:
    """What a piece of tagged JSON stands for; tensors come in their order."""
    if isinstance(value, list):
        return [_value(each, tensors, device) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise DamagedRecordError("{} has not one key".format(names.shown(value)))
    ((tag, content),) = value.items()
    if tag == "tensor":
        return next(tensors)
    if tag in ("tuple", "dict"):
        return _collection(tag, content, tensors, device)
    return _plain(tag, content, device)


def _collection(tag: str, content: Any, tensors: Iterator[torch.Tensor], device: str) -> Any:
    if not isinstance(content, list):
        raise DamagedRecordError("{} is not the content of a {}".format(names.shown(content), tag))
    values = [_value(each, tensors, device) for each in content]
    if tag == "tuple":
        return tuple(values)
    try:
        return {key: value for key, value in values}
    except (TypeError, ValueError) as error:
        raise DamagedRecordError("{} are no pairs".format(names.shown(content))) from error


def _plain(tag: str, content: Any, device: str) -> Any:
    if tag == "float":
        return _float(content)
    if tag == "complex":
        if not isinstance(content, list) or len(content) != 2:
            raise DamagedRecordError("{} is no complex number".format(names.shown(content)))
        return complex(*(_float(_untagged(part)) for part in content))
    if tag == "dtype":
        return names.dtype_named(content)
    if tag == "device":
        return names.device_named(content, device)
    if tag == "layout":
        return names.layout_named(content)
    if tag == "memory_format":
        return names.memory_format_named(content)
    if tag == "generator":
        where = names.device_named(content, device)
        return torch.Generator("cpu" if where.type == "meta" else where).manual_seed(0)
    if tag == "opaque":
        raise CannotRebuildError(
            "an argument is of the type {}, which a trace cannot hold".format(names.shown(content))
        )
    raise DamagedRecordError("{} is no kind of value".format(names.shown(tag)))


def _untagged(part: Any) -> Any:
    return part["float"] if isinstance(part, dict) and set(part) == {"float"} else part


def _float(content: Any) -> float:
    if content in ("inf", "-inf", "nan") or type(content) in (int, float):
        return float(content)
    raise DamagedRecordError("{} is no float".format(names.shown(content)))
