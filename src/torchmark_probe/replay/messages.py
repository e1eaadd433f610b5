"""What is asked of a child that replays, and what it answers; torch is not needed to say it."""

import dataclasses
from typing import List

from torchmark_probe.loops.sampling import Limits, Sampling
from torchmark_probe.zygote.messages import Message


@dataclasses.dataclass(frozen=True)
class ReplayInOrder(Message):
    """All calls of a step, in their order, pass after pass."""

    calls: List[str]
    """Distinct calls, each the JSON behind "call" of a trace."""

    order: List[int]
    """Numbers of calls, as the step made them."""

    limits: Limits
    seed: int


@dataclasses.dataclass(frozen=True)
class LeftOut(Message):
    """A call that was not run."""

    number: int
    reason: str


@dataclasses.dataclass(frozen=True)
class ReplayedInOrder(Message):
    """What the passes took."""

    sampling: Sampling
    """Whole passes, `number` of them in a block, with no clock read between calls."""

    seconds: List[float]
    """Of each position that was run: the median over passes of their own."""

    left_out: List[LeftOut]
