"""Tensors that are not strided, put together from their parts.

Indices that are known by their range alone are placed anew: within the tensor's own sizes, and in
the order that its layout asks for, since kernels trust it.
"""

from typing import Any, Dict

import torch

from torchmark_probe.replay.errors import CannotRebuildError, DamagedRecordError
from torchmark_probe.replay.integers import different
from torchmark_probe.replay.tensors import Described

_COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def put_together(tensor: Described, parts: Dict[str, torch.Tensor]) -> torch.Tensor:
    name = str(tensor.layout).rpartition(".")[2]
    if name != "sparse_coo" and name not in _COMPRESSED:
        raise CannotRebuildError("tensors of the layout {} are not made again".format(name))
    wanted = ("indices",) if name == "sparse_coo" else _COMPRESSED[name]
    missing = {*wanted, "values"} - parts.keys()
    if missing:
        raise DamagedRecordError(
            "a {} tensor without its {}".format(name, " and ".join(sorted(missing)))
        )
    if tensor.device.type != "meta":
        _place(name, tensor, parts)
    try:
        return _join(name, tensor, parts)
    except (RuntimeError, TypeError) as error:
        raise DamagedRecordError("parts that make no {} tensor: {}".format(name, error)) from error


def _place(name: str, tensor: Described, parts: Dict[str, torch.Tensor]) -> None:
    if name == "sparse_coo":
        if not _is_exact(tensor.parts["indices"]):
            _place_coo(tensor, parts["indices"])
        return
    compressed, plain = (parts[key] for key in _COMPRESSED[name])
    if plain.numel() and not _is_exact(tensor.parts[_COMPRESSED[name][1]]):
        _place_compressed(compressed, plain)


def _is_exact(part: Described) -> bool:
    return "list" in (part.values or {})


def _place_coo(tensor: Described, indices: torch.Tensor) -> None:
    sizes = tensor.shape[: len(indices)]
    for row, size in zip(indices, sizes):
        row.remainder_(max(size, 1))
    places = 1
    for size in sizes:
        places *= size
    if not tensor.coalesced or indices.shape[1] > places:
        return
    generator = torch.Generator().manual_seed(0)
    chosen = different(indices.shape[1], 0, places - 1, generator).sort()[0]
    for row, size in zip(reversed(indices), reversed(sizes)):
        row.copy_(chosen % size)
        chosen = torch.div(chosen, size, rounding_mode="floor")


def _place_compressed(compressed: torch.Tensor, plain: torch.Tensor) -> None:
    """As many elements in every row, at equal distances: columns up to the largest that was."""
    rows, count, columns = compressed.shape[-1] - 1, plain.shape[-1], int(plain.max()) + 1
    starts = torch.arange(rows + 1) * count // max(rows, 1)
    lengths = starts[1:] - starts[:-1]
    within = torch.arange(count) - starts[:-1].repeat_interleave(lengths)
    compressed.copy_(starts)
    plain.copy_(within * columns // lengths.repeat_interleave(lengths))


def _join(name: str, tensor: Described, parts: Dict[str, torch.Tensor]) -> torch.Tensor:
    aten = torch.ops.aten
    if name == "sparse_coo":
        make: Any = aten._sparse_coo_tensor_unsafe  # noqa: SLF001 - contents are not looked at
        coo: torch.Tensor = make(parts["indices"], parts["values"], list(tensor.shape))
        return aten._coalesced_(coo, tensor.coalesced)  # type: ignore[no-any-return]
    compressed, plain = _COMPRESSED[name]
    make = aten._sparse_compressed_tensor_unsafe  # noqa: SLF001
    indices = (parts[compressed], parts[plain])
    made: torch.Tensor = make(
        *indices, parts["values"], list(tensor.shape), dtype=tensor.dtype, layout=tensor.layout
    )
    return made
