"""The tensors of a record: read and checked before any memory is allocated, then created.

A tensor that is not strided is made from its parts. If only the range of its indices is known, they
are placed anew: within the tensor's sizes, and in the order that its layout requires, because
kernels do not check them.
"""

import math
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.utils._pytree import tree_flatten

from torchmark_probe.replay.contents import different
from torchmark_probe.replay.records import (
    CannotRebuildError,
    DamagedRecordError,
    device_named,
    dtype_named,
    layout_named,
    shown,
    tensor_records,
)

_LARGEST = 2**62
"""Elements or bytes; beyond this, torch's own arithmetic is not reliable."""


class TooLargeError(CannotRebuildError, MemoryError):
    """The inputs and outputs of a call need more memory than is free."""


class Described(NamedTuple):
    """A tensor as described by its record."""

    shape: Tuple[int, ...]
    dtype: torch.dtype
    strides: Tuple[int, ...]
    offset: int
    storage: Optional[int]
    """The number of the storage; None if it is not shared."""

    storage_bytes: int
    """The recorded size, or the size that shape, strides and offset need."""

    device: torch.device
    requires_grad: bool
    conj: bool
    neg: bool
    layout: torch.layout
    coalesced: bool
    parts: Dict[str, "Described"]
    """The parts of a tensor whose layout is not strided."""

    values: Optional[Dict[str, Any]]
    """Properties of the contents; None if nothing is known."""

    exact: str
    """The name of the contents in the file of recorded values; "" if contents are random."""

    argument: str
    """The operator's argument that it is, or belongs to; "" if unknown."""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def is_meta(self) -> bool:
        return self.device.type == "meta"

    @property
    def is_strided(self) -> bool:
        return self.layout is torch.strided

    def memories(self) -> Iterator["Described"]:
        """Yield the strided tensors that it is or consists of."""
        if self.is_strided:
            yield self
        for part in self.parts.values():
            yield from part.memories()


def describe_tensors(
    value: Any, argument: str = "", *, has_values: bool = False
) -> List[Described]:
    """Describe every tensor in a value, in order; `has_values` if there is a file of values."""
    return [_describe(record, argument, has_values) for record in tensor_records(value)]


def _describe(record: Any, argument: str, has_values: bool) -> Described:
    """Read the content of the key "tensor"."""
    if not isinstance(record, dict):
        raise DamagedRecordError(f"{shown(record)} does not describe a tensor")
    shape = _sizes(record.get("shape"), "shape")
    if math.prod(shape) > _LARGEST:
        raise DamagedRecordError(f"the shape {shown(list(shape))} has too many elements")
    layout = layout_named(record.get("layout", "strided"))
    parts = record.get("parts", {})
    if not isinstance(parts, dict):
        raise DamagedRecordError(f"{shown(parts)} are not the parts of a tensor")
    values = record.get("values")
    if not (values is None or isinstance(values, dict)):
        raise DamagedRecordError(f"{shown(values)} does not describe contents")
    storage = record.get("storage")
    tensor = Described(
        shape=shape,
        dtype=dtype_named(record.get("dtype")),
        strides=_strides(record, shape) if layout is torch.strided else (),
        offset=_size(record.get("offset", 0), "offset"),
        storage=None if storage is None else _size(storage, "storage"),
        storage_bytes=0,
        device=device_named(record.get("device", "cpu")),
        requires_grad=record.get("requires_grad") is True,
        conj=record.get("conj") is True,
        neg=record.get("neg") is True,
        layout=layout,
        coalesced=record.get("coalesced") is True,
        parts={name: _part(part, argument, has_values) for name, part in parts.items()},
        values=values,
        exact=_exact_name(record.get("exact", "")) if has_values else "",
        argument=argument,
    )
    if not tensor.is_strided:
        return tensor
    return tensor._replace(storage_bytes=_storage_bytes(tensor, record.get("storage_bytes")))


def _part(record: Any, argument: str, has_values: bool) -> Described:
    is_tagged = isinstance(record, dict) and set(record) == {"tensor"}
    return _describe(record["tensor"] if is_tagged else record, argument, has_values)


def _exact_name(name: Any) -> str:
    if not isinstance(name, str):
        raise DamagedRecordError(f"{shown(name)} is not the name of a tensor's content")
    return name


def _strides(record: Dict[str, Any], shape: Tuple[int, ...]) -> Tuple[int, ...]:
    if "strides" in record:
        strides = _sizes(record["strides"], "strides")
        if len(strides) != len(shape):
            raise DamagedRecordError(f"{len(strides)} strides for {len(shape)} sizes of a tensor")
        return strides
    contiguous: Tuple[int, ...] = ()
    step = 1
    for size in reversed(shape):
        contiguous = (step, *contiguous)
        step *= max(size, 1)
    return contiguous


def _storage_bytes(tensor: Described, recorded: Any) -> int:
    try:
        item_bytes = torch.empty((), dtype=tensor.dtype, device="meta").element_size()
    except (RuntimeError, NotImplementedError) as error:
        raise CannotRebuildError(f"tensors of {tensor.dtype} cannot be created") from error
    shape, strides = list(tensor.shape), list(tensor.strides)
    last = tensor.offset + sum((size - 1) * stride for size, stride in zip(shape, strides))
    needed = 0 if 0 in shape else (last + 1) * item_bytes
    if needed > _LARGEST:
        raise DamagedRecordError(f"the strides {shown(strides)} are too large")
    if recorded is None:
        return needed
    if needed > _size(recorded, "storage_bytes"):
        raise DamagedRecordError(
            f"shape {shown(shape)}, strides {shown(strides)} and offset {tensor.offset} "
            f"exceed the memory of {recorded} bytes"
        )
    return int(recorded)


def _sizes(values: Any, what: str) -> Tuple[int, ...]:
    if not isinstance(values, list) or len(values) > 64:
        raise DamagedRecordError(f"{shown(values)} is not the {what} of a tensor")
    return tuple(_size(value, what) for value in values)


def _size(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise DamagedRecordError(f"{shown(value)} is not allowed in the {what} of a tensor")
    return value


_ALIGNMENT = 16
"""Bytes of the largest element, so that a buffer can be viewed as any type."""

Key = Tuple[str, Any]
"""A storage: its number and device. A tensor that shares no storage has its own key."""


def _storage_sizes(tensors: Iterable[Described]) -> Dict[Key, int]:
    """Return the bytes of every storage: the most that any of its tensors records or needs."""
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
    """Raise if they do not all fit into the free memory."""
    needed = sum(_storage_sizes(each for each in tensors if not each.is_meta).values())
    free = free_bytes()
    if needed > free:
        raise TooLargeError(f"the call needs {_amount(needed)}, but only {_amount(free)} are free")


def _amount(size: int) -> str:
    """Format bytes: "1.0 TB"."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1e} EB"


def free_bytes() -> int:
    """Return the bytes that can be allocated without swapping, as estimated by the kernel."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**62  # kernels before 3.14 do not report it


def buffers(tensors: Sequence[Described]) -> Dict[Key, torch.Tensor]:
    """Allocate zeroed memory for every storage."""
    devices = {key_of(tensor): tensor.device for tensor in tensors}
    made = {}
    for key, size in _storage_sizes(tensors).items():
        aligned = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        made[key] = torch.zeros(aligned, dtype=torch.uint8, device=devices[key])
    return made


def view_of(buffer: torch.Tensor, tensor: Described) -> torch.Tensor:
    """Return the tensor as a view of its storage."""
    return buffer.view(tensor.dtype).as_strided(tensor.shape, tensor.strides, tensor.offset)


def tensors_of(value: Any) -> List[Any]:
    """Return the tensors in nested lists, tuples and dictionaries, in order."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


_INDICES = {
    "sparse_coo": ("indices",),
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}
"""By layout: the parts of a tensor that say where its values are."""


def put_together(tensor: Described, parts: Dict[str, torch.Tensor]) -> torch.Tensor:
    name = str(tensor.layout).rpartition(".")[2]
    if name not in _INDICES:
        raise CannotRebuildError(f"tensors with the layout {name} cannot be recreated")
    missing = {*_INDICES[name], "values"} - parts.keys()
    if missing:
        raise DamagedRecordError(f"a {name} tensor without its {' and '.join(sorted(missing))}")
    indices = [parts[key] for key in _INDICES[name]]
    known = tensor.parts[_INDICES[name][-1]]
    is_exact = "list" in (known.values or {}) or known.exact != ""
    if not (tensor.is_meta or is_exact):
        if name == "sparse_coo":
            _place_coo(tensor, *indices)
        else:
            _place_compressed(*indices)
    try:
        made: torch.Tensor = _join(tensor, indices, parts["values"])
    except (RuntimeError, TypeError) as error:
        raise DamagedRecordError(f"the parts do not make a {name} tensor: {error}") from error
    return made


def _place_coo(tensor: Described, indices: torch.Tensor) -> None:
    sizes = tensor.shape[: len(indices)]
    for row, size in zip(indices, sizes):
        row.remainder_(max(size, 1))
    places = math.prod(sizes)
    if not tensor.coalesced or indices.shape[1] > places:
        return
    generator = torch.Generator().manual_seed(0)
    chosen = different(indices.shape[1], 0, places - 1, generator).sort()[0]
    for row, size in zip(reversed(indices), reversed(sizes)):
        row.copy_(chosen % size)
        chosen = torch.div(chosen, size, rounding_mode="floor")


def _place_compressed(compressed: torch.Tensor, plain: torch.Tensor) -> None:
    """Put equally many elements into every row, at equal distances, up to the largest column."""
    if not plain.numel():
        return
    rows, count, columns = compressed.shape[-1] - 1, plain.shape[-1], int(plain.max()) + 1
    starts = torch.arange(rows + 1) * count // max(rows, 1)
    lengths = starts[1:] - starts[:-1]
    within = torch.arange(count) - starts[:-1].repeat_interleave(lengths)
    compressed.copy_(starts)
    plain.copy_(within * columns // lengths.repeat_interleave(lengths))


def _join(tensor: Described, indices: List[torch.Tensor], values: torch.Tensor) -> Any:
    """Join the parts without checking their contents, which kernels do not check either."""
    aten, shape = torch.ops.aten, list(tensor.shape)
    if len(indices) == 1:
        coo = aten._sparse_coo_tensor_unsafe(*indices, values, shape)  # noqa: SLF001
        return aten._coalesced_(coo, tensor.coalesced)
    make = aten._sparse_compressed_tensor_unsafe  # noqa: SLF001
    return make(*indices, values, shape, dtype=tensor.dtype, layout=tensor.layout)
