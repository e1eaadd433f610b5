"""Rebuild the stacks of a callgrind profile, with instructions as their weights.

Callgrind does not record stacks, only which function called which, and the cost. The stacks are
rebuilt from that: the exclusive cost of a function is divided among its callers in proportion to
the inclusive cost of each call, their shares among their callers, and so on, up to a function that
nobody called. gprof does the same. The result is an estimate for a function whose cost depends on
its caller.

- Every instruction is in exactly one stack, below the function that ran it. The weights of all
  stacks add up to the total of the profile, and those of the stacks that end in a function to its
  exclusive cost.
- Inside a cycle, only calls that lead away from its entrances (the members that are called from
  outside) are followed, along the fewest calls, so every stack ends.
- A share below `smallest` of the total is not divided further, but given to the costliest caller.
  Otherwise a profile of Python would have more stacks than instructions.

Stacks per run begin with the code that runs the statement:

- **The root.** The frames that start the statement (`exec` and the interpreter's calls of it) are
  in every stack, and run no instruction while instructions are counted. So frames that all stacks
  share and that have no instructions of their own are left out. The first frame with instructions
  is Python's evaluation of the statement, or the loop of a C++ statement.
- **Jumps** between libraries have neither a name nor a library. They are left out between two
  frames. At the end of a stack they stay, because they have instructions of their own.
- **Instructions per run** are whole numbers. They are rounded so that the total and the weight of
  every frame are off by less than one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

from torchmark.callgrind.profile import UNKNOWN, Call, Profile, ProfiledFunction, cycles
from torchmark.flame.stacks import (
    NAMELESS,
    Stack,
    count_common_frames,
    merge_stacks,
    rename_frames,
    without_address,
)

SMALLEST_SHARE = 1e-4
"""Share of the total: a tenth of a pixel in a flame graph that is a thousand pixels wide."""


def rebuild_stacks(profile: Profile, smallest: float = SMALLEST_SHARE) -> list[Stack]:
    """Every stack with a cost, in the order of the functions that the stacks end in."""
    names = [frame_name(function) for function in profile.functions]
    calls = _calls_by_callee(profile)
    least = max(1, int(profile.total * smallest))
    found = []
    for function, entry in enumerate(profile.functions):
        unfinished: list[tuple[tuple[int, ...], int]] = []
        if entry.exclusive:
            unfinished.append(((function,), entry.exclusive))
        while unfinished:
            functions, cost = unfinished.pop()
            outer = calls[functions[0]]
            if outer:
                unfinished += (
                    ((caller, *functions), share)
                    for caller, share in _share_out(cost, outer, least)
                )
            else:
                found.append(Stack(tuple(names[each] for each in functions), cost))
    return found


def average_stacks(profile: Profile, number: int) -> list[Stack]:
    """The stacks of a profile that counted `number` runs, weighted with instructions per run."""
    named = (
        Stack(_without_jumps(frames), cost)
        for frames, cost in rename_frames(rebuild_stacks(profile), without_address)
    )
    costs = sorted(merge_stacks(named).items())
    return _per_run(_below_the_start(costs), number)


def source_files(profile: Profile) -> dict[str, str]:
    """The files that define the frames, by the names of the frames, if callgrind knows them."""
    return {
        frame_name(function): function.source_file
        for function in profile.functions
        if function.source_file != UNKNOWN
    }


def frame_name(function: ProfiledFunction) -> str:
    """The name of the function. An address means nothing without its object, which is added."""
    if not function.name.startswith("0x"):
        return function.name
    return f"{function.name} [{PurePosixPath(function.object_file).name}]"


def _without_jumps(frames: tuple[str, ...]) -> tuple[str, ...]:
    return (*(frame for frame in frames[:-1] if frame != NAMELESS), frames[-1])


def _below_the_start(
    costs: list[tuple[tuple[str, ...], int]],
) -> list[tuple[tuple[str, ...], int]]:
    if not costs:
        return []
    # In sorted stacks, the frames that the first and the last have in common are in all others. A
    # stack that ends early, in a frame with its own instructions, is the first.
    start = max(0, count_common_frames(costs[0][0], costs[-1][0]) - 1)
    return [(frames[start:], cost) for frames, cost in costs]


def _per_run(costs: Iterable[tuple[tuple[str, ...], int]], number: int) -> list[Stack]:
    """Weights per run. The running sum is rounded, so neighbouring stacks share one error."""
    found = []
    before = 0
    for frames, cost in costs:
        after = before + cost
        weight = after // number - before // number
        before = after
        if weight:
            found.append(Stack(frames, weight))
    return found


def _calls_by_callee(profile: Profile) -> list[list[Call]]:
    """The calls of each function, costliest first, without those that close a cycle."""
    cycle_of = cycles(len(profile.functions), profile.calls)
    depths = _depths_in_cycles(profile, cycle_of)
    calls: list[list[Call]] = [[] for _ in profile.functions]
    for call in profile.calls:
        stays_inside = cycle_of[call.caller] == cycle_of[call.callee]
        if not stays_inside or depths[call.caller] < depths[call.callee]:
            calls[call.callee].append(call)
    for found in calls:
        # Sorted by name, because the order in the file differs from run to run.
        found.sort(key=lambda call: (-call.inclusive, profile.functions[call.caller][:3]))
    return calls


def _depths_in_cycles(profile: Profile, cycle_of: list[int]) -> list[int]:
    """The number of calls inside its cycle between a function and the nearest entrance."""
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
    """The entrances of cycles that are not called from outside: their costliest members."""
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


def _share_out(cost: int, calls: list[Call], least: int) -> list[tuple[int, int]]:
    """Divide the cost among the callers in proportion, in whole instructions.

    Callers whose share would be below `least` get nothing. The costliest gets the rest.
    """
    weight = sum(call.inclusive for call in calls)
    kept = [call for call in calls if cost * call.inclusive >= least * weight > 0]
    kept = kept or calls[:1]
    weight = sum(call.inclusive for call in kept) or 1
    shares = [cost * call.inclusive // weight for call in kept]
    shares[0] += cost - sum(shares)
    return [(call.caller, share) for call, share in zip(kept, shares, strict=True) if share]
