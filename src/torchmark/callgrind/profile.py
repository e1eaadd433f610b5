"""The content of a callgrind output file: functions and calls, with instructions as costs.

A profile is exact: its `total` is the sum of the exclusive costs of its functions, and the reader
has compared it with the totals in the file. A function is identified by object, file and name, so
functions with the same name in two libraries are two functions.

Callgrind writes the cost of the callee for each call, and the sum over all calls of a function is
its inclusive cost. With recursion, this sum counts inner calls twice, and `callgrind_annotate`
prints more than the whole program takes. The rule here:

- for a function that nobody calls: its exclusive cost and the cost of the calls that it makes;
- for a function that is called: the sum over the calls of it, without its calls of itself;
- for the members of a cycle (functions that can reach each other): at most the cost of the whole
  cycle, which is the exclusive costs of all members and the calls that leave it.

Outside of cycles, these are the numbers of `callgrind_annotate --inclusive=yes`. None is larger
than the total of the program.
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
    """One function of one object. The deeper levels of a recursion are a second one (`f'2`)."""

    object_file: str
    """The executable or library that contains the code; `???` if it is not known."""

    source_file: str
    """The file in which the function is defined; `???` without debug symbols."""

    name: str
    """The name in callgrind's file, or the address of a function without a name."""

    exclusive: int
    """Instructions of the function itself, with the code that was inlined into it."""

    inclusive: int
    """Instructions of the function and of what it called, by the rule of this module."""


class SourceShare(NamedTuple):
    """The part of a function's code from one source file: its own, or an inlined one."""

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
    """The number of calls; 0 for a call that was already running when counting began."""

    inclusive: int
    """Instructions spent in the callee, and in what it called, for this caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A callgrind output file. Several parts and threads in one file are added up."""

    total: int
    """Instructions of the whole program: exactly the sum of the exclusive costs."""

    functions: tuple[ProfiledFunction, ...]
    """Every function that ran, called or was called, in the order of the file."""

    shares: tuple[SourceShare, ...]
    """The exclusive costs, divided by function and source file."""

    calls: tuple[Call, ...]
    """One entry for each pair of caller and callee."""


def inclusive_costs(exclusive: Sequence[int], calls: Sequence[Call]) -> list[int]:
    """Inclusive costs by the rule of this module, for functions with these exclusive costs.

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
    # A single function is not a cycle. The costs of its calls are used as they are, even if a dump
    # in the middle of the function made them disagree with the exclusive costs.
    return [min(total, cost[cycle]) if members[cycle] > 1 else total for cycle in cycle_of]


def cycles(functions: int, calls: Sequence[Call]) -> list[int]:
    """The number of the cycle of each function. A function outside of cycles has its own number.

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
    """The functions that `start` reaches and that were not seen before, each after its neighbours.

    Not recursive, because a call graph is deeper than Python's stack.
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
