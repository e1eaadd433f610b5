"""What a callgrind output file says, once it was read: functions, calls and lines, in instructions.

A profile is exact: its `total` is the sum of the exclusive costs of its functions, and the file's
own totals were compared with that sum when it was read. Functions are told apart by object, file
and name, so two libraries with a function of the same name stay two functions.

The parts of a profile are named tuples and not dataclasses because a profile of PyTorch has tens
of thousands of them, and a file must be read in a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torchmark.callgrind.call_graph import inclusive_costs

UNKNOWN = "???"
"""What callgrind writes for a file or an object that it cannot name."""


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
    """Instructions of the function and of what it called; see `torchmark.callgrind.call_graph`."""


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
    """All calls from one function to another."""

    caller: int
    """Index into `Profile.functions`."""

    callee: int
    """Index into `Profile.functions`."""

    count: int  # type: ignore[assignment] # it hides tuple.count, which nobody needs here
    """How often; 0 for a call that was under way when collection began."""

    inclusive: int
    """Instructions spent in the callee, and in what it called, for this caller."""


class Line(NamedTuple):
    """One line of source code."""

    source_file: str
    """As callgrind names it."""

    line: int
    """Counted from 1."""

    exclusive: int
    """Instructions compiled from this line."""


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

    lines: tuple[Line, ...]
    """Empty if the file has no line numbers; code without debug symbols has no lines."""


class Tally:
    """Costs as they come in; `profile` is their sum."""

    def __init__(self) -> None:
        self.total = 0
        self._functions: dict[tuple[str, str, str], int] = {}
        self._exclusive: dict[tuple[int, str], int] = {}
        self._called: dict[tuple[int, str], int] = {}
        self._calls: dict[tuple[int, int], tuple[int, int]] = {}
        self._lines: dict[str, dict[int, int]] = {}

    def function(self, object_file: str, source_file: str, name: str) -> int:
        """The index of a function, a new one if it was not seen before."""
        return self._functions.setdefault((object_file, source_file, name), len(self._functions))

    def lines_of(self, source_file: str) -> dict[int, int]:
        """Cost by line number; the reader adds to it in place, since it does so for every line."""
        return self._lines.setdefault(source_file, {})

    def add_exclusive(self, function: int, source_file: str, cost: int) -> None:
        share = (function, source_file)
        self._exclusive[share] = self._exclusive.get(share, 0) + cost
        self.total += cost

    def add_call(
        self, caller: int, source_file: str, callee: int, count: int, inclusive: int
    ) -> None:
        old_count, old_inclusive = self._calls.get((caller, callee), (0, 0))
        self._calls[caller, callee] = (old_count + count, old_inclusive + inclusive)
        share = (caller, source_file)
        self._called[share] = self._called.get(share, 0) + inclusive

    def profile(self) -> Profile:
        calls = tuple(Call(*arc, *costs) for arc, costs in self._calls.items())
        exclusive = [0] * len(self._functions)
        for (function, _), cost in self._exclusive.items():
            exclusive[function] += cost
        inclusive = inclusive_costs(exclusive, calls)
        return Profile(
            total=self.total,
            functions=tuple(
                ProfiledFunction(*key, exclusive[function], inclusive[function])
                for key, function in self._functions.items()
            ),
            shares=self._shares(),
            calls=calls,
            lines=tuple(
                Line(source_file, line, cost)
                for source_file, costs in self._lines.items()
                for line, cost in sorted(costs.items())
                # Line 0 is callgrind's word for code that has no line.
                if line and cost
            ),
        )

    def _shares(self) -> tuple[SourceShare, ...]:
        return tuple(
            SourceShare(*key, self._exclusive.get(key, 0), self._called.get(key, 0))
            for key in dict.fromkeys((*self._exclusive, *self._called))
        )
