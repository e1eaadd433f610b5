"""What tells one distinct call from another, as a tuple that is cheap to make and to hash.

This runs for every call of the captured program, so it asks a tensor only for what the trace keeps
apart, and for strides and devices only where they are not the usual ones: `True` stands for the
strides of a contiguous tensor, and for the CPU. A sparse, nested or foreign tensor raises here and
takes the careful way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

Key = tuple[Any, ...]

_PLAIN = frozenset({int, bool, str, type(None), complex})
_NAMED = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})
_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter


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
                parts.append(careful_part(value))
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
            parts.append(careful_part(value))


def careful_part(value: Any) -> Hashable:
    """Of a value that is none of the usual ones: as much as it tells without raising."""
    parts: list[Any] = [type(value)]
    names = ("dtype", "layout", "device", "requires_grad", "is_quantized", "shape")
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            for name in names:
                parts.append(_ask(lambda name=name: getattr(value, name)))
            for ask in (value._nnz, value.is_coalesced, value.stride, value.storage_offset):
                parts.append(_ask(ask))
    elif isinstance(value, torch.Generator):
        parts.append(value.device)
    elif isinstance(value, (int, float, str)):
        parts.append(value)
    return tuple(parts)


def _ask(ask: Any) -> Hashable:
    try:
        answer: Hashable = ask()
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
        return (_ask(lambda: tuple(result.shape)),)
    if isinstance(result, (list, tuple)):
        return tuple([shape for item in result for shape in shapes_of(item)])
    return ()
