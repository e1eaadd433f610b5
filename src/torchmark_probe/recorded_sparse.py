"""Tensors that are not strided, put together from their parts."""

from typing import Dict

import torch

from torchmark_probe.recorded_errors import CannotRebuildError, DamagedRecordError
from torchmark_probe.recorded_tensors import Described

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
    try:
        return _joined(name, tensor, parts)
    except (RuntimeError, TypeError) as error:
        raise DamagedRecordError("parts that make no {} tensor: {}".format(name, error)) from error


def _joined(name: str, tensor: Described, parts: Dict[str, torch.Tensor]) -> torch.Tensor:
    if name == "sparse_coo":
        coo = torch._sparse_coo_tensor_unsafe(parts["indices"], parts["values"], tensor.shape)
        return coo._coalesced_(tensor.coalesced)
    compressed, plain = _COMPRESSED[name]
    return torch._sparse_compressed_tensor_unsafe(
        parts[compressed],
        parts[plain],
        parts["values"],
        tensor.shape,
        dtype=tensor.dtype,
        layout=tensor.layout,
    )
