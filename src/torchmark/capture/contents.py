"""What the trace says of a tensor's content: ranges, order, how many are true.

Looked at once per distinct call, by the mode's owner with all modes off. A question that a dtype or
a device cannot answer leaves its key out.
"""

from __future__ import annotations

from typing import Any

import torch

LONGEST_LIST = 64
"""Elements that are kept one by one: small index tensors decide what an operator does."""

LONGEST_SORT = 1 << 24
"""Elements that are sorted to count the different ones; more would take seconds."""


def contents_of(tensor: torch.Tensor) -> dict[str, Any]:
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
    known: dict[str, Any] = {}
    low, high = (float(bound) for bound in torch.aminmax(tensor))
    if low - low != 0 or high - high != 0:  # one of them is not finite
        known["nonfinite"] = True
        finite = tensor[torch.isfinite(tensor)]
        low, high = (float(bound) for bound in torch.aminmax(finite)) if len(finite) else (0.0, 0.0)
    known |= {"min": low, "max": high}
    square = tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1
    if square and torch.equal(tensor, tensor.mT):
        known["symmetric"] = True
    return known


def _integers(tensor: torch.Tensor) -> dict[str, Any]:
    if tensor.numel() == 0:
        return {"sum": 0, "distinct": 0, "order": "ascending", "list": []}
    flat = tensor.reshape(-1).to(torch.int64)
    low, high = (int(bound) for bound in torch.aminmax(flat))
    known: dict[str, Any] = {"min": low, "max": high, "sum": int(flat.sum())}
    if flat.numel() <= LONGEST_SORT:
        known["distinct"] = len(torch.unique(flat))
    known["order"] = _order(flat)
    if tensor.dim() == 1 and known["order"] == "ascending" and int(flat[0]) == 0:
        known["offsets"] = True
    return known | _list_of(flat)


def _order(flat: torch.Tensor) -> str:
    before, after = flat[:-1], flat[1:]
    if bool((before <= after).all()):
        return "ascending"
    return "descending" if bool((before >= after).all()) else "none"


def _list_of(tensor: torch.Tensor) -> dict[str, Any]:
    return {"list": tensor.reshape(-1).tolist()} if tensor.numel() <= LONGEST_LIST else {}
