"""Tell calls apart, by a key or by a quicker comparison with a known call.

A key is a tuple that is cheap to compute and to hash. A tensor is there as its look, which has what
the trace distinguishes. If a sparse, nested or foreign tensor has no look, its part of the key is
computed by `_careful_part`.

A training repeats itself: usually a call is the same as the call at this position in the previous
step. Checking this takes half the time of computing and looking up a key, because torch has one
function, made for the guards of compiled code, that compares sizes, strides, dtypes and devices of
all tensors. What it does not compare is compared here: offsets, `requires_grad` while gradients are
off, and which tensors share memory. A call that does not match, or cannot be compared, gets a key.

All of this runs for every call of the captured program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import itemgetter
from typing import Any

import torch

from torchmark.capture.looks import TensorLooks

Args = tuple[Any, ...]
Keywords = Mapping[str, Any] | None
Fits = Callable[[Args, Keywords], bool]

Key = tuple[Any, ...]

_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
_TensorGuards: Any = torch._C._dynamo.guards.TensorGuards

_ASKED = (
    "dtype", "layout", "device", "requires_grad", "is_quantized", "shape",
    "_nnz", "is_coalesced", "stride", "storage_offset",
)  # fmt: skip
_NAMED = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})
_PLAIN = frozenset({int, bool, str, type(None), complex})
_NUMBERS = frozenset({int, float, bool})
_COMPARED = _NUMBERS | _NAMED | {str, type(None)}
"""Types of values that are the same if they and their types are equal."""


def key_of(
    op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, looks: TensorLooks
) -> Key:
    """A key that is equal for calls that look the same."""
    parts: list[Any] = [op]
    storages: list[int] = []
    _add(args, parts, storages, looks)
    if kwargs:
        parts.append(tuple(kwargs))
        _add(kwargs.values(), parts, storages, looks)
    if len(storages) > 1 and (shared := sharing(storages)) is not None:
        parts.append(shared)
    return tuple(parts)


def sharing(storages: list[int]) -> tuple[int, ...] | None:
    """Which tensors share memory: equal numbers for those that do; None if no two do."""
    if len(set(storages)) == len(storages):
        return None
    first: dict[int, int] = {}
    return tuple([first.setdefault(storage, len(first)) for storage in storages])


def _add(values: Iterable[Any], parts: list[Any], storages: list[int], looks: TensorLooks) -> None:
    for value in values:
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            try:
                storages.append(value.untyped_storage()._cdata)
                parts.append(looks.find(value))
            except Exception:  # tensors without memory raise errors of several types
                parts.append(_careful_part(value))
        elif kind in _PLAIN:
            parts += (kind, value)
        elif kind is float:
            # A nan does not equal the nan of the previous call.
            parts += (float, value if value == value else "nan")  # noqa: PLR0124
        elif kind is list or kind is tuple:
            parts += (kind, len(value))
            _add(value, parts, storages, looks)
        elif kind in _NAMED:
            parts.append(value)
        else:
            parts.append(_careful_part(value))


def _careful_part(value: Any) -> Hashable:
    """The part of a key for an unusual value: everything that can be asked without an exception."""
    parts: list[Any] = [type(value)]
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            parts += [_ask(value, name) for name in _ASKED]
    elif isinstance(value, torch.Generator):
        parts.append(value.device)
    elif isinstance(value, (int, float, str)):
        parts.append(value)
    return tuple(parts)


def _ask(tensor: torch.Tensor, name: str) -> Hashable:
    try:
        asked = getattr(tensor, name)
        answer: Hashable = asked() if callable(asked) else asked
        hash(answer)
    except Exception:
        return None
    return answer


def without_floats(key: Key) -> Key:
    """A key that is equal for calls that differ only in the values of floats."""
    return tuple([None if type(part) is float else part for part in key])


def shapes_of(result: Any) -> Key:
    """The output shapes, for operators whose inputs do not determine them."""
    if isinstance(result, torch.Tensor):
        return (_ask(result, "shape"),)
    if isinstance(result, (list, tuple)):
        return tuple([shape for item in result for shape in shapes_of(item)])
    return ()


class KnownCall:
    """A call from one place."""

    __slots__ = ("call", "fits", "is_learned", "key", "known", "pair")

    def __init__(self, key: Key, pair: int, known: KnownCalls) -> None:
        self.key = key
        self.pair = pair
        """The number of the pair: the call and its place."""
        self.known = known
        """All calls from that place."""
        self.call: Any = None
        """The operator, if calls can be compared with this one."""
        self.fits: Fits = _fits_nothing
        """Whether a call of the operator with other arguments is the same call."""
        self.is_learned = False

    def learn(self, call: Any, args: Args, kwargs: Keywords, *, folded: bool) -> None:
        """Prepare `fits` from these arguments, if possible. With `folded`, floats may differ."""
        self.is_learned = True
        try:
            fits = _comparison(args, kwargs or {}, folded)
        except Exception:  # tensors without memory or sizes raise errors of several types
            return
        if fits is not None:
            self.call, self.fits = call, fits

    def learn_from(self, other: KnownCall) -> None:
        """Use `fits` of the same call from another place."""
        self.call, self.fits, self.is_learned = other.call, other.fits, True


class KnownCalls(dict[Key, KnownCall]):
    """The calls of one place, by their keys."""

    __slots__ = ("folded", "place")

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place
        self.folded: dict[Key, KnownCall] = {}
        """Calls whose floats are no longer distinguished, by the key without floats."""


def _comparison(args: Args, keywords: Mapping[str, Any], folded: bool) -> Fits | None:
    first: dict[int, int] = {}
    at, again, others = [], [], []
    for index, value in enumerate(args):
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            if value.is_nested:  # torch's comparison crashes on it
                return None
            # torch's comparison refuses the same tensor twice.
            if (one := first.setdefault(id(value), index)) == index:
                at.append(index)
            else:
                again.append((one, index))
        elif _is_compared(value):
            others.append(index)
        else:
            return None
    if not at or (keywords and not all(map(_is_compared, keywords.values()))):
        return None
    fits_tensors = _tensors_alike([args[index] for index in at])
    count, tensors_of, rest_of = len(args), _make_picker(at), _make_picker(others)
    rest = tuple([_keep(args[index], folded) for index in others])
    rest_types = tuple([type(args[index]) for index in others])
    expected = {name: _keep(value, folded) for name, value in keywords.items()}
    keyword_types = tuple(map(type, keywords.values()))

    def fits_keywords(kwargs: Mapping[str, Any]) -> bool:
        return tuple(map(type, kwargs.values())) == keyword_types and kwargs == expected

    def fits(args: Args, kwargs: Keywords) -> bool:
        if len(args) != count:
            return False
        if rest:
            given = rest_of(args)
            # Types first, because a tensor must not be compared by `==`.
            if tuple(map(type, given)) != rest_types or given != rest:
                return False
        if (kwargs or expected) and not fits_keywords(kwargs or {}):
            return False
        for one, other in again:
            if args[one] is not args[other]:
                return False
        return fits_tensors(*tensors_of(args))

    return fits


def _tensors_alike(tensors: list[torch.Tensor]) -> Callable[..., bool]:
    """A function that returns whether as many other tensors look the same."""
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    # None: all sizes and strides must be the same.
    check = _TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    offsets = [tensor.storage_offset() for tensor in tensors]
    gradients = [tensor.requires_grad for tensor in tensors]
    shared = sharing(storages)

    def one_is(tensor: torch.Tensor) -> bool:
        return (
            check(tensor)
            and tensor.storage_offset() == offsets[0]
            and tensor.requires_grad is gradients[0]
        )

    def two_are(one: torch.Tensor, other: torch.Tensor) -> bool:
        return (
            check(one, other)
            and one.storage_offset() == offsets[0]
            and other.storage_offset() == offsets[1]
            and one.requires_grad is gradients[0]
            and other.requires_grad is gradients[1]
            and (one.untyped_storage()._cdata == other.untyped_storage()._cdata)
            is (shared is not None)
        )

    def all_are(*others: torch.Tensor) -> bool:
        if not check(*others):
            return False
        theirs = []
        for index, tensor in enumerate(others):
            if tensor.storage_offset() != offsets[index]:
                return False
            if tensor.requires_grad is not gradients[index]:
                return False
            theirs.append(tensor.untyped_storage()._cdata)
        return sharing(theirs) == shared

    if len(tensors) == 1:
        return one_is
    return two_are if len(tensors) == 2 else all_are


class _Anything:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _keep(value: Any, folded: bool) -> Any:
    """A value to compare others with. A list is copied, because the program may change it."""
    if type(value) is list:
        return list(value)
    return _Anything() if folded and type(value) is float else value


def _is_compared(value: Any) -> bool:
    if type(value) is list:
        # The operator's schema gives all items one type.
        return all(type(item) in _NUMBERS for item in value)
    return type(value) in _COMPARED


def _make_picker(indices: list[int]) -> Callable[[Args], Args]:
    """A function from a tuple to the tuple of the items at these indices."""
    if len(indices) == 1:
        return itemgetter(slice(indices[0], indices[0] + 1))
    return itemgetter(*indices) if indices else tuple


def _fits_nothing(*_: object) -> bool:
    return False
