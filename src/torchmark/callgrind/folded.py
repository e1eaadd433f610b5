"""Folded stacks of a profile, a line for each: `main;outer;inner 284`. Flame graphs read them.

Callgrind keeps no stacks, only who called whom and what it cost. The stacks are rebuilt from that:
a function's exclusive cost is spread over its callers in proportion to the inclusive cost of each
call, theirs over their callers, and so on up to a function that nobody called. It is the best guess
that the data allow, as gprof makes it; a function whose cost depends on its caller is blurred.

- Every instruction is in exactly one stack, under the function that ran it: the costs of the lines
  add up to the profile's total, and those that end in a function to its exclusive cost.
- Inside a cycle only calls that lead away from its entrances (the members called from outside) are
  followed, by the fewest calls, so every stack ends.
- A share below `smallest` of the total is not split any further but given to the costliest callers;
  otherwise a profile of Python would have more stacks than instructions.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from torchmark.callgrind.call_graph import cycles

if TYPE_CHECKING:
    from torchmark.callgrind.profile import Profile, ProfiledFunction

SMALLEST_SHARE = 1e-4
"""Of the total: a tenth of a pixel in a flame graph a thousand pixels wide."""


class Stack(NamedTuple):
    frames: tuple[int, ...]
    """Indices into `Profile.functions`, the outermost first."""

    cost: int
    """Instructions of the last of them."""


def folded(profile: Profile, smallest: float = SMALLEST_SHARE) -> str:
    """The lines, sorted; an empty text for a profile without costs."""
    costs: dict[str, int] = defaultdict(int)
    labels = [frame_label(function) for function in profile.functions]
    for stack in stacks(profile, smallest):
        costs[";".join(labels[function] for function in stack.frames)] += stack.cost
    return "".join(f"{frames} {cost}\n" for frames, cost in sorted(costs.items()))


def frame_label(function: ProfiledFunction) -> str:
    """The function's name; a nameless one is an address, which says nothing without its object."""
    name = function.name.replace(";", ",")
    if not name.startswith("0x"):
        return name
    return f"{name} [{PurePosixPath(function.object_file).name}]"


def stacks(profile: Profile, smallest: float = SMALLEST_SHARE) -> list[Stack]:
    """Every stack with a cost of its own, in the order of the functions they end in."""
    callers = _callers(profile)
    least = max(1, int(profile.total * smallest))
    found = []
    for function, entry in enumerate(profile.functions):
        open_stacks = [Stack((function,), entry.exclusive)] if entry.exclusive else []
        while open_stacks:
            stack = open_stacks.pop()
            outer = callers[stack.frames[0]]
            if outer:
                open_stacks += (
                    Stack((caller, *stack.frames), cost)
                    for caller, cost in _shared_out(stack.cost, outer, least)
                )
            else:
                found.append(stack)
    return found


class _Caller(NamedTuple):
    function: int
    inclusive: int


def _callers(profile: Profile) -> list[list[_Caller]]:
    """For each function who called it, costliest first, without the calls that close a cycle."""
    cycle_of = cycles(len(profile.functions), profile.calls)
    depths = _depths_in_cycles(profile, cycle_of)
    callers: list[list[_Caller]] = [[] for _ in profile.functions]
    for call in profile.calls:
        stays_inside = cycle_of[call.caller] == cycle_of[call.callee]
        if not stays_inside or depths[call.caller] < depths[call.callee]:
            callers[call.callee].append(_Caller(call.caller, call.inclusive))
    for found in callers:
        # By name and not by place in the file, which is another one in every run.
        found.sort(key=lambda caller: (-caller.inclusive, profile.functions[caller.function][:3]))
    return callers


def _depths_in_cycles(profile: Profile, cycle_of: list[int]) -> list[int]:
    """How many calls inside its cycle lie between a function and the nearest entrance."""
    callees: dict[int, list[int]] = defaultdict(list)
    entrances: set[int] = set()
    for call in profile.calls:
        if cycle_of[call.caller] == cycle_of[call.callee]:
            callees[call.caller].append(call.callee)
        else:
            entrances.add(call.callee)
    depths = [-1] * len(profile.functions)
    level = [*entrances, *_costliest_of_closed_cycles(profile, cycle_of, entrances)]
    depth = 0
    while level:
        for function in level:
            depths[function] = depth
        reached = (callee for function in level for callee in callees[function])
        level = list(dict.fromkeys(callee for callee in reached if depths[callee] < 0))
        depth += 1
    return depths


def _costliest_of_closed_cycles(
    profile: Profile, cycle_of: list[int], entrances: set[int]
) -> list[int]:
    """A cycle that nobody calls from outside is entered at its costliest member."""
    entered = {cycle_of[function] for function in entrances}
    first: dict[int, int] = {}
    by_cost = sorted(
        range(len(profile.functions)),
        key=lambda function: (-profile.functions[function].inclusive, profile.functions[function]),
    )
    for function in by_cost:
        if cycle_of[function] not in entered:
            first.setdefault(cycle_of[function], function)
    return list(first.values())


def _shared_out(cost: int, callers: list[_Caller], least: int) -> list[tuple[int, int]]:
    """The cost spread over the callers in proportion, in whole instructions, none lost.

    Callers whose share would be below `least` get nothing; the costliest gets what is left over.
    """
    weight = sum(caller.inclusive for caller in callers)
    kept = [caller for caller in callers if cost * caller.inclusive >= least * weight > 0]
    kept = kept or callers[:1]
    weight = sum(caller.inclusive for caller in kept) or 1
    shares = [cost * caller.inclusive // weight for caller in kept]
    shares[0] += cost - sum(shares)
    return [(caller.function, share) for caller, share in zip(kept, shares, strict=True) if share]
