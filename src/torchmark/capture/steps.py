"""Where a step ends: with the optimizers, or where the user says so.

An iteration may have several optimizers, as that of a GAN has. The first step ends where the last
optimizer had stepped before one of them steps again; from then on a step ends as soon as all of
those have stepped. `trace.step()` turns this off: who says it once says it every time.
"""

from __future__ import annotations


class StepEnds:
    """Told of every optimizer that has stepped, and where that was; says where to cut."""

    def __init__(self) -> None:
        self._by_hand = False
        self._stepped: set[int] = set()
        self._cycle: frozenset[int] = frozenset()
        self._last = 0

    def by_hand(self) -> None:
        self._by_hand = True

    def optimizer_stepped(self, optimizer: int, position: int) -> list[int]:
        """Lengths of the steps that end now, of `position` calls that belong to none yet."""
        if self._by_hand:
            return []
        lengths = []
        if optimizer in self._stepped:
            lengths.append(self._last)
            position -= self._last
            self._cycle = frozenset(self._stepped)
            self._stepped.clear()
        self._stepped.add(optimizer)
        self._last = position
        if self._cycle and self._stepped >= self._cycle:
            lengths.append(position)
            self._stepped.clear()
        return lengths

    def rest(self) -> list[int]:
        """At the end: the length of a first step that no second one has shown to be over."""
        return [self._last] if self._stepped and not self._cycle and not self._by_hand else []
