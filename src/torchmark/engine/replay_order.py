"""The calls of a step replayed in their order in one child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark.engine.zygote.conversation import outcome_of
from torchmark_probe.zygote.messages import ReplayedInOrder, ReplayInOrder

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torchmark.engine.zygote.zygote import Zygote
    from torchmark_probe.loops.sampling import Limits, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTimes:
    """What the passes took."""

    sampling: Sampling
    """Whole passes, `number` of them in a block, with no clock read between calls."""

    positions: tuple[int, ...]
    """The positions in the order that were run: all but those of calls that were left out."""

    seconds: tuple[float, ...]
    """Of each of these positions: the median over passes of their own."""

    left_out: dict[int, str]
    """By the call's number: why it was not run."""

    def seconds_of_passes(self) -> tuple[float, ...]:
        """A pass each, of the blocks that count."""
        return tuple(
            self.sampling.wall[index] / self.sampling.number for index in self.sampling.counted()
        )


def replay_in_order(
    zygote: Zygote,
    calls: Sequence[str],
    order: Sequence[int],
    *,
    limits: Limits,
    seed: int = 0,
    cores: Collection[int] = (),
    time_limit: float = TIME_LIMIT,
    memory_limit: int | None = None,
) -> OrderTimes:
    """Recorded calls, each the JSON behind "call" of a trace, run in this order by number.

    One that cannot be made again, or raises, is left out and said so. One that crashes ends
    the case: run the calls one by one first, and leave out of `order` those that do.
    """
    work = ReplayInOrder(list(calls), list(order), limits, seed)
    ending = zygote.hold(work, cores=cores, time_limit=time_limit, memory_limit=memory_limit)
    outcome = outcome_of(ending, ReplayedInOrder)
    left_out = {each.number: each.reason for each in outcome.left_out}
    return OrderTimes(
        sampling=outcome.sampling,
        positions=tuple(at for at, number in enumerate(order) if number not in left_out),
        seconds=tuple(outcome.seconds),
        left_out=left_out,
    )
