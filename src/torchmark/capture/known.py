"""Calls told from one another: by a key, or by a quicker comparison with one that was seen before.

A key is a tuple that is cheap to make and to hash. It asks a tensor only for what the trace keeps
apart, and for strides and devices only where they are not the usual ones: `True` stands for the
strides of a contiguous tensor, and for the CPU. A sparse, nested or foreign tensor raises there and
takes the careful way.

A training repeats itself: a call is mostly the one that came there in the step before. To see that
it is that one takes half of the time that its key takes to make and to look up, since torch
compares sizes, strides, dtypes and devices of all tensors in one function that it has for the
guards of compiled code. What that one does not look at is looked at here: offsets, gradients where
they are switched off, and which tensors share memory. Whatever does not fit, or has no such
comparison, has a key.

All of this runs for every call of the captured program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import itemgetter
from typing import Any

import torch

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
"""Values that are the same if they and their types are equal."""


def key_of(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Key:
    """The same for calls that look the same."""
    parts: list[Any] = [op]
    storages: list[int] = []
    _add(args, parts, storages)
    if kwargs:
        parts.append(tuple(kwargs))
        _add(kwargs.values(), parts, storages)
    if len(storages) > 1 and (shared := sharing(storages)) is not None:
        parts.append(shared)
    return tuple(parts)


def sharing(storages: list[int]) -> tuple[int, ...] | None:
    """Which tensors lie in one memory: equal numbers for those that do; None if none do."""
    if len(set(storages)) == len(storages):
        return None
    first: dict[int, int] = {}
    return tuple([first.setdefault(storage, len(first)) for storage in storages])


def _add(values: Iterable[Any], parts: list[Any], storages: list[int]) -> None:
    for value in values:
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            try:
                storages.append(value.untyped_storage()._cdata)
                parts += (
                    kind,
                    value.shape,
                    value.dtype,
                    value.is_contiguous() or value.stride(),
                    value.storage_offset(),
                    value.requires_grad,
                    value.is_cpu or value.device,
                )
            except Exception:  # each kind of tensor without memory raises its own
                parts.append(_careful_part(value))
        elif kind in _PLAIN:
            parts += (kind, value)
        elif kind is float:
            # A nan equals nothing, not even the one of the call before.
            parts += (float, value if value == value else "nan")  # noqa: PLR0124
        elif kind is list or kind is tuple:
            parts += (kind, len(value))
            _add(value, parts, storages)
        elif kind in _NAMED:
            parts.append(value)
        else:
            parts.append(_careful_part(value))


def _careful_part(value: Any) -> Hashable:
    """Of a value that is none of the usual ones: as much as it tells without raising."""
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
    """The same for calls that differ in nothing but the values of floats."""
    return tuple([None if type(part) is float else part for part in key])


def shapes_of(result: Any) -> Key:
    """The shapes that came back, for operators where the inputs do not decide them."""
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
        """The number of the call and its place."""
        self.known = known
        """All calls from that place."""
        self.call: Any = None
        """The operator, where a call can be compared with this one."""
        self.fits: Fits = _fits_nothing
        """Whether other arguments of the operator make the same call."""
        self.is_learned = False

    def learn(self, call: Any, args: Args, kwargs: Keywords, *, folded: bool) -> None:
        """Keep what it looks like, unless only a key can tell; `folded` lets floats be any."""
        self.is_learned = True
        try:
            fits = _comparison(args, kwargs or {}, folded)
        except Exception:  # each kind of tensor without memory or sizes raises its own
            return
        if fits is not None:
            self.call, self.fits = call, fits

    def learn_from(self, other: KnownCall) -> None:
        """The same call from another place looks the same."""
        self.call, self.fits, self.is_learned = other.call, other.fits, True


class KnownCalls(dict[Key, KnownCall]):
    """The calls of one place, by their keys."""

    __slots__ = ("folded", "place")

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place
        self.folded: dict[Key, KnownCall] = {}
        """Calls whose floats are not told apart any more, by the key without them."""


def _comparison(args: Args, keywords: Mapping[str, Any], folded: bool) -> Fits | None:
    first: dict[int, int] = {}
    at, again, others = [], [], []
    for index, value in enumerate(args):
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            if value.is_nested:  # torch's comparison crashes on it
                return None
            # It takes no tensor twice.
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
    count, tensors_of, rest_of = len(args), _picking(at), _picking(others)
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
            # Types first: a tensor is not to be compared by `==`.
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
    """Whether as many others look the same."""
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    # None: all sizes and strides are as they are here.
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
    """To compare others with; a list may be the program's own, and change."""
    if type(value) is list:
        return list(value)
    return _Anything() if folded and type(value) is float else value


def _is_compared(value: Any) -> bool:
    if type(value) is list:
        # The operator's schema gives all of them one type.
        return all(type(item) in _NUMBERS for item in value)
    return type(value) in _COMPARED


def _picking(indices: list[int]) -> Callable[[Args], Args]:
    """A function from a tuple to the tuple of these of its items."""
    if len(indices) == 1:
        (only,) = indices
        return lambda values: (values[only],)
    return itemgetter(*indices) if indices else tuple


def _fits_nothing(*_: object) -> bool:
    return False
