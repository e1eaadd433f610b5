"""What a replayed call gave, against what the record says that it gave."""

from typing import Any, Dict, Iterator, List, Sequence

import torch

from torchmark_probe.replay.arguments import tensor_records
from torchmark_probe.replay.calls import parse_call
from torchmark_probe.replay.contents import tensors_in
from torchmark_probe.replay.tensors import Described, describe_tensor


def mismatches(
    text: str, args: Sequence[Any], kwargs: Dict[str, Any], result: Any, device: str = "cpu"
) -> List[str]:
    """Sentences about shapes, dtypes, strides and shared memory that differ from the record's.

    `text` is the call as `rebuild` took it, `args` and `kwargs` are what that gave. None where
    the record does not know what came back.
    """
    call = parse_call(text)
    if "outputs" not in call:
        return []
    wanted = [describe_tensor(record, "", device) for record in tensor_records(call["outputs"])]
    given = list(tensors_in(result))
    if len(wanted) != len(given):
        return ["{} tensors came back, {} are recorded".format(len(given), len(wanted))]
    inputs = _inputs_by_storage(call, [*tensors_in(args), *tensors_in(kwargs)], device)
    sentences = []  # type: List[str]
    for number, (record, tensor) in enumerate(zip(wanted, given)):
        for difference in _differences(record, tensor, inputs):
            sentences.append("output {}: {}".format(number, difference))
    return sentences


def _differences(
    record: Described, tensor: torch.Tensor, inputs: Dict[int, torch.Tensor]
) -> Iterator[str]:
    for what, is_given, is_recorded in (
        ("shape", list(tensor.shape), list(record.shape)),
        ("dtype", tensor.dtype, record.dtype),
        ("layout", tensor.layout, record.layout),
    ):
        if is_given != is_recorded:
            yield "its {} is {}, recorded {}".format(what, is_given, is_recorded)
            return
    if not record.is_strided:
        return
    if _telling(record.shape, tensor.stride()) != _telling(record.shape, record.strides):
        yield "its strides are {}, recorded {}".format(list(tensor.stride()), list(record.strides))
    source = None if record.storage is None else inputs.get(record.storage)
    if source is not None and record.numel and not _share_memory(tensor, source):
        yield "it is no view of an argument, which it was"


def _telling(shape: Sequence[int], strides: Sequence[int]) -> List[int]:
    """The strides that say anything: not those of one element, nor of no elements."""
    if 0 in shape:
        return []
    return [stride for size, stride in zip(shape, strides) if size > 1]


def _inputs_by_storage(
    call: Dict[str, Any], tensors: List[torch.Tensor], device: str
) -> Dict[int, torch.Tensor]:
    records = [
        describe_tensor(record, "", device)
        for record in tensor_records([call["args"], *call["kwargs"].values()])
    ]
    return {
        record.storage: tensor
        for record, tensor in zip(records, tensors)
        if record.storage is not None and record.is_strided
    }


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.layout is not torch.strided or one.device.type == "meta":
        return True  # has no address to compare
    return _address(one) == _address(other)


def _address(tensor: torch.Tensor) -> int:
    """Where its memory begins; each torch asks for it without a warning in its own way."""
    look: Any = tensor
    storage = look.untyped_storage() if hasattr(look, "untyped_storage") else look.storage()
    return int(storage.data_ptr())
