"""Steps of a trace as they come from its lines: in parts, again, and longer than can be kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from torchmark.capture.traces.checking import WrongValueError
from torchmark.model.trace import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_ORDER = 10_000_000
"""Calls whose order is kept: 160 MB. What comes after is counted alone."""

_MOST_PAIRS = 2_000_000
"""Distinct pairs of a call and a place: 400 MB."""


class StepCollector:
    """Steps in their order, and how often each call came from each place."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.counts: Counter[tuple[int, int]] = Counter()
        self.whole_steps = 0
        """Repeats counted."""

        self.is_order_kept = True
        """False from the step on that would make the order longer than LONGEST_ORDER."""

        self._kept = 0
        self._calls: list[int] = []
        self._places: list[int] = []
        self._counted: Counter[tuple[int, int]] = Counter()
        self._is_unfinished = False
        self._numbers: list[int] = []

    def add(
        self, calls: Sequence[int], places: Sequence[int], *, repeats: int = 1, more: bool = False
    ) -> None:
        """A step, or a part of one if more of it follows."""
        if not self._is_unfinished:
            self._calls, self._places, self._counted = [], [], Counter()
        self._counted.update(zip(calls, places, strict=True))
        self._kept += len(calls)
        if self._kept > LONGEST_ORDER:
            self.is_order_kept = False
            self._calls, self._places = [], []
        if self.is_order_kept:
            self._calls += self._share(calls)
            self._places += self._share(places)
        self._is_unfinished = more
        if not more:
            self._finish(repeats)

    def again(self, times: int) -> None:
        """The last step came so many times more."""
        if self._is_unfinished or not self.whole_steps:
            raise WrongValueError("repeats a step where none has ended")
        self.whole_steps += times
        self._count(times)
        if self.is_order_kept:
            last = self.steps[-1]
            self.steps[-1] = Step(
                calls=last.calls, places=last.places, repeats=last.repeats + times
            )

    def count(self, call: int, place: int, times: int) -> None:
        """Calls whose order the source does not know."""
        self.counts[call, place] += times
        self._check_pairs()

    def close(self) -> None:
        """Nothing follows; a step that was begun stays as far as it came."""
        if self._is_unfinished:
            self._finish(repeats=1)

    def _finish(self, repeats: int) -> None:
        self._is_unfinished = False
        self.whole_steps += repeats
        self._count(repeats)
        if self.is_order_kept:
            self.steps.append(
                Step(calls=tuple(self._calls), places=tuple(self._places), repeats=repeats)
            )

    def _count(self, times: int) -> None:
        for pair, count in self._counted.items():
            self.counts[pair] += count * times
        self._check_pairs()

    def _check_pairs(self) -> None:
        if len(self.counts) > _MOST_PAIRS:
            raise WrongValueError(f"makes more than {_MOST_PAIRS:,} pairs of a call and a place")

    def _share(self, numbers: Sequence[int]) -> list[int]:
        """The same numbers, each kept once: a number of its own takes four times a reference."""
        largest = max(numbers, default=-1)
        self._numbers += range(len(self._numbers), largest + 1)
        return [self._numbers[number] for number in numbers]
