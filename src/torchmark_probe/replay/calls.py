"""Recreates a recorded call: the operator, and arguments like the recorded ones.

    settle()
    operator, args, kwargs = rebuild(text)
    differences = mismatches(text, args, kwargs, operator(*args, **kwargs))

The text is the JSON of "call" in docs/reference/trace-format.md. Nothing in it is evaluated, and no
memory is allocated before all sizes are checked. The same text and seed give the same bytes. If a
call cannot be recreated, `CannotRebuildError` says why. `values` is the file of recorded contents;
a call whose contents are missing from it cannot be recreated.

A trace has the calls that autograd had already dispatched, so they run below autograd again:
`settle` prepares a process for this. Gradients are not switched off, because a few operators check
whether they are enabled, and keep what a backward pass would need (such as the layers of an LSTM).

Unknown contents are chosen so that most operators run. Floats are in [0, 1). Integers are between 0
and the smallest positive size of the call's other tensors, so they are valid indices into any of
them. Arguments called `…offsets` or `c…_indices` are ascending integers from 0. Half of the
booleans are true. The argument of an operator called `…cholesky…` is symmetric, although the
operator may only read one half of it. In an argument called `rois`, as torchvision's operators have
it, each row is a region of the first image, with its smaller corner first.
"""

import json
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from torchmark_probe.replay import records, tensors
from torchmark_probe.replay.contents import (
    fill,
    fill_exactly,
    fit_contents,
    make_regions,
    read_contents,
    set_apart,
)
from torchmark_probe.replay.records import DamagedRecordError
from torchmark_probe.replay.tensors import Described, describe_tensors, key_of, tensors_of, view_of
from torchmark_probe.zygote.handlers import limit_memory

Call = Tuple[Any, List[Any], Dict[str, Any]]
"""An operator, its positional arguments and its keyword arguments."""


def settle() -> None:
    """Prepare this process for replays: once, before the first of them.

    From now on, this thread calls operators below autograd, and denormal numbers count as 0. An
    operator that works in place (`mul_(0.9)`) runs many thousands of times on its own result, which
    becomes that small, and a processor takes many times as long for such numbers.

    If a result of unknown size does not fit into the free memory, the call now raises an error;
    otherwise the kernel would choose a process to kill.
    """
    limit_memory(tensors.free_bytes())
    if not _guards:
        guard: Any = torch._C._AutoDispatchBelowAutograd()  # noqa: SLF001 - no public way
        if hasattr(guard, "__enter__"):  # in an older torch it is active while it exists
            guard.__enter__()
        _guards.append(guard)
    torch.set_flush_denormal(True)


_guards: List[Any] = []
"""Keeps this process below autograd."""


def rebuild(text: str, seed: int = 0, values: str = "") -> Call:
    """Return the operator and its arguments; tensors of an accelerator are on the CPU."""
    call = parse_call(text)
    operator = records.operator_named(call["op"])
    names = [*records.argument_names(operator), *([""] * len(call["args"]))]
    given = [*zip(names, call["args"]), *call["kwargs"].items()]
    described = [
        tensor
        for name, value in given
        for tensor in describe_tensors(value, name, has_values=values != "")
    ]
    memories = [memory for tensor in described for memory in tensor.memories()]
    outputs = describe_tensors(call.get("outputs"))
    tensors.check_memory([*memories, *(part for each in outputs for part in each.memories())])
    with torch.no_grad():
        drawn = _draw(call["op"], memories, seed, dict(given).get("ignore_index"))
        _read_values(drawn, memories, values)
        made = [_make(tensor, drawn) for tensor in described]
        if not (described and described[0].exact):
            fit_contents(call, made)
        rest = iter(made)
        args = records.argument(call["args"], rest)
        kwargs = {name: records.argument(value, rest) for name, value in call["kwargs"].items()}
    if kwargs.get("pin_memory") and not torch.cuda.is_available():
        kwargs["pin_memory"] = False  # there is no accelerator to pin it for
    return _repeatable(operator), args, kwargs


def parse_call(text: str) -> Dict[str, Any]:
    """Parse the text of a call, and check its outermost structure."""
    try:
        call = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedRecordError(f"the call is not JSON: {error}") from error
    if not isinstance(call, dict):
        raise DamagedRecordError(f"{records.shown(call)} is not a call")
    call = {"op": None, "args": [], "kwargs": {}, **call}
    if not isinstance(call["args"], list) or not isinstance(call["kwargs"], dict):
        raise DamagedRecordError("the args of a call must be a list, and its kwargs an object")
    return call


def _repeatable(operator: Any) -> Any:
    """Return the operator, run on an alias if it would change the shape of its argument.

    `unsqueeze_` adds a dimension to its argument at every run, which would soon have too many.
    """
    if not any("inplace_view" in str(tag) for tag in getattr(operator, "tags", ())):
        return operator

    def on_an_alias(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return operator(torch.ops.aten.alias(self), *args, **kwargs)

    return on_an_alias


def _draw(op: str, memories: List[Described], seed: int, ignored: Any) -> Dict[Any, torch.Tensor]:
    """Make the contents of every storage, as bytes; `ignored` is the label that a loss ignores."""
    drawn = tensors.buffers(memories)
    generator = torch.Generator().manual_seed(seed)
    seen = set()
    # The largest tensor of a storage comes first, so that facts about parts of it stay true.
    for memory in sorted(memories, key=lambda each: -each.numel):
        look = (key_of(memory), memory.dtype, memory.shape, memory.strides, memory.offset)
        if look not in seen and not memory.is_meta and not memory.exact:
            seen.add(look)
            known = _known(op, memory, memories)
            if type(ignored) is int and memory.argument == "target":
                known = set_apart(known, ignored, _classes(memories), memory.numel)
            made = view_of(drawn[key_of(memory)], memory)
            fill(made, known, generator)
            if memory.argument == "rois":
                make_regions(made)
    return drawn


def _read_values(drawn: Dict[Any, torch.Tensor], memories: List[Described], values: str) -> None:
    """Write recorded contents over the random ones; tensors of a storage have equal contents."""
    for memory in memories:
        if memory.exact and not memory.is_meta:
            contents = read_contents(values, memory.exact, memory.dtype, memory.shape)
            # They are what the program saw; in memory the negative bit is not applied.
            contents = contents.conj_physical() if memory.conj else contents
            contents = contents.neg() if memory.neg else contents
            fill_exactly(view_of(drawn[key_of(memory)], memory), contents)


def _known(op: str, memory: Described, memories: List[Described]) -> Dict[str, Any]:
    """Return the facts about the contents, from the record or from the rules above."""
    known = _guess(memory, memories) if memory.values is None else memory.values
    is_square = len(memory.shape) > 1 and memory.shape[-1] == memory.shape[-2]
    if "cholesky" in op and is_square:
        known = dict(known, symmetric=True)
    return known


def _classes(memories: List[Described]) -> int:
    """Return how many labels a loss has scores for: the second dimension, or the only one."""
    scores = next((each.shape for each in memories if each.argument == "self"), ())
    return scores[min(1, len(scores) - 1)] if scores else 0


def _guess(memory: Described, memories: List[Described]) -> Dict[str, Any]:
    dtype = memory.dtype
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.bool:
        return {}
    others = [each for each in memories if each is not memory] or [memory]
    sizes = [size for each in others for size in each.shape if size > 0]
    is_offsets = memory.argument.endswith(("offsets", "crow_indices", "ccol_indices"))
    return {
        "min": 0,
        "max": min(sizes, default=1) - 1,
        "order": "ascending" if is_offsets else "none",
    }


def _make(tensor: Described, drawn: Dict[Any, torch.Tensor]) -> torch.Tensor:
    if not tensor.is_strided:
        parts = {name: _make(part, drawn) for name, part in tensor.parts.items()}
        return tensors.put_together(tensor, parts)
    made = view_of(drawn[key_of(tensor)], tensor)
    if tensor.conj:
        made = made.conj()
    if tensor.neg:
        made = torch.ops.aten._neg_view(made)  # noqa: SLF001 - no other way sets the bit
    if tensor.requires_grad and (made.is_floating_point() or made.is_complex()):
        made.requires_grad_()
    return made


def mismatches(text: str, args: Sequence[Any], kwargs: Dict[str, Any], result: Any) -> List[str]:
    """Return sentences about shapes, dtypes, strides and shared memory that differ from the record.

    `text` is the argument of `rebuild`, `args` and `kwargs` are its results. Empty if the outputs
    were not recorded.
    """
    call = parse_call(text)
    if "outputs" not in call:
        return []
    wanted = describe_tensors(call["outputs"])
    given = tensors_of(result)
    if len(wanted) != len(given):
        return [f"{len(given)} output tensors instead of the recorded {len(wanted)}"]
    arguments = describe_tensors([call["args"], *call["kwargs"].values()])
    inputs = {
        record.storage: tensor
        for record, tensor in zip(arguments, tensors_of([args, kwargs]))
        if record.storage is not None and record.is_strided
    }
    return [
        f"output {number}: {difference}"
        for number, (record, tensor) in enumerate(zip(wanted, given))
        for difference in _differences(record, tensor, inputs)
    ]


def complete_record(
    text: str, args: Sequence[Any], kwargs: Dict[str, Any], result: Any
) -> Optional[Dict[str, Any]]:
    """Return the call with its schema and this result as its outputs, if they were not recorded.

    The arguments are those of `mismatches`. None if they were recorded, or if a tensor in the
    result is not strided.
    """
    call, given = parse_call(text), tensors_of(result)
    if "outputs" in call or any(each.layout is not torch.strided for each in given):
        return None
    storages: Dict[int, int] = {}
    recorded = records.tensor_records([call["args"], *call["kwargs"].values()])
    for record, tensor in zip(recorded, tensors_of([args, kwargs])):
        if tensor.layout is torch.strided and _address(tensor):
            record["storage"] = storages.setdefault(_address(tensor), len(storages))
    outputs: List[Dict[str, Any]] = []
    for tensor in given:
        look: Dict[str, Any] = {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).partition(".")[2],
        }
        if not tensor.is_contiguous():
            look["strides"] = list(tensor.stride())
        if _address(tensor) in storages:
            look["storage"] = storages[_address(tensor)]
        outputs.append({"tensor": look})
    schema = str(records.operator_named(call["op"])._schema)  # noqa: SLF001 - nothing else tells
    return dict(call, schema=schema, outputs=outputs)


def _differences(
    record: Described, tensor: torch.Tensor, inputs: Dict[int, torch.Tensor]
) -> Iterator[str]:
    for what, is_given, is_recorded in (
        ("shape", list(tensor.shape), list(record.shape)),
        ("dtype", tensor.dtype, record.dtype),
        ("layout", tensor.layout, record.layout),
    ):
        if is_given != is_recorded:
            yield f"its {what} is {is_given} instead of the recorded {is_recorded}"
            return
    if not record.is_strided:
        return
    if _telling(record.shape, tensor.stride()) != _telling(record.shape, record.strides):
        yield (
            f"its strides are {list(tensor.stride())} "
            f"instead of the recorded {list(record.strides)}"
        )
    source = None if record.storage is None else inputs.get(record.storage)
    has_address = record.numel > 0 and not tensor.is_meta
    if source is not None and has_address and _address(tensor) != _address(source):
        yield "it is not a view of an argument, but the recorded output was"


def _telling(shape: Sequence[int], strides: Sequence[int]) -> List[int]:
    """Return the strides that matter: those of dimensions with several elements."""
    if 0 in shape:
        return []
    return [stride for size, stride in zip(shape, strides) if size > 1]


def _address(tensor: torch.Tensor) -> int:
    """Return where its memory begins, in a way that does not warn in this version of torch."""
    look: Any = tensor
    storage = look.untyped_storage() if hasattr(look, "untyped_storage") else look.storage()
    return int(storage.data_ptr())
