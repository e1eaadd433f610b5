"""A loop with a made-up clock: time passes only as its script says, and every call is kept."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, ClassVar

from torchmark_probe.loops.sampling import ReferenceLoop
from torchmark_probe.loops.snippets import Block

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeLoop:
    """Stands in for `timeit.Timer`: costs by statement, seeded noise, and a log of the calls."""

    costs: ClassVar[dict[str, float]] = {
        "pass": 8e-9,
        "cheap()": 4e-6,
        "dear()": 20e-6,
        "slow()": 1.0,
    }
    noise = 0.05
    overhead = 100e-9

    def __init__(
        self, stmt: str, setup: str, timer: Callable[[], float], globals: dict[str, Any]
    ) -> None:
        self.calls: list[int] = []
        self._random = random.Random(stmt)
        self._cost = self.costs[stmt]

    def timeit(self, number: int) -> float:
        self.calls.append(number)
        return self._noisy(self.overhead) * 2 + self._noisy(self._cost * number)

    def _noisy(self, seconds: float) -> float:
        return max(self._random.gauss(seconds, seconds * self.noise), 5e-9)


class ScriptedLoop:
    """Blocks whose seconds per run come from a function of the block's index."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self._seconds = seconds
        self.numbers: list[int] = []

    def run(self, number: int) -> Block:
        wall = self._seconds(len(self.numbers)) * number
        self.numbers.append(number)
        return Block(wall, wall)


class ScriptedReferenceLoop(ReferenceLoop):
    """Runs whose seconds come from a function of their index; 1.0 is the quiet pace."""

    def __init__(self, pace: Callable[[int], float] = lambda _: 1.0) -> None:
        super().__init__()
        self._pace = pace
        self.count = 0

    def run(self) -> float:
        self.count += 1
        return self._pace(self.count - 1)
