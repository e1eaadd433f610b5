"""Cases compared in two environments by their times, until each verdict is clear or its time is up.

Zygotes are restarted after some pairs, since the layout of one process is not the result; the
next generation starts while the present one measures. Beside every few pairs of A and B comes one
of A and A, from which the report says how often this set-up cries wolf.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from torchmark.ab.pairing import Side, rounds_of_pair
from torchmark.analyse.pairs import PairEffect, effect_of, estimate_of, is_decided
from torchmark.errors import CaseFailedError, TorchmarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from concurrent.futures import Future

    from torchmark.run.zygote import NativeCase, PythonCase, Zygote

PAIRS_IN_GENERATION = 10
"""Pairs that a case gets from one start of the zygotes."""

FEWEST_GENERATIONS = 2

_PAIRS_TO_A_CONTROL = 5


class Both(NamedTuple):
    """The same thing for A and for B."""

    a: PythonCase | NativeCase
    b: PythonCase | NativeCase


class Zygotes(NamedTuple):
    """One generation."""

    a: Zygote
    b: Zygote

    def close(self) -> None:
        for zygote in {self.a, self.b}:
            zygote.close()


@dataclass(slots=True, kw_only=True)
class TimeComparison:
    """A case on its way to a verdict."""

    cases: Both
    """What runs in A and in B."""

    estimates: list[float] = field(default_factory=list)
    """The log ratio of each pair of A and B."""

    control: list[float] = field(default_factory=list)
    """The log ratio of each pair of A and A."""

    looks: int = 0
    """How often it was looked whether the pairs suffice."""

    generations: int = 0
    """Starts of the zygotes that gave pairs."""

    seconds: float = 0.0
    """Spent so far."""

    failure: TorchmarkError | None = None
    """Why there is no verdict, where one of the two failed."""

    @property
    def effect(self) -> PairEffect | None:
        """What the pairs say so far; None if there are too few."""
        if self.failure is not None or len(self.estimates) < 2:
            return None
        return effect_of(self.estimates, looks=max(1, self.looks))

    def is_over(self, budget: float) -> bool:
        """Whether it has failed, is decided, or has had its time."""
        if self.failure is not None:
            return True
        if self.generations < FEWEST_GENERATIONS:
            return False
        effect = self.effect
        return self.seconds >= budget or (effect is not None and is_decided(effect))


def compare_times(
    comparisons: Sequence[TimeComparison],
    start: Callable[[], Zygotes],
    *,
    cores: Collection[int],
    budget: float,
    quiet_pace: float,
    seed: int = 0,
    time_limit: float = 300.0,
) -> Iterator[TimeComparison]:
    """Take pairs of every case until it is over; each is handed on when it is."""
    rng = random.Random(seed)  # noqa: S311 - an order of blocks, not a secret
    waiting = list(comparisons)
    with ThreadPoolExecutor(1) as background:
        coming: Future[Zygotes] = background.submit(start)
        try:
            while waiting:
                zygotes = coming.result()
                coming = background.submit(start)
                try:
                    for each in list(waiting):
                        _take_pairs(each, zygotes, rng, cores, quiet_pace, time_limit)
                        if each.is_over(budget):
                            waiting.remove(each)
                            yield each
                finally:
                    zygotes.close()
        finally:
            coming.result().close()


def _take_pairs(
    comparison: TimeComparison,
    zygotes: Zygotes,
    rng: random.Random,
    cores: Collection[int],
    quiet_pace: float,
    time_limit: float,
) -> None:
    begun = time.perf_counter()
    a = Side(zygote=zygotes.a, case=comparison.cases.a)
    b = Side(zygote=zygotes.b, case=comparison.cases.b)

    def pair(one: Side, other: Side) -> float:
        rounds = rounds_of_pair(one, other, rng, cores, time_limit=time_limit)
        return estimate_of(rounds, quiet_pace)

    try:
        for number in range(PAIRS_IN_GENERATION):
            comparison.estimates.append(pair(a, b))
            if number % _PAIRS_TO_A_CONTROL == 0:
                comparison.control.append(pair(a, a))
    except CaseFailedError as error:
        comparison.failure = error
    comparison.generations += 1
    comparison.looks += 1
    comparison.seconds += time.perf_counter() - begun
