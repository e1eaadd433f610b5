"""The stacks of a statement as callgrind counted them: exact to the instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.engine.counting import count_in
from torchmark.engine.zygote.loop import LOOP_FRAME
from torchmark.flame.counted import average_stacks
from torchmark.flame.stacks import Stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.engine.zygote.cases import Ready
    from torchmark.engine.zygote.zygote import Zygote

UNIT = "instructions per run"

_NUMBER = 100
"""Runs that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedStacks:
    """Where the instructions of one run go."""

    stacks: tuple[Stack, ...]
    """Weights are instructions of one run."""

    instructions: float
    """Of one run."""


def counted_stacks(zygote: Zygote, case: Ready) -> CountedStacks:
    """Count the case in a zygote that runs under callgrind."""
    profile = count_in(zygote, case, number=_NUMBER, without_loop=False).profile
    return CountedStacks(
        stacks=_under_the_loop(average_stacks(profile, _NUMBER)),
        instructions=profile.total / _NUMBER,
    )


def _under_the_loop(stacks: Sequence[Stack]) -> tuple[Stack, ...]:
    """What evaluates a statement in Python, or calls one in C++, is the loop.

    That of C++ would not go by its name: callgrind takes it for a part of libffi, which calls it
    with a stack of its own.
    """
    has_one_root = len({stack.frames[0] for stack in stacks}) == 1
    return tuple(
        Stack((LOOP_FRAME, *stack.frames[1 if has_one_root else 0 :]), stack.weight)
        for stack in stacks
    )
