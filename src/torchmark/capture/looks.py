"""What tensors look like: everything that a trace says of a tensor but its memory and contents.

A model has few kinds of tensors and many calls. What follows from the layout of a tensor is worked
out once, and the key of a call has one object for each tensor, which is quick to hash and compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorLook:
    """What follows from the layout of a strided tensor. Equal looks are the same object."""

    body: dict[str, Any]
    """The description without storage and contents."""

    reach: int
    """Bytes from the start of the storage to the last element."""

    elements: tuple[Any, ...]
    """Equal for tensors that have the same contents if they have the same storage."""


class TensorLooks:
    """The looks of a capture. Several threads may use it."""

    def __init__(self) -> None:
        self._looks: dict[tuple[Any, ...], TensorLook] = {}

    def find(self, tensor: torch.Tensor) -> TensorLook:
        """The look of a strided tensor. Others raise errors of several types."""
        # Strides and device only if they are unusual: a tuple of strides takes time to make.
        key = (
            type(tensor),
            tensor.shape,
            tensor.dtype,
            tensor.is_contiguous() or tensor.stride(),
            tensor.storage_offset(),
            tensor.requires_grad,
            tensor.is_cpu or tensor.device,
            tensor.is_conj(),
            tensor.is_neg(),
        )
        look = self._looks.get(key)
        if look is None:
            look = self._looks.setdefault(key, _look_of(tensor))
        return look


def body_of(tensor: torch.Tensor) -> dict[str, Any]:
    """What tensors of all layouts have."""
    body: dict[str, Any] = {"shape": list(tensor.shape), "dtype": short_name(tensor.dtype)}
    if not tensor.is_cpu:
        body["device"] = str(tensor.device)
    if tensor.requires_grad:
        body["requires_grad"] = True
    if type(tensor) is not torch.Tensor and isinstance(tensor, torch.nn.Parameter):
        body["parameter"] = True
    return body


def _look_of(tensor: torch.Tensor) -> TensorLook:
    body, shape, strides = body_of(tensor), tensor.shape, tensor.stride()
    offset, is_contiguous = tensor.storage_offset(), tensor.is_contiguous()
    if not is_contiguous:
        body["strides"] = list(strides)
    if offset:
        body["offset"] = offset
    if tensor.is_conj():
        body["conj"] = True
    if tensor.is_neg():
        body["neg"] = True
    reach = tensor.numel() if is_contiguous else _reach(shape, strides)
    elements: tuple[Any, ...] = tensor.dtype, offset, shape, strides
    if tensor.dtype.is_floating_point and not is_square(shape) and _has_no_gaps(shape, strides):
        elements = tensor.dtype, offset, tensor.numel()
    return TensorLook(
        body=body,
        reach=int((offset + reach) * tensor.element_size()) if reach else 0,
        elements=elements,
    )


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one in memory."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _has_no_gaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill a part of the memory, and each is there once."""
    reached = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size != 1 and stride != reached:
            return False
        reached *= size
    return True


def is_square(shape: Sequence[int]) -> bool:
    """Whether this is a square matrix or a batch of them."""
    return len(shape) >= 2 and shape[-1] == shape[-2] > 1


def short_name(value: object) -> str:
    return str(value).removeprefix("torch.")
