"""The sums that reading a callgrind file makes: by function, by source file, by call, by line."""

from __future__ import annotations

from torchmark.callgrind.call_graph import inclusive_costs
from torchmark.callgrind.profile import (
    Call,
    Line,
    Profile,
    ProfiledFunction,
    SourceShare,
)


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
