"""A call as the tagged JSON of docs/trace-format.md: made once, when a distinct call is first seen.

Inputs are described before the call, because it may change them, and outputs after it; tensors
share one numbering of storages, so that a view of an input is seen as one.

Of a tensor's content the trace says ranges, order, and how many are true. All modes are off while
it is looked at. A question that a dtype or a device cannot answer leaves its key out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from torchmark_probe.replay.values_file import DTYPES

_BY_ROW = ("crow_indices", "col_indices", "values")
_BY_COLUMN = ("ccol_indices", "row_indices", "values")
_PARTS: dict[torch.layout, tuple[str, ...]] = {
    # The plain accessors of a sparse_coo tensor refuse one that is not coalesced.
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}
"""Accessors of what a tensor of such a layout is made of."""

_LONGEST_LIST = 64
"""Elements that are kept one by one: small index tensors decide what an operator does."""

_FAR_APART = 8
"""Mean distances between neighbours; of random integers one gap in three thousand is as wide."""

_DENSE = 4
"""Times the number of elements: integers of a smaller range are counted in place of sorted."""

_WORTH_KEEPING = 256
"""Elements; to look at fewer takes no longer than to see that they were looked at before."""

_LONGEST_SORT = 1 << 24
"""Elements that are sorted to count the different ones; more would take seconds."""


class SeenContents:
    """What is known of contents that were looked at in this step: one tensor goes into many calls.

    A tensor is the same as one before if it lies in the same storage and nothing was written since,
    which torch counts. A weak reference keeps a storage's address from being used again, and not
    its memory.
    """

    def __init__(self) -> None:
        self._seen: dict[Any, tuple[dict[str, Any], StorageWeakRef]] = {}

    def look(self, tensor: torch.Tensor) -> dict[str, Any]:
        """As of `_contents_of`."""
        if tensor.numel() < _WORTH_KEEPING or tensor.is_inference():
            return _contents_of(tensor)
        storage = tensor.untyped_storage()
        key = (
            storage._cdata,
            tensor._version,
            tensor.shape,
            tensor.stride(),
            tensor.storage_offset(),
            tensor.dtype,
        )
        if (seen := self._seen.get(key)) is None:
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            seen = self._seen[key] = _contents_of(tensor), reference
        return seen[0]

    def forget(self) -> None:
        self._seen.clear()


class CallDescription:
    """Arguments and outputs of one call, and the exact contents if they are wanted."""

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        exact: bool = False,
        seen: SeenContents | None = None,
    ) -> None:
        self._exact_wanted = exact
        self._look = _contents_of if seen is None else seen.look
        self._exact: list[tuple[dict[str, Any], torch.Tensor]] = []
        """Inputs and copies of them, in the order of `args` and then `kwargs`."""

        self._storages: dict[int, tuple[int, dict[str, Any], torch.UntypedStorage]] = {}
        """By address: a number, and the first tensor in it. They are kept alive: a new storage must
        not come to lie where an old one was given up."""

        self._inputs = True
        self.opaque: set[str] = set()
        """Types of what is in here by its type alone."""

        self.args = [self._value(arg) for arg in args]
        self.kwargs = {name: self._value(arg) for name, arg in kwargs.items()}
        self._inputs = False
        self.outputs: Any = None

    def finish(self, result: Any) -> CallDescription:
        """Takes what came back."""
        self.outputs = self._value(result)
        self._storages.clear()
        return self

    @property
    def has_exact(self) -> bool:
        return bool(self._exact)

    def exact_contents(self, call: int) -> dict[str, torch.Tensor]:
        """The copies by the names that they have from now on in the description."""
        contents = {}
        for number, (body, copy) in enumerate(self._exact):
            body["exact"] = f"{call}.{number}"
            contents[body["exact"]] = copy
        return contents

    def _value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if value is None or isinstance(value, (bool, str, int, float, complex)):
            return _number_or_text(value)
        if isinstance(value, (list, torch.Size)):
            return [self._value(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self._value(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self._value(k), self._value(v)] for k, v in value.items()]}
        return _named_value(value) or self._unknown(value)

    def _unknown(self, value: object) -> dict[str, Any]:
        name = _type_name(value)
        self.opaque.add(name)
        return {"opaque": name}

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        try:
            if _is_plain(tensor):
                return {"tensor": self._plain_tensor(tensor)}
        except Exception:  # noqa: S110 - each kind of tensor raises its own
            pass
        return self._unknown(tensor)

    def _plain_tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        body: dict[str, Any] = {"shape": list(tensor.shape), "dtype": _DTYPES[tensor.dtype]}
        if not tensor.is_cpu:
            body["device"] = str(tensor.device)
        if tensor.requires_grad:
            body["requires_grad"] = True
        if type(tensor) is not torch.Tensor and isinstance(tensor, torch.nn.Parameter):
            body["parameter"] = True
        if tensor.layout is not torch.strided:
            body |= self._parts(tensor)
        else:
            self._memory(tensor, body)
            if tensor.is_conj():
                body["conj"] = True
            if tensor.is_neg():
                body["neg"] = True
            if self._inputs:
                self._content(tensor, body)
        return body

    def _parts(self, tensor: torch.Tensor) -> dict[str, Any]:
        parts = {
            accessor.removeprefix("_"): {"tensor": self._plain_tensor(getattr(tensor, accessor)())}
            for accessor in _PARTS[tensor.layout]
        }
        body: dict[str, Any] = {"layout": _short(tensor.layout), "parts": parts}
        if tensor.layout == torch.sparse_coo:
            body["coalesced"] = tensor.is_coalesced()
        return body

    def _memory(self, tensor: torch.Tensor, body: dict[str, Any]) -> None:
        offset = tensor.storage_offset()
        if tensor.is_contiguous():
            reach = tensor.numel()
        else:
            strides = tensor.stride()
            body["strides"] = list(strides)
            reach = _reach(tensor.shape, strides)
        if offset:
            body["offset"] = offset
        storage = tensor.untyped_storage()
        new = len(self._storages), body, storage
        number, first, _ = self._storages.setdefault(storage._cdata, new)
        if first is not body:  # a storage that one tensor alone has needs no number
            first["storage"] = body["storage"] = number
        needed = (offset + reach) * tensor.element_size() if reach else 0
        if (size := storage.nbytes()) != needed:
            body["storage_bytes"] = size

    def _content(self, tensor: torch.Tensor, body: dict[str, Any]) -> None:
        content = tensor
        if "conj" in body or "neg" in body:
            content = content.resolve_conj().resolve_neg()
        try:
            if values := self._look(content):
                body["values"] = values
        except Exception:  # noqa: S110 - a dtype or a device that has no answer
            pass
        if self._exact_wanted and not tensor.is_meta:
            with contextlib.suppress(Exception):  # likewise
                self._exact.append((body, _exact_copy(content)))


def _exact_copy(content: torch.Tensor) -> torch.Tensor:
    """As the file keeps it: types that not every safetensors knows are bytes."""
    copy = content.to(device="cpu", copy=True, memory_format=torch.contiguous_format)
    return copy if _short(copy.dtype) in DTYPES else copy.reshape(-1).view(torch.uint8)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a trace can hold it: no class that computes in its own way, no quantizer."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        dispatch = getattr(kind, "__torch_dispatch__", None)
        if dispatch is not torch._C._disabled_torch_dispatch_impl:
            return False
    return not (tensor.is_quantized or tensor.is_nested)


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _number_or_text(value: Any) -> Any:
    if isinstance(value, complex):
        return {"complex": [_number_or_text(value.real), _number_or_text(value.imag)]}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # of an enumeration, its number
    return value


def _named_value(value: Any) -> dict[str, Any]:
    """Empty if it is nothing that a name stands for."""
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, torch.Generator):
        return {"generator": str(value.device)}
    for kind in (torch.dtype, torch.layout, torch.memory_format):
        if isinstance(value, kind):
            return {kind.__name__: _short(value)}
    return {}


def _short(value: object) -> str:
    return str(value).removeprefix("torch.")


class _ShortNames(dict[Any, str]):
    """Each made once."""

    def __missing__(self, value: Any) -> str:
        self[value] = _short(value)
        return self[value]


_DTYPES = _ShortNames()


def _type_name(value: object) -> str:
    kind = type(value)
    if kind is torch.Tensor:  # quantized, nested or of a foreign layout
        assert isinstance(value, torch.Tensor)
        return f"torch.Tensor ({'nested' if value.is_nested else _short(value.dtype)})"
    return f"{kind.__module__}.{kind.__qualname__}"


def _contents_of(tensor: torch.Tensor) -> dict[str, Any]:
    """Empty where nothing is known."""
    if tensor.is_meta or tensor.dtype.is_complex:
        return {}
    if tensor.dtype == torch.bool:
        return {"true": int(tensor.sum()), **_list_of(tensor)}
    if tensor.dtype.is_floating_point:
        return _floats(tensor)
    return _integers(tensor)


def _floats(tensor: torch.Tensor) -> dict[str, Any]:
    if tensor.numel() == 0:
        return {}
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    low, high = _range(_without_repeats(tensor)[0])
    known: dict[str, Any] = {"min": low, "max": high}
    if low - low != 0 or high - high != 0:  # one of them is not finite
        finite = tensor[torch.isfinite(tensor)]
        low, high = _range(finite) if len(finite) else (0.0, 0.0)
        known = {"nonfinite": True, "min": low, "max": high}
    shape = tensor.shape
    is_square = len(shape) >= 2 and shape[-1] == shape[-2] > 1
    if is_square and torch.equal(tensor, tensor.mT):
        known["symmetric"] = True
    return known


def _range(tensor: torch.Tensor) -> tuple[Any, Any]:
    low, high = torch.aminmax(tensor)
    return low.item(), high.item()


def _integers(tensor: torch.Tensor) -> dict[str, Any]:
    if tensor.numel() == 0:
        return {"sum": 0, "distinct": 0, "order": "ascending", "list": []}
    once, times = _without_repeats(tensor)
    flat = once.reshape(-1).to(torch.int64)
    low, high = _range(flat)
    known: dict[str, Any] = {"min": low, "max": high, "sum": (flat.sum() * times).item()}
    if flat.numel() <= _LONGEST_SORT:
        values, counts = _distinct(flat, low, high)
        known["distinct"] = len(values)
        known |= _apart(values, counts * times)
    known["order"] = _order(flat)
    if tensor.dim() == 1 and known["order"] == "ascending" and int(flat[0]) == 0:
        known["offsets"] = True
    return known | _list_of(tensor.to(torch.int64))


def _without_repeats(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """What `expand` repeats in the last dimensions, once, and how often it is there.

    An index of rows is expanded to the width of the rows: as many elements, and as much to sort,
    as the rows have.
    """
    times = 1
    while tensor.dim() > 1 and tensor.stride(-1) == 0:
        times *= tensor.shape[-1]
        tensor = tensor.select(-1, 0)
    return tensor, times


def _distinct(flat: torch.Tensor, low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The different elements, ascending, and how often each is there."""
    if high - low >= _DENSE * flat.numel():
        values, counts = torch.unique(flat, return_counts=True)
        return values, counts
    counts = torch.bincount(flat - low)  # a tenth of the time that sorting takes
    values = counts.nonzero().squeeze(1)
    return values + low, counts[values]


def _apart(values: torch.Tensor, counts: torch.Tensor) -> dict[str, Any]:
    """An end that is not of the range, such as the label that a loss ignores: -100, or 255.

    It is negative where no other is, or lies far from the others.
    """
    if len(values) < 3:
        return {}
    (lowest, low), (high, highest) = values[:2].tolist(), values[-2:].tolist()
    far = _FAR_APART * max(1.0, (high - low) / max(1, len(values) - 3))
    first = int(lowest < 0 <= low or low - lowest > far)
    last = len(values) - int(highest - high > far)
    apart = [*range(first), *range(last, len(values))]
    if not apart:
        return {}
    return {
        "apart": [[int(values[each]), int(counts[each])] for each in apart],
        "rest": [int(values[first]), int(values[last - 1])],
    }


def _order(flat: torch.Tensor) -> str:
    # Where the first ones are in no order nothing else has to be looked at.
    for part in (flat[:_LONGEST_LIST], flat):
        before, after = part[:-1], part[1:]
        order = "ascending" if bool((before <= after).all()) else "none"
        if order == "none" and bool((before >= after).all()):
            order = "descending"
        if order == "none":
            break
    return order


def _list_of(tensor: torch.Tensor) -> dict[str, Any]:
    return {"list": tensor.reshape(-1).tolist()} if tensor.numel() <= _LONGEST_LIST else {}
