"""What comes back: as long as it was, where contents decide that.

A record has the number of true ones among booleans, and the sum and the different ones among
integers. How many floats are 0, or equal to each other, it has only in what came back.
"""

from typing import Any, Dict, Iterator, List

import torch

from torchmark_probe.replay.recorded_arguments import tensor_records

_UNIQUE = ("_unique", "_unique2", "unique_consecutive")
_UNIQUE_ALONG = ("unique_dim", "unique_dim_consecutive")


def fit_contents(call: Dict[str, Any], tensors: List[torch.Tensor]) -> None:
    """Change the first tensor of a call so that its output has the recorded size.

    Most operators pass unchanged; so do contents that are known exactly, and tensors
    that show an element several times.
    """
    name = call["op"].split(".")[1]
    if name not in ("nonzero", *_UNIQUE, *_UNIQUE_ALONG):
        return
    records = list(tensor_records([call["args"], *call["kwargs"].values()]))
    outputs = list(tensor_records(call.get("outputs")))
    if not records or not outputs or "list" in (records[0].get("values") or {}):
        return
    tensor, shape = tensors[0], outputs[0].get("shape")
    if not shape or tensor.numel() == 0 or tensor.dtype == torch.bool or tensor.is_meta:
        return
    if tensor.layout is not torch.strided:
        return
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        return
    generator = torch.Generator().manual_seed(0)
    if name == "nonzero":
        _leave_nonzero(tensor, shape[0], generator)
    elif name in _UNIQUE:
        _spread(tensor, tensor.numel(), shape[0], "consecutive" in name, generator)
    elif name in _UNIQUE_ALONG:
        dimension = call["args"][1]
        along = tensor.movedim(dimension, -1)
        _spread(along, along.shape[-1], shape[dimension], "consecutive" in name, generator)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a value, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)


def _leave_nonzero(tensor: torch.Tensor, count: int, generator: torch.Generator) -> None:
    if not 0 <= count <= tensor.numel():
        return
    tensor.masked_fill_(tensor == 0, 1)
    zero = torch.zeros(tensor.numel(), dtype=torch.bool)
    zero[torch.randperm(tensor.numel(), generator=generator)[count:]] = True
    tensor.masked_fill_(zero.reshape(tensor.shape), 0)


def _spread(
    tensor: torch.Tensor, count: int, different: int, in_runs: bool, generator: torch.Generator
) -> None:
    """Along the last dimension, or over all if `count` is that: so many different values."""
    if not 0 < different <= count:
        return
    index = torch.arange(count) * different // count
    if not in_runs:
        index = index[torch.randperm(count, generator=generator)]
    low, high = float(tensor.min()), float(tensor.max())
    values = torch.linspace(low, high if high > low else low + different, different)
    if not tensor.is_floating_point():
        values = int(low) + torch.arange(different)
    chosen = values[index]
    tensor.copy_(chosen.reshape(tensor.shape) if count == tensor.numel() else chosen)
