"""Pairs of fresh processes that take turns on one core."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.pairs import Round
from torchmark_probe.sampling import Limits

if TYPE_CHECKING:
    import random
    from collections.abc import Collection

    from torchmark.run.session import Session
    from torchmark.run.zygote import NativeCase, PythonCase, Zygote

PAIR_SECONDS = 0.12
"""Of measured blocks in a pair: as much again goes into forking, setting up and warming up."""

_FEWEST_ROUNDS = 5

_LIMITS = Limits(precision=0.01, min_run_time=PAIR_SECONDS, max_run_time=2 * PAIR_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two that are compared."""

    zygote: Zygote
    """The warm process of its environment."""

    case: PythonCase | NativeCase
    """What is run there."""


def rounds_of_pair(
    a: Side, b: Side, rng: random.Random, cores: Collection[int], *, time_limit: float
) -> list[Round]:
    """One fresh process of each, in turns, in random order, until the pair has had its time."""
    first, second = (a, b) if rng.random() < 0.5 else (b, a)
    with _opened(first, cores, time_limit) as one, _opened(second, cores, time_limit) as other:
        sessions = (one, other) if first is a else (other, one)
        return _taking_turns(*sessions, rng)


def _opened(side: Side, cores: Collection[int], time_limit: float) -> Session:
    return side.zygote.session(side.case, limits=_LIMITS, cores=cores, time_limit=time_limit)


def _taking_turns(a: Session, b: Session, rng: random.Random) -> list[Round]:
    # The same number of runs for both: a block is then as long as what it measures.
    number = max(1, round((a.number + b.number) / 2))
    rounds: list[Round] = []
    stop = time.perf_counter() + 2 * PAIR_SECONDS
    while len(rounds) < _FEWEST_ROUNDS or time.perf_counter() < stop:
        if rng.random() < 0.5:
            block_a, block_b = a.run(number), b.run(number)
        else:
            block_b, block_a = b.run(number), a.run(number)
        rounds.append(
            Round(
                a=block_a.wall / number,
                b=block_b.wall / number,
                pace=max(block_a.pace, block_b.pace),
            )
        )
    return rounds
