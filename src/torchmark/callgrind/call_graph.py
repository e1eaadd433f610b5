"""Inclusive costs, and what recursion does to them.

Callgrind writes for each call what the callee cost, and a function's inclusive cost is the sum
over the calls of it. Under recursion that sum counts the inner calls again with the outer ones: a
function that calls itself n levels deep would get n times its cost, and `callgrind_annotate`
prints such numbers, larger than the whole program. The rule here:

- a function that nobody calls: its exclusive cost and the cost of the calls it makes;
- a function that is called: the sum over the calls of it, its calls of itself left out;
- and for the members of a cycle (functions that can reach each other), at most what the whole
  cycle costs: the exclusive costs of all its members and the calls that leave it.

Outside of cycles this is what `callgrind_annotate --inclusive=yes` prints. Nothing exceeds the
program's total.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.callgrind.profile import Call


def inclusive_costs(exclusive: Sequence[int], calls: Sequence[Call]) -> list[int]:
    """By the rule above, for functions 0, 1, 2, … with these exclusive costs.

    >>> from torchmark.callgrind.profile import Call
    >>> inclusive_costs([1, 20], [Call(0, 1, 1, 20), Call(1, 1, 4, 40)])
    [21, 20]
    """
    received: dict[int, int] = {}
    spent = list(exclusive)
    for call in calls:
        if call.caller != call.callee:
            received[call.callee] = received.get(call.callee, 0) + call.inclusive
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

    Tarjan's strongly connected components, without recursion: a call graph is deeper than
    Python's stack.

    >>> from torchmark.callgrind.profile import Call
    >>> cycles(3, [Call(0, 1, 1, 9), Call(1, 2, 1, 5), Call(2, 1, 1, 5)])
    [1, 0, 0]
    """
    callees: list[list[int]] = [[] for _ in range(functions)]
    for call in calls:
        callees[call.caller].append(call.callee)
    search = _Search(callees)
    for function in range(functions):
        if search.order[function] < 0:
            search.visit(function)
    return search.component


class _Search:
    def __init__(self, callees: list[list[int]]) -> None:
        self.callees = callees
        self.order = [-1] * len(callees)
        self.low = [0] * len(callees)
        self.component = [-1] * len(callees)
        self.open: list[int] = []
        self.visited = 0
        self.components = 0

    def visit(self, start: int) -> None:
        path: list[tuple[int, Iterator[int]]] = [self._enter(start)]
        while path:
            function, remaining = path[-1]
            for callee in remaining:
                if self.order[callee] < 0:
                    path.append(self._enter(callee))
                    break
                if self.component[callee] < 0:
                    self.low[function] = min(self.low[function], self.order[callee])
            else:
                path.pop()
                self._leave(function)
                if path:
                    caller = path[-1][0]
                    self.low[caller] = min(self.low[caller], self.low[function])

    def _enter(self, function: int) -> tuple[int, Iterator[int]]:
        self.order[function] = self.low[function] = self.visited
        self.visited += 1
        self.open.append(function)
        return function, iter(self.callees[function])

    def _leave(self, function: int) -> None:
        if self.low[function] != self.order[function]:
            return
        while True:
            member = self.open.pop()
            self.component[member] = self.components
            if member == function:
                break
        self.components += 1
