"""Fresh processes of two sides that take turns on one core."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torchmark.analyse.pairs import Round, estimate_of
from torchmark.errors import CaseFailedError
from torchmark.run.private_directories import discard, private_directory
from torchmark_probe.intervals import median
from torchmark_probe.sampling import Limits

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from torchmark.run.session import TimedBlock

TURNS_SECONDS = 0.15
"""Of measured blocks of two processes; forking, setting up and warming up take half as long."""

_FEWEST_ROUNDS = 5

_MOST_ROUNDS = 2000
"""Of statements that are over in no time: more would say nothing new."""

_ALIKE = 1.5
"""Two that are no further apart in speed run equally often in a block. A block begins with cold
caches, and that must weigh the same in both."""

_LIMITS = Limits(precision=0.01, min_run_time=TURNS_SECONDS, max_run_time=2 * TURNS_SECONDS)


class TakesTurns(Protocol):
    """A process that is ready to be measured: of a zygote's, or a fork of this one."""

    number: int
    """Runs in a block that it found fitting."""

    seconds: float
    """What such a block takes."""

    def begin(
        self, turns: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None: ...

    def blocks(self) -> list[TimedBlock]: ...

    def close(self) -> None: ...


class Opens(Protocol):
    """Starts a fresh process for a case at every call."""

    def session(
        self, case: Any, *, limits: Limits, shake: int, cores: Collection[int], time_limit: float
    ) -> TakesTurns:
        """`shake` decides where its heap and its stack lie."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two that are compared."""

    opens: Opens
    """Its environment."""

    case: Any
    """What is run there, as `opens` takes it."""


class SideFailedError(Exception):
    """What is compared cannot run on one side; the cause says why."""

    def __init__(self, role: int, error: CaseFailedError) -> None:
        super().__init__(str(error))
        self.is_a = role == 0
        self.error = error


class Turns(NamedTuple):
    """What two pairs of processes say, one in each order."""

    estimate: float
    """The log of B's time over A's."""

    a_seconds: float
    """The median time of one run in A."""


def turns_of(
    a: Side, b: Side, rng: random.Random, cores: Collection[int], *, time_limit: float
) -> Turns:
    """Two fresh processes of each, two by two: the second two are started in the other order."""
    folder = private_directory()
    try:
        batons = (folder / "a", folder / "b")
        for baton in batons:
            os.mkfifo(baton, 0o600)
        both = [
            _rounds(a, b, first, rng, cores, batons, time_limit)
            for first in ((0, 1) if rng.random() < 0.5 else (1, 0))
        ]
    finally:
        discard(folder)
    return Turns(
        estimate=(estimate_of(both[0]) + estimate_of(both[1])) / 2,
        a_seconds=median([each.a for rounds in both for each in rounds]),
    )


def _rounds(
    a: Side,
    b: Side,
    first: int,
    rng: random.Random,
    cores: Collection[int],
    batons: tuple[Path, Path],
    time_limit: float,
) -> list[Round]:
    """`first` says which of the two is started before the other: 0 for A."""
    sides = (a, b)
    opened: dict[int, TakesTurns] = {}
    with ExitStack() as stack:
        for role in (first, 1 - first):
            try:
                session = sides[role].opens.session(
                    sides[role].case,
                    limits=_LIMITS,
                    shake=rng.getrandbits(32),
                    cores=cores,
                    time_limit=time_limit,
                )
            except CaseFailedError as error:
                raise SideFailedError(role, error) from error
            opened[role] = stack.enter_context(closing(session))
        numbers = _numbers(opened[0], opened[1])
        seconds = sum(opened[role].seconds * numbers[role] / opened[role].number for role in (0, 1))
        count = min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, int(TURNS_SECONDS / max(seconds, 1e-9))))
        turns = [role for _ in range(count) for role in ((0, 1) if rng.random() < 0.5 else (1, 0))]
        for role in (1, 0):
            opened[role].begin(turns, role, numbers[role], batons)
        blocks = [_blocks(role, opened[role]) for role in (0, 1)]
    return [
        Round(
            a=one.wall / numbers[0],
            b=other.wall / numbers[1],
            fastest=min(one.fastest, other.fastest),
            slowest=max(one.slowest, other.slowest),
        )
        for one, other in zip(blocks[0], blocks[1], strict=True)
    ]


def _blocks(role: int, session: TakesTurns) -> list[TimedBlock]:
    try:
        return session.blocks()
    except CaseFailedError as error:
        raise SideFailedError(role, error) from error


def _numbers(a: TakesTurns, b: TakesTurns) -> tuple[int, int]:
    """Runs in a block of each."""
    one, other = sorted((a.seconds / a.number, b.seconds / b.number))
    if other > _ALIKE * one:
        return a.number, b.number
    number = max(1, round((a.number + b.number) / 2))
    return number, number
