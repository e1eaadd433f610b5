"""What the time of a call goes into: work, overhead or more than is counted.

The yardstick is what the machine did at its best in the same run.
"""

from __future__ import annotations

import enum
import math
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchmark.model.run import MachineSpeeds
    from torchmark.model.trace import RecordedCall

WORK_FROM = 0.5
"""A call is work from the point at which the machine's best speed explains half of its time."""

MOST_OVERHEAD = 20
"""Times what the smallest call takes: no operator's fixed costs are seen to be longer. What is
longer, and not explained by bytes or FLOPs either, computes something that this does not count."""


class Nature(enum.Enum):
    """What the time of a call goes into."""

    WORK = "work"
    """At least half is what its bytes or FLOPs need at the machine's best speed."""

    OVERHEAD = "overhead"
    """Less than half is, and the call is short: dispatch, checks, allocation."""

    SLOW = "slow"
    """Less than half is, and the call is long: it computes more than is counted (sines, sorting),
    or does so below the speed of a plain copy or matrix product."""


def share_explained(
    seconds: float,
    call: RecordedCall,
    moved: int | None,
    flops: int | None,
    speeds: MachineSpeeds,
) -> float | None:
    """The part of a call's time that its bytes or FLOPs need at the machine's best speed.

    At most 1; None where neither is known.
    """
    needed = seconds_needed(call, moved, flops, speeds)
    if needed is None:
        return None
    return min(1.0, needed / seconds) if seconds else 1.0


def nature_of(seconds: float, explained: float, speeds: MachineSpeeds) -> Nature:
    """What the time of a call goes into."""
    if explained >= WORK_FROM:
        return Nature.WORK
    is_short = seconds <= MOST_OVERHEAD * speeds.small_call_seconds
    return Nature.OVERHEAD if is_short else Nature.SLOW


def seconds_needed(
    call: RecordedCall, moved: int | None, flops: int | None, speeds: MachineSpeeds
) -> float | None:
    """What bytes and FLOPs need at the machine's best speed, the longer of the two.

    A small copy is faster than a large one, since it stays in a cache: bytes count at the speed of
    a copy of that size.
    """
    needed = []
    if moved is not None and speeds.bytes_per_second:
        needed.append(moved / _copy_speed(moved, speeds.bytes_per_second))
    speed = speeds.flops_per_second.get(computed_type(call))
    if flops is not None and speed:
        needed.append(flops / speed)
    return max(needed, default=None)


def computed_type(call: RecordedCall) -> str:
    """The type of the elements of its first tensor, "" if it has none."""
    for value in (*call.args, *call.kwargs.values()):
        if isinstance(value, dict) and "tensor" in value:
            return str(value["tensor"]["dtype"])
    return ""


def _copy_speed(moved: int, measured: Mapping[int, float]) -> float:
    """Bytes a second, between two sizes that were measured by the logarithm of the size.

    >>> _copy_speed(1000, {100: 8.0, 10_000: 4.0}), _copy_speed(1, {100: 8.0, 10_000: 4.0})
    (6.0, 8.0)
    """
    sizes = sorted(measured)
    if moved <= sizes[0]:
        return measured[sizes[0]]
    for low, high in pairwise(sizes):
        if moved <= high:
            place = math.log(moved / low) / math.log(high / low)
            return measured[low] + place * (measured[high] - measured[low])
    return measured[sizes[-1]]
