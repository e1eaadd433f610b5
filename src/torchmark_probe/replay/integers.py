"""Integers with the range, the order, the sum and the number of different ones of a record.

These decide what an operator does: which rows an index reads, how long the output of
repeat_interleave or unique is, whether offsets are offsets. Inside a range 0 is left out where
the record does not show that it was there: somebody may divide by these.
"""

from typing import Any, Dict

import torch

from torchmark_probe.replay.errors import DamagedRecordError
from torchmark_probe.replay.names import shown

_MOST = 2**24
"""Elements beyond which only range and order are kept: the rest would take several times the
memory of the tensor itself."""

_FAR = 2**61


def integers(count: int, known: Dict[str, Any], generator: torch.Generator) -> torch.Tensor:
    """`count` integers as int64, in one dimension; `known` is `values` of docs/trace-format.md."""
    low, high = _range(known)
    order = known.get("order")
    if count > _MOST:
        drawn = _without_zero(torch.randint(low, high + 1, (count,), generator=generator), low)
    else:
        drawn, needed = _drawn(count, low, high, known, generator)
        drawn = _with_sum(drawn, needed, known, low, high)
        if order not in ("ascending", "descending"):
            drawn = drawn[torch.randperm(count, generator=generator)]
    if order in ("ascending", "descending"):
        drawn = drawn.sort(descending=order == "descending")[0]
    return drawn


def _range(known: Dict[str, Any]) -> Any:
    low = known.get("min", 0)
    high = known.get("max", max(low, 0) if type(low) is int else 0)
    for bound in (low, high):
        if type(bound) is not int or not -(2**63) <= bound < 2**64:
            raise DamagedRecordError("{} is not the bound of integers".format(shown(bound)))
    if low > high:
        raise DamagedRecordError("integers from {} to {}".format(low, high))
    # Wider ranges than torch draws from; no index reaches there.
    return max(low, -_FAR), min(high, _FAR)


def _drawn(
    count: int, low: int, high: int, known: Dict[str, Any], generator: torch.Generator
) -> Any:
    """Integers, and how many at their beginning are needed for range and different ones."""
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
    """So many different integers, both ends of the range first."""
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
    """Move the last ones to an end of the range until the sum is what it was.

    The first `needed` ones stay, so a sum that these do not allow is not reached.
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
