"""Callgrind's stacks as ours: instructions per run, from the code that runs the statement on.

- **The root.** What starts the statement (`exec`, the interpreter's calls of it) is above every
  stack and runs no instruction while collection is on, so frames that all stacks share and that
  have no instructions of their own are left out. The first that has some is Python's evaluation of
  the statement, or the loop of a C++ one.
- **Jumps** between libraries have neither a name nor a library. They are left out between two
  frames, and stay where they are the last, since they have instructions of their own.
- **Instructions per run** are whole numbers. They are rounded so that the total and every frame's
  weight are off by less than one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.callgrind.folded import frame_label, stacks
from torchmark.flame.names import NAMELESS, without_address
from torchmark.flame.stacks import Stack, frames_in_common, merged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchmark.callgrind.profile import Profile


def from_profile(profile: Profile, number: int) -> list[Stack]:
    """The stacks of a profile that counted `number` runs, each with its instructions per run."""
    labels = [without_address(frame_label(function)) for function in profile.functions]
    named = (
        Stack(_without_jumps([labels[frame] for frame in stack.frames]), stack.cost)
        for stack in stacks(profile)
    )
    costs = sorted(merged(named).items())
    return _per_run(_below_the_start(costs), number)


def _without_jumps(frames: list[str]) -> tuple[str, ...]:
    return (*(frame for frame in frames[:-1] if frame != NAMELESS), frames[-1])


def _below_the_start(
    costs: list[tuple[tuple[str, ...], int]],
) -> list[tuple[tuple[str, ...], int]]:
    if not costs:
        return []
    # What the first and the last of sorted stacks have in common, those between them have too. A
    # stack that ends early, in a frame with instructions of its own, is the first.
    start = max(0, frames_in_common(costs[0][0], costs[-1][0]) - 1)
    return [(frames[start:], cost) for frames, cost in costs]


def _per_run(costs: Iterable[tuple[tuple[str, ...], int]], number: int) -> list[Stack]:
    """Rounded where the running sum is cut, so a frame's neighbouring stacks share one error."""
    found = []
    before = 0
    for frames, cost in costs:
        after = before + cost
        weight = after // number - before // number
        before = after
        if weight:
            found.append(Stack(frames, weight))
    return found
