"""The tensors of a record: read and checked before any memory is taken, then their buffers."""

import resource
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Optional, Sequence, Tuple

import torch

from torchmark_probe.replay.errors import CannotRebuildError, DamagedRecordError, TooLargeError
from torchmark_probe.replay.names import device_named, dtype_named, layout_named, shown

_LARGEST = 2**62
"""Elements, bytes: beyond this torch's own arithmetic is not to be trusted."""


class Described(NamedTuple):
    """A tensor as its record describes it."""

    shape: Tuple[int, ...]
    dtype: torch.dtype
    strides: Tuple[int, ...]
    offset: int
    storage: Optional[int]
    """Its number; None where it shares with none."""

    storage_bytes: int
    """What is recorded, or what shape, strides and offset need."""

    device: torch.device
    requires_grad: bool
    conj: bool
    neg: bool
    layout: torch.layout
    coalesced: bool
    parts: Dict[str, "Described"]
    """What a tensor is made of whose layout is not strided."""

    values: Optional[Dict[str, Any]]
    """What is known of its content; None if nothing is."""

    argument: str
    """The name of the operator's argument that it is, or is in; "" if nobody knows."""

    @property
    def numel(self) -> int:
        return _product(self.shape)

    @property
    def is_strided(self) -> bool:
        return self.layout is torch.strided

    def memories(self) -> Iterator["Described"]:
        """The strided tensors that it is, or is made of."""
        if self.is_strided:
            yield self
        for part in self.parts.values():
            yield from part.memories()


def describe_tensor(record: Any, argument: str, stand_in: str) -> Described:
    """Read what stands behind the key "tensor"."""
    if not isinstance(record, dict):
        raise DamagedRecordError("{} does not describe a tensor".format(shown(record)))
    shape = _sizes(record.get("shape"), "shape")
    dtype = dtype_named(record.get("dtype"))
    layout = layout_named(record.get("layout", "strided"))
    strides = _strides(record, shape) if layout is torch.strided else ()
    offset = _size(record.get("offset", 0), "offset")
    if _product(shape) > _LARGEST:
        raise DamagedRecordError("the shape {} has too many elements".format(shown(list(shape))))
    parts = record.get("parts", {})
    if not isinstance(parts, dict):
        raise DamagedRecordError("{} are not the parts of a tensor".format(shown(parts)))
    values = record.get("values")
    if not (values is None or isinstance(values, dict)):
        raise DamagedRecordError("{} does not describe contents".format(shown(values)))
    storage = record.get("storage")
    return Described(
        shape=shape,
        dtype=dtype,
        strides=strides,
        offset=offset,
        storage=None if storage is None else _size(storage, "storage"),
        storage_bytes=_storage_bytes(record, shape, dtype, strides, offset)
        if layout is torch.strided
        else 0,
        device=device_named(record.get("device", "cpu"), stand_in),
        requires_grad=record.get("requires_grad") is True,
        conj=record.get("conj") is True,
        neg=record.get("neg") is True,
        layout=layout,
        coalesced=record.get("coalesced") is True,
        parts={name: _part(part, argument, stand_in) for name, part in parts.items()},
        values=values,
        argument=argument,
    )


def _part(record: Any, argument: str, stand_in: str) -> Described:
    is_tagged = isinstance(record, dict) and set(record) == {"tensor"}
    return describe_tensor(record["tensor"] if is_tagged else record, argument, stand_in)


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last in memory, both counted; 0 for an empty tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))


def contiguous_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    strides: Tuple[int, ...] = ()
    step = 1
    for size in reversed(shape):
        strides = (step, *strides)
        step *= max(size, 1)
    return strides


def item_bytes(dtype: torch.dtype) -> int:
    try:
        return torch.empty((), dtype=dtype, device="meta").element_size()
    except (RuntimeError, NotImplementedError) as error:
        raise CannotRebuildError("tensors of {} cannot be made".format(dtype)) from error


def _strides(record: Dict[str, Any], shape: Tuple[int, ...]) -> Tuple[int, ...]:
    if "strides" not in record:
        return contiguous_strides(shape)
    strides = _sizes(record["strides"], "strides")
    if len(strides) != len(shape):
        raise DamagedRecordError(
            "{} strides for {} sizes of a tensor".format(len(strides), len(shape))
        )
    return strides


def _storage_bytes(
    record: Dict[str, Any],
    shape: Tuple[int, ...],
    dtype: torch.dtype,
    strides: Tuple[int, ...],
    offset: int,
) -> int:
    reach = extent(shape, strides)
    needed = (offset + reach) * item_bytes(dtype) if reach else 0
    if needed > _LARGEST:
        raise DamagedRecordError("the strides {} reach too far".format(shown(list(strides))))
    recorded = record.get("storage_bytes")
    if recorded is None:
        return needed
    if needed > _size(recorded, "storage_bytes"):
        raise DamagedRecordError(
            "shape {}, strides {} and offset {} leave the memory of {} bytes".format(
                shown(list(shape)), shown(list(strides)), offset, recorded
            )
        )
    return int(recorded)


def _sizes(values: Any, what: str) -> Tuple[int, ...]:
    if not isinstance(values, list) or len(values) > 64:
        raise DamagedRecordError("{} is not the {} of a tensor".format(shown(values), what))
    return tuple(_size(value, what) for value in values)


def _size(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise DamagedRecordError("a tensor whose {} is or has {}".format(what, shown(value)))
    return value


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


_ALIGNMENT = 16
"""Bytes of the largest element, so that a buffer can be seen as any type."""

Key = Tuple[str, Any]
"""A storage: its number and where it lies; a tensor that shares with none has one of its own."""


def storage_sizes(tensors: Iterable[Described]) -> Dict[Key, int]:
    """Bytes of every storage: the most that any of its tensors says or needs."""
    sizes: Dict[Key, int] = {}
    for tensor in tensors:
        key = key_of(tensor)
        sizes[key] = max(sizes.get(key, 0), tensor.storage_bytes)
    return sizes


def key_of(tensor: Described) -> Key:
    if tensor.storage is None:
        return ("alone", id(tensor))
    return ("shared", (tensor.storage, str(tensor.device)))


def check_memory(tensors: Iterable[Described]) -> None:
    """Raise unless all of them fit into what is free."""
    needed = sum(storage_sizes(tensors).values())
    free = free_bytes()
    if needed > free:
        raise TooLargeError(needed, free)


def free_bytes() -> int:
    """What can be taken without swapping, as the kernel estimates it."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**62  # a kernel before 3.14 does not say


def limit_memory() -> None:
    """Let this process take what is free now, and no more."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[5]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + free_bytes()
    if soft < 0 or wanted < soft:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def buffers(sizes: Dict[Key, int], device: str) -> Dict[Key, torch.Tensor]:
    """Memory for every storage, all of it zero."""
    return {
        key: torch.zeros(
            -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT, dtype=torch.uint8, device=device
        )
        for key, size in sizes.items()
    }


def view_of(buffer: torch.Tensor, tensor: Described) -> torch.Tensor:
    """The tensor as a view of its storage."""
    return buffer.view(tensor.dtype).as_strided(tensor.shape, tensor.strides, tensor.offset)
