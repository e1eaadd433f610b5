"""Fills tensors: with contents from a file of recorded values, or with random contents.

Random contents have the recorded properties.

Floats are between the recorded minimum and maximum, so that operators with a domain (log,
bernoulli) stay in it; without a record they are in [0, 1). A symmetric matrix becomes positive
definite if these bounds allow it. Booleans have the recorded number of true ones. Integers keep the
range, the order, the sum and the number of different values. These decide which rows an index
reads, how long the output of repeat_interleave or unique is, and whether offsets are valid. Within
a range, 0 is left out unless the record shows that it was there, because a call may divide by it.

How many floats are 0 or equal to each other is only visible in the recorded outputs. If the length
of an output depends on it, the contents are changed to produce the recorded length.
"""

import functools
import mmap
import warnings
from typing import Any, Dict, List, Sequence, Tuple

import torch

from torchmark_probe.replay.records import (
    CannotRebuildError,
    DamagedRecordError,
    as_float,
    shown,
    tensor_records,
)
from torchmark_probe.replay.values_file import WrongValuesError, find_entry, read_entries

_AT_ONCE = 2**22
"""Number of elements that are drawn at once if they cannot be drawn in place."""

_MOST = 2**24
"""For more integers, only range and order are kept: the rest would need several times the memory of
the tensor."""

_FAR = 2**61


def fill(tensor: torch.Tensor, known: Dict[str, Any], generator: torch.Generator) -> None:
    """Write random contents with the properties `known` (`values` in the trace format)."""
    if tensor.numel() == 0:
        return
    if tensor.is_complex():
        fill(torch.view_as_real(tensor), {}, generator)
        return
    if isinstance(known.get("list"), list):
        fill_exactly(tensor, _exact(known["list"], tensor))
        return
    once = _shown_once(tensor, tensor.stride())
    repeats = tensor.numel() // once.numel()
    once = _span(once) if _overlaps(once) else once
    if tensor.dtype == torch.bool:
        _fill_booleans(once, _count(known.get("true"), tensor.numel()) // repeats, generator)
    elif tensor.is_floating_point():
        _fill_floats(once, known, generator)
    else:
        if type(known.get("sum")) is int:
            known = dict(known, sum=known["sum"] // repeats)
        _copy(once, _draw_integers(once.numel(), known, generator, repeats))


def fill_exactly(tensor: torch.Tensor, contents: torch.Tensor) -> None:
    """Write these contents; elements that appear several times in a tensor are written once."""
    strides = tensor.stride()
    _copy(_shown_once(tensor, strides), _shown_once(contents, strides))


def read_contents(path: str, name: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Return the contents of this name from a file of recorded values, in row order, read-only."""
    try:
        kind = str(dtype).rpartition(".")[2]
        entry = find_entry(_entries(path), name, kind, shape)
    except WrongValuesError as error:
        raise CannotRebuildError(f"its recorded values cannot be used: {error}") from error
    if not entry.size:
        return torch.empty(tuple(shape), dtype=dtype)
    page = entry.start % mmap.ALLOCATIONGRANULARITY
    with open(path, "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about memory that is not writable
        memory = mmap.mmap(
            file.fileno(), page + entry.size, access=mmap.ACCESS_READ, offset=entry.start - page
        )
        raw = torch.frombuffer(memory, dtype=torch.uint8, count=entry.size, offset=page)
    if dtype is torch.bool:
        return (raw != 0).reshape(tuple(shape))  # any nonzero byte is true
    if entry.start % 16:  # not aligned to the size of the largest element
        raw = raw.clone()
    return raw.view(dtype).reshape(tuple(shape))


_entries = functools.lru_cache(maxsize=1)(read_entries)
"""The entries of the file; all calls of a process have their values in one file."""


def _shown_once(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """Return a view with only one of the elements that these strides show several times."""
    for dimension, stride in enumerate(strides):
        if stride == 0 and tensor.shape[dimension] > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements share memory, as in a tensor of sliding windows."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def _span(tensor: torch.Tensor) -> torch.Tensor:
    """Return all the memory between the first and the last element."""
    length = 1 + sum(stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape))
    return tensor.as_strided((length,), (1,))


def _exact(elements: List[Any], tensor: torch.Tensor) -> torch.Tensor:
    if len(elements) != tensor.numel() or not all(type(each) in (int, bool) for each in elements):
        raise DamagedRecordError(
            f"{shown(elements)} are not the {tensor.numel()} elements of a tensor"
        )
    try:
        return torch.tensor(elements, dtype=tensor.dtype).reshape(tensor.shape)
    except (RuntimeError, OverflowError) as error:
        raise DamagedRecordError(f"{shown(elements)} do not fit into {tensor.dtype}") from error


def _count(true: Any, most: int) -> int:
    if true is None:
        return most // 2
    if type(true) is not int or not 0 <= true <= most:
        raise DamagedRecordError(f"{shown(true)} of {most} booleans are true")
    return true


def _fill_booleans(tensor: torch.Tensor, true: int, generator: torch.Generator) -> None:
    """Set exactly this number of elements to true, at random places."""
    count = tensor.numel()
    chunks = []
    for start in range(0, count, _AT_ONCE):
        end = min(count, start + _AT_ONCE)
        chunk = torch.zeros(end - start, dtype=torch.bool)
        share = true * end // count - true * start // count
        chunk[torch.randperm(end - start, generator=generator)[:share]] = True
        chunks.append(chunk)
    _copy(tensor, torch.cat(chunks))


def _fill_floats(tensor: torch.Tensor, known: Dict[str, Any], generator: torch.Generator) -> None:
    low, high = _ends(known, tensor.dtype)
    if known.get("symmetric") is True and tensor.dim() >= 2 and tensor.shape[-1] > 1:
        _copy(tensor, _symmetric(tensor.shape, low, high, generator))
        return
    if tensor.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        _draw(tensor, low, high, generator)
    else:
        _copy(tensor, _draw(torch.empty(tensor.shape), low, high, generator))
    if "min" in known and "max" in known:
        first, last = (0,) * tensor.dim(), (-1,) * tensor.dim()
        _copy(tensor[last], torch.tensor(high, dtype=torch.float64))
        _copy(tensor[first], torch.tensor(low, dtype=torch.float64))


def _ends(known: Dict[str, Any], dtype: torch.dtype) -> Tuple[float, float]:
    low, high = as_float(known.get("min", 0.0)), as_float(known.get("max", 1.0))
    if not low <= high:
        raise DamagedRecordError(f"there are no floats from {low} to {high}")
    largest = torch.finfo(dtype).max
    return max(-largest, min(low, largest)), max(-largest, min(high, largest))


def _draw(
    tensor: torch.Tensor, low: float, high: float, generator: torch.Generator
) -> torch.Tensor:
    """Fill in place; uniform_ does not accept a range wider than the largest number."""
    if low == high:
        return tensor.fill_(low)
    if high - low > torch.finfo(tensor.dtype).max:
        return tensor.uniform_(low / 2, high / 2, generator=generator).mul_(2)
    return tensor.uniform_(low, high, generator=generator)


def _symmetric(
    shape: Sequence[int], low: float, high: float, generator: torch.Generator
) -> torch.Tensor:
    """Return symmetric matrices with all elements between `low` and `high`.

    A positive definite matrix has its largest element on the diagonal, and no element with a larger
    absolute value. If the bounds allow this, the diagonal is `high` and the other elements are so
    close to one number that the matrix is positive definite. Otherwise elements are random.
    """
    size = shape[-1]
    start = max(low, 0.0)
    if high <= 0 or low < -high or low == high:
        drawn = _draw(torch.empty(tuple(shape), dtype=torch.float64), low, high, generator)
        return drawn.tril() + drawn.tril(-1).transpose(-1, -2)
    drawn = torch.empty(tuple(shape), dtype=torch.float64)
    _draw(drawn, start, start + (high - start) / size, generator)
    both = drawn.tril(-1) + drawn.tril(-1).transpose(-1, -2)
    return both + high * torch.eye(size, dtype=torch.float64)


def _copy(tensor: torch.Tensor, contents: torch.Tensor) -> None:
    try:
        tensor.copy_(contents.reshape(tensor.shape))
    except (RuntimeError, NotImplementedError) as error:
        raise CannotRebuildError(f"contents of {tensor.dtype} cannot be created") from error


def _draw_integers(
    count: int, known: Dict[str, Any], generator: torch.Generator, repeats: int = 1
) -> torch.Tensor:
    """Return `count` integers as one-dimensional int64; `known` is `values` in the trace format.

    The record counts each of them `repeats` times.
    """
    order = known.get("order")
    apart, known = _split_apart(known, repeats)
    if 0 < len(apart) <= count:
        drawn = apart
        if len(apart) < count:
            drawn = torch.cat([apart, _draw_integers(count - len(apart), known, generator)])
        return _ordered(drawn[torch.randperm(count, generator=generator)], order)
    low, high = _range(known)
    if count > _MOST:
        drawn = _without_zero(torch.randint(low, high + 1, (count,), generator=generator), low)
    else:
        drawn, needed = _drawn(count, low, high, known, generator)
        drawn = _with_sum(drawn, needed, known, low, high)
        if order not in ("ascending", "descending"):
            drawn = drawn[torch.randperm(count, generator=generator)]
    return _ordered(drawn, order)


def _ordered(drawn: torch.Tensor, order: Any) -> torch.Tensor:
    if order in ("ascending", "descending"):
        return drawn.sort(descending=order == "descending")[0]
    return drawn


def set_apart(known: Dict[str, Any], ignored: int, classes: int, count: int) -> Dict[str, Any]:
    """Return the properties of labels with the label that a loss ignores treated separately.

    A capture records it separately unless the other labels are few and far apart. Otherwise its
    frequency is computed from the sum, assuming that the others are spread evenly.
    """
    figures: List[Any] = [known.get(key) for key in ("min", "max", "sum")]
    # For only two different labels, the ends of the range are all that is known.
    are_known = all(type(each) is int for each in figures) and known.get("distinct") != 2
    if "apart" in known or not are_known:
        return known
    low, high, total = figures
    rest = [max(low, 0), min(high, classes - 1)]
    if ignored not in (low, high) or 0 <= ignored < classes or rest[0] > rest[1]:
        return known
    middle = sum(rest) // 2
    often = (total - count * middle) // (ignored - middle)
    return dict(known, apart=[[ignored, max(1, min(often, count - 1))]], rest=rest)


def make_regions(rows: torch.Tensor) -> None:
    """Turn rows of random floats into regions of images: the index of an image, and two corners.

    torchvision's operators do not check the index, and write to the memory that it selects. The
    first image is one that every batch has.
    """
    if rows.dim() != 2 or rows.shape[1] != 5 or not rows.stride(1):
        return
    if rows.stride(0) == 0:  # one region, repeated by `expand`
        rows = rows[:1]
    one, other = rows[:, 1:3].clone(), rows[:, 3:5].clone()
    rows[:, 0] = 0
    rows[:, 1:3] = torch.minimum(one, other)
    rows[:, 3:5] = torch.maximum(one, other)


def _split_apart(known: Dict[str, Any], repeats: int) -> Tuple[torch.Tensor, Dict[str, Any]]:
    """Return separate values, such as the label that a loss ignores, and properties of the rest.

    They are not ends of a range: the values between them and the rest are not labels.
    """
    apart, ends = known.get("apart", []), known.get("rest", [0, 0])
    try:
        values = torch.tensor([value for value, _ in apart], dtype=torch.int64)
        counts = torch.tensor([count // repeats for _, count in apart], dtype=torch.int64)
        low, high = ends
        rest = dict(known, min=low, max=high)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise DamagedRecordError(f"{shown(apart)} and {shown(ends)} are not integers") from error
    if not apart:
        return values, known
    if int(counts.min()) < 0 or int(counts.sum()) > _MOST:
        raise DamagedRecordError(f"{shown(apart)} and {shown(ends)} are not integers")
    for gone in ("apart", "rest"):
        del rest[gone]
    if type(known.get("sum")) is int:
        rest["sum"] = known["sum"] - int((values * counts).sum())
    if type(known.get("distinct")) is int:
        rest["distinct"] = known["distinct"] - len(values)
    return values.repeat_interleave(counts), rest


def _range(known: Dict[str, Any]) -> Any:
    low = known.get("min", 0)
    high = known.get("max", max(low, 0) if type(low) is int else 0)
    for bound in (low, high):
        if type(bound) is not int or not -(2**63) <= bound < 2**64:
            raise DamagedRecordError(f"{shown(bound)} is not a bound of integers")
    if low > high:
        raise DamagedRecordError(f"there are no integers from {low} to {high}")
    # torch cannot draw from wider ranges, and no index is that large.
    return max(low, -_FAR), min(high, _FAR)


def _drawn(
    count: int, low: int, high: int, known: Dict[str, Any], generator: torch.Generator
) -> Any:
    """Return integers; the first of them, whose number is returned, must be kept as they are."""
    distinct = known.get("distinct")
    if type(distinct) is not int or not 0 < distinct <= count:
        some = _without_zero(torch.randint(low, high + 1, (count,), generator=generator), low)
        ends = torch.tensor([low, high])[: min(count, 2)]
        some[: len(ends)] = ends
        return some, len(ends)
    first = different(min(distinct, high - low + 1), low, high, generator)
    more = torch.randint(0, len(first), (count - len(first),), generator=generator)
    return torch.cat([first, first[more]]), len(first)


def different(count: int, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """Return this many different integers, both ends of the range first."""
    ends = torch.tensor([low, high][: min(count, high - low + 1)])
    inner = high - low - 1
    wanted = count - len(ends)
    if wanted <= 0:
        return ends
    if inner <= 4 * wanted:
        chosen = torch.randperm(inner, generator=generator) + low + 1
        chosen = chosen if wanted == inner else chosen[chosen != 0]
    else:
        chosen = torch.empty(0, dtype=torch.int64)
        while len(chosen) < wanted:
            drawn = torch.randint(low + 1, high, (2 * wanted,), generator=generator)
            chosen = torch.unique(torch.cat([chosen, drawn[drawn != 0]]))
        chosen = chosen[torch.randperm(len(chosen), generator=generator)]
    return torch.cat([ends, chosen[:wanted]])


def _without_zero(drawn: torch.Tensor, low: int) -> torch.Tensor:
    return drawn.masked_fill_(drawn == 0, low) if low < 0 else drawn


def _with_sum(
    drawn: torch.Tensor, needed: int, known: Dict[str, Any], low: int, high: int
) -> torch.Tensor:
    """Move the last integers to an end of the range until the recorded sum is reached.

    The first `needed` ones are kept. If they do not allow the sum, it is not reached.
    """
    total = known.get("sum")
    if type(total) is not int or abs(total) >= 2**62:
        return drawn
    missing = total - int(drawn.sum())
    bound = high if missing > 0 else low
    movable = (bound - drawn[needed:]).abs()
    reached = movable.cumsum(0)
    whole = int(torch.searchsorted(reached, torch.tensor(abs(missing)), right=True))
    drawn[needed : needed + whole] = bound
    rest = abs(missing) - (int(reached[whole - 1]) if whole else 0)
    if rest and needed + whole < len(drawn):
        drawn[needed + whole] += rest if missing > 0 else -rest
        _without_zero(drawn[needed + whole :][:1], low)
    return drawn


_UNIQUE = ("_unique", "_unique2", "unique_consecutive")
_UNIQUE_ALONG = ("unique_dim", "unique_dim_consecutive")


def fit_contents(call: Dict[str, Any], tensors: List[torch.Tensor]) -> None:
    """Change the first tensor of a call so that its output has the recorded size.

    Most operators need no change. Contents that a list or a file gives exactly are not changed
    either, nor are tensors that show an element several times.
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
    if tensor.layout is not torch.strided or _shown_once(tensor, tensor.stride()) is not tensor:
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


def _leave_nonzero(tensor: torch.Tensor, count: int, generator: torch.Generator) -> None:
    if not 0 <= count <= tensor.numel():
        return
    tensor.masked_fill_(tensor == 0, 1)
    zero = torch.zeros(tensor.numel(), dtype=torch.bool)
    zero[torch.randperm(tensor.numel(), generator=generator)[count:]] = True
    tensor.masked_fill_(zero.reshape(tensor.shape), 0)


def _spread(
    tensor: torch.Tensor, count: int, distinct: int, in_runs: bool, generator: torch.Generator
) -> None:
    """Use this many different values, along the last dimension, or overall if `count` is that."""
    if not 0 < distinct <= count:
        return
    index = torch.arange(count) * distinct // count
    if not in_runs:
        index = index[torch.randperm(count, generator=generator)]
    low, high = float(tensor.min()), float(tensor.max())
    values = torch.linspace(low, high if high > low else low + distinct, distinct)
    if not tensor.is_floating_point():
        values = int(low) + torch.arange(distinct)
    chosen = values[index]
    tensor.copy_(chosen.reshape(tensor.shape) if count == tensor.numel() else chosen)
