"""Describe a call as the tagged JSON of docs/reference/trace-format.md, when it is first seen.

Inputs are described before the call, which may change them, and outputs after it. All tensors of a
call share one numbering of storages, so a view of an input is recognised as a view.

The contents of a tensor are described by ranges, order and counts. All modes are off meanwhile. If
a dtype or a device does not support one of these operations, its key is left out.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from torchmark.capture.looks import TensorLook, TensorLooks, body_of, is_square, short_name
from torchmark_probe.replay.values_file import DTYPES

Integers: TypeAlias = npt.NDArray[np.int64]

_BY_ROW = ("crow_indices", "col_indices", "values")
_BY_COLUMN = ("ccol_indices", "row_indices", "values")
_PARTS: dict[torch.layout, tuple[str, ...]] = {
    # The accessors without underscore refuse a tensor that is not coalesced.
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}
"""Accessors of the parts of a tensor, by its layout."""

_LONGEST_LIST = 64
"""Elements that are kept as they are: small index tensors decide what an operator does."""

_FAR_APART = 8
"""In mean distances between neighbours. One gap in three thousand of random integers is as wide."""

_DENSE = 4
"""In numbers of elements. Integers with a smaller range are counted by value instead of sorted."""

_WORTH_KEEPING = 256
"""Elements of a tensor of integers. The contents of a smaller one are read for each call, because
its exact elements are kept and decide what an operator does: neither a change through `.data` nor
one through NumPy counts as a new version."""

_LONGEST_SORT = 1 << 24
"""Elements that are sorted to count the distinct ones; more would take seconds."""


class SeenContents:
    """The descriptions of contents in this step, since one tensor is an input of many calls.

    A tensor has the same contents if it has the same storage and torch's version counter has not
    changed. Many calls of a model make or use a view, such as a transposed weight. A view has the
    same range of floats if it has all elements of the same part of the memory.
    """

    def __init__(self) -> None:
        self._seen: dict[Any, tuple[dict[str, Any], weakref.ref[torch.UntypedStorage]]] = {}
        """By storage, version and elements. The weak reference does not keep the memory; if it is
        dead, another storage has this address now."""

    def find(
        self, tensor: torch.Tensor, look: TensorLook, storage: torch.UntypedStorage
    ) -> dict[str, Any]:
        """The same as `_contents_of`."""
        is_short = tensor.numel() < _WORTH_KEEPING and not tensor.dtype.is_floating_point
        if is_short or tensor.is_inference():  # the latter has no version
            return _contents_of(tensor)
        key = storage._cdata, tensor._version, look.elements
        seen = self._seen.get(key)
        if seen is None or seen[1]() is not storage:
            seen = self._seen[key] = _contents_of(tensor), weakref.ref(storage)
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
        looks: TensorLooks | None = None,
        seen: SeenContents | None = None,
    ) -> None:
        self._exact_wanted = exact
        self._looks = TensorLooks() if looks is None else looks
        self._seen = SeenContents() if seen is None else seen
        self._exact: list[tuple[dict[str, Any], torch.Tensor]] = []
        """Inputs and copies of them, in the order of `args` and then `kwargs`."""

        self._storages: dict[int, tuple[int, dict[str, Any], torch.UntypedStorage]] = {}
        """By address: a number, the first tensor in it, and the storage. Storages are kept alive,
        so that no new one gets the address of an old one."""

        self._inputs = True
        self.opaque: set[str] = set()
        """Types of the values that are described by their type alone."""

        self.args = [self._value(arg) for arg in args]
        self.kwargs = {name: self._value(arg) for name, arg in kwargs.items()}
        self._inputs = False
        self.outputs: Any = None

    def finish(self, result: Any) -> CallDescription:
        """Add the result of the call."""
        self.outputs = self._value(result)
        self._storages.clear()
        return self

    @property
    def has_exact(self) -> bool:
        return bool(self._exact)

    def exact_contents(self, call: int) -> dict[str, torch.Tensor]:
        """The copies by name. The names are added to the description."""
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
        if tensor.layout is not torch.strided:
            return body_of(tensor) | self._parts(tensor)
        look, storage = self._looks.find(tensor), tensor.untyped_storage()
        body = look.body.copy()
        number, first, _ = self._storages.setdefault(
            storage._cdata, (len(self._storages), body, storage)
        )
        if first is not body:  # a storage with one tensor needs no number
            first["storage"] = body["storage"] = number
        if (size := storage.nbytes()) != look.reach:
            body["storage_bytes"] = size
        if self._inputs:
            self._content(tensor, body, look, storage)
        return body

    def _parts(self, tensor: torch.Tensor) -> dict[str, Any]:
        parts = {
            accessor.removeprefix("_"): {"tensor": self._plain_tensor(getattr(tensor, accessor)())}
            for accessor in _PARTS[tensor.layout]
        }
        body: dict[str, Any] = {"layout": short_name(tensor.layout), "parts": parts}
        if tensor.layout == torch.sparse_coo:
            body["coalesced"] = tensor.is_coalesced()
        return body

    def _content(
        self,
        tensor: torch.Tensor,
        body: dict[str, Any],
        look: TensorLook,
        storage: torch.UntypedStorage,
    ) -> None:
        content = tensor
        is_lazy = "conj" in body or "neg" in body
        if is_lazy:
            content = content.resolve_conj().resolve_neg()
        try:
            values = _contents_of(content) if is_lazy else self._seen.find(tensor, look, storage)
            if values:
                body["values"] = values
        except Exception:  # noqa: S110 - the dtype or the device does not support it
            pass
        if self._exact_wanted and not tensor.is_meta:
            with contextlib.suppress(Exception):  # for the same reason
                self._exact.append((body, _exact_copy(content)))


def _exact_copy(content: torch.Tensor) -> torch.Tensor:
    """A contiguous copy for the file, as bytes if some versions of safetensors lack the dtype."""
    copy = content.to(device="cpu", copy=True, memory_format=torch.contiguous_format)
    return copy if short_name(copy.dtype) in DTYPES else copy.reshape(-1).view(torch.uint8)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a trace can describe it: no quantized tensor, no class with a dispatch of its own."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        dispatch = getattr(kind, "__torch_dispatch__", None)
        if dispatch is not torch._C._disabled_torch_dispatch_impl:
            return False
    return not (tensor.is_quantized or tensor.is_nested)


def _is_symmetric(squares: torch.Tensor) -> bool:
    """Whether all of these matrices are symmetric.

    In most matrices, the first two mirrored elements differ. Comparing all of them takes longer
    than everything else that is asked about the contents.
    """
    low, high = sorted(squares.stride()[-2:])
    mirrored = squares.as_strided((2,), (high - low,), squares.storage_offset() + low)
    one, other = mirrored.tolist()
    return one == other and torch.equal(squares, squares.mT)


def _number_or_text(value: Any) -> Any:
    if isinstance(value, complex):
        return {"complex": [_number_or_text(value.real), _number_or_text(value.imag)]}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # for a member of an enumeration, its number
    return value


def _named_value(value: Any) -> dict[str, Any]:
    """A value that is described by its name; empty if it is not one."""
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, torch.Generator):
        return {"generator": str(value.device)}
    for kind in (torch.dtype, torch.layout, torch.memory_format):
        if isinstance(value, kind):
            return {kind.__name__: short_name(value)}
    return {}


def _type_name(value: object) -> str:
    kind = type(value)
    if kind is torch.Tensor:  # quantized, nested or of a foreign layout
        assert isinstance(value, torch.Tensor)
        return f"torch.Tensor ({'nested' if value.is_nested else short_name(value.dtype)})"
    return f"{kind.__module__}.{kind.__qualname__}"


def _contents_of(tensor: torch.Tensor) -> dict[str, Any]:
    """The description of the contents; empty if nothing is known."""
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
    low, high = _range(tensor if tensor.is_contiguous() else _without_repeats(tensor)[0])
    known: dict[str, Any] = {"min": low, "max": high}
    if low - low != 0 or high - high != 0:  # one of them is not finite
        finite = tensor[torch.isfinite(tensor)]
        low, high = _range(finite) if len(finite) else (0.0, 0.0)
        known = {"nonfinite": True, "min": low, "max": high}
    if is_square(tensor.shape) and _is_symmetric(tensor):
        known["symmetric"] = True
    return known


def _range(tensor: torch.Tensor) -> tuple[Any, Any]:
    low, high = torch.aminmax(tensor)
    return low.item(), high.item()


def _integers(tensor: torch.Tensor) -> dict[str, Any]:
    if tensor.numel() == 0:
        return {"sum": 0, "distinct": 0, "order": "ascending", "list": []}
    once, times = _without_repeats(tensor)
    # Some twenty small operations follow. NumPy takes a third of torch's time for them. It gets a
    # copy, because `numpy()` forbids for ever that the storage of its tensor is resized.
    flat = once.reshape(-1).to(torch.int64, copy=True).cpu().numpy()
    low, high = int(flat.min()), int(flat.max())
    total = (flat.sum(keepdims=True) * times).item()
    known: dict[str, Any] = {"min": low, "max": high, "sum": total}
    if len(flat) <= _LONGEST_SORT:
        values, counts = _distinct(flat, low, high)
        known["distinct"] = len(values)
        known |= _apart(values, counts * times)
    known["order"] = _order(flat)
    if tensor.dim() == 1 and known["order"] == "ascending" and int(flat[0]) == 0:
        known["offsets"] = True
    return known | _list_of(tensor.to(torch.int64))


def _without_repeats(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The tensor without repetitions by `expand` in the last dimensions, and their number.

    An index of rows is often expanded to the width of the rows. It then has as many elements to
    sort as the rows have.
    """
    times = 1
    while tensor.dim() > 1 and tensor.stride(-1) == 0:
        times *= tensor.shape[-1]
        tensor = tensor.select(-1, 0)
    return tensor, times


def _distinct(flat: Integers, low: int, high: int) -> tuple[Integers, Integers]:
    """The distinct elements in ascending order, and how often each occurs."""
    if high - low >= _DENSE * len(flat):
        return np.unique(flat, return_counts=True)
    counts = np.bincount(flat - low)  # a tenth of the time that sorting takes
    values = np.flatnonzero(counts)
    return values + low, counts[values]


def _apart(values: Integers, counts: Integers) -> dict[str, Any]:
    """The smallest or largest value, if it does not belong to the range of the others.

    An example is the label that a loss ignores: -100, or 255. Such a value is the only negative
    one, or far from the others.
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


def _order(flat: Integers) -> str:
    # If the first elements are in no order, the others need not be inspected.
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
