"""Tensors that are not strided, put together from their parts."""

from typing import Any, Dict

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
