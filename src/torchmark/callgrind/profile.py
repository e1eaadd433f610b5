"""What a callgrind output file says, once it was read: functions and calls, in instructions.

A profile is exact: its `total` is the sum of the exclusive costs of its functions, and the file's
own totals were compared with that sum when it was read. Functions are told apart by object, file
and name, so two libraries with a function of the same name stay two functions.

Callgrind writes for each call what the callee cost, and the sum over all calls of a function is its
inclusive cost. Under recursion that sum counts inner calls again with the outer ones, and
`callgrind_annotate` prints numbers larger than the whole program. The rule here:

- a function that nobody calls: its exclusive cost and the cost of the calls it makes;
- a function that is called: the sum over the calls of it, its calls of itself left out;
- and for the members of a cycle (functions that can reach each other), at most what the whole
  cycle costs: the exclusive costs of all its members and the calls that leave it.

Outside of cycles this is what `callgrind_annotate --inclusive=yes` prints. Nothing exceeds the
program's total.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

UNKNOWN = "???"
"""What callgrind writes for a file or an object that it cannot name."""

# Named tuples and not dataclasses: a profile of PyTorch has tens of thousands of these parts, and a
# file must be read in a fraction of a second.


class ProfiledFunction(NamedTuple):
    """One function of one object; the deeper levels of a recursion are another one (`f'2`)."""

    object_file: str
    """The executable or library that holds the code; `???` where it is not known."""

    source_file: str
    """The file in which the function is defined; `???` without debug symbols."""

    name: str
    """The name as callgrind gives it, or the address of a function that has none."""

    exclusive: int
    """Instructions of the function itself, code inlined into it included."""

    inclusive: int
    """Instructions of the function and of what it called, by the rule above."""


class SourceShare(NamedTuple):
    """The part of a function's code that stems from one source file: its own, or an inlined one."""

    function: int
    """Index into `Profile.functions`."""

    source_file: str
    """The file from which this part of the code was compiled."""

    exclusive: int
    """Instructions of this part itself."""

    called: int
    """Inclusive cost of the calls made from this part."""


class Call(NamedTuple):
    """All calls from one function to another, both as indices into `Profile.functions`."""

    caller: int
    callee: int
    count: int  # type: ignore[assignment] # it hides tuple.count, which nobody needs here
    """How often; 0 for a call that was under way when collection began."""

    inclusive: int
    """Instructions spent in the callee, and in what it called, for this caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A callgrind output file; several parts and threads in one file are added up."""

    total: int
    """Instructions in all: the sum of the exclusive costs, to the instruction."""

    functions: tuple[ProfiledFunction, ...]
    """Every function that ran, called or was called, in the order of the file."""

    shares: tuple[SourceShare, ...]
    """The exclusive costs again, by function and source file."""

    calls: tuple[Call, ...]
    """One entry for each pair of caller and callee."""


def inclusive_costs(exclusive: Sequence[int], calls: Sequence[Call]) -> list[int]:
    """By the rule above, for functions 0, 1, 2, … with these exclusive costs.

    >>> inclusive_costs([1, 20], [Call(0, 1, 1, 20), Call(1, 1, 4, 40)])
    [21, 20]
    """
    received: dict[int, int] = defaultdict(int)
    spent = list(exclusive)
    for call in calls:
        if call.caller != call.callee:
            received[call.callee] += call.inclusive
            spent[call.caller] += call.inclusive
    return [
        min(received.get(function, spent[function]), limit)
        for function, limit in enumerate(_limits(exclusive, calls))
    ]


def _limits(exclusive: Sequence[int], calls: Sequence[Call]) -> list[int]:
    total = sum(exclusive)
    cycle_of = cycles(len(exclusive), calls)
    members = [0] * len(exclusive)
    cost = [0] * len(exclusive)
    for function, cycle in enumerate(cycle_of):
        members[cycle] += 1
        cost[cycle] += exclusive[function]
    for call in calls:
        if cycle_of[call.caller] != cycle_of[call.callee]:
            cost[cycle_of[call.caller]] += call.inclusive
    # A function alone is no cycle: what was measured at its calls is believed as it stands, also
    # where a dump in the middle of the function makes calls and exclusive costs disagree.
    return [min(total, cost[cycle]) if members[cycle] > 1 else total for cycle in cycle_of]


def cycles(functions: int, calls: Sequence[Call]) -> list[int]:
    """For each function the number of its cycle; a function in no cycle is alone in its own.

    Strongly connected components by Kosaraju's two searches: along the calls, then against them.

    >>> cycles(3, [Call(0, 1, 1, 9), Call(1, 2, 1, 5), Call(2, 1, 1, 5)])
    [0, 1, 1]
    """
    callees: list[list[int]] = [[] for _ in range(functions)]
    callers: list[list[int]] = [[] for _ in range(functions)]
    for call in calls:
        callees[call.caller].append(call.callee)
        callers[call.callee].append(call.caller)
    seen = [False] * functions
    left = [each for start in range(functions) for each in _search(start, callees, seen)]
    seen = [False] * functions
    cycle_of = [0] * functions
    for cycle, start in enumerate(reversed(left)):
        for member in _search(start, callers, seen):
            cycle_of[member] = cycle
    return cycle_of


def _search(start: int, neighbours: list[list[int]], seen: list[bool]) -> list[int]:
    """What is reached from `start` and was not seen before, in the order in which it is left.

    Without recursion: a call graph is deeper than Python's stack.
    """
    left: list[int] = []
    path = [] if seen[start] else [(start, iter(neighbours[start]))]
    seen[start] = True
    while path:
        function, remaining = path[-1]
        for neighbour in remaining:
            if not seen[neighbour]:
                seen[neighbour] = True
                path.append((neighbour, iter(neighbours[neighbour])))
                break
        else:
            path.pop()
            left.append(function)
    return left
