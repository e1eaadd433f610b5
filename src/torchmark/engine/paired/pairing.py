"""Crossovers: fresh processes of two sides that alternate on one core, block by block."""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from torchmark.engine.cores import begin
from torchmark.engine.files import private_directory
from torchmark.errors import CaseFailedError, CaseTimeoutError, EmptyMeasurementError
from torchmark_probe.loops.intervals import median
from torchmark_probe.loops.sampling import Limits
from torchmark_probe.zygote.cases import warm_up_runs
from torchmark_probe.zygote.messages import BlockTimes

if TYPE_CHECKING:
    from torchmark.model.result import Crossover

_FEWEST_ROUNDS = 5
"""However long they take."""

_WANTED_ROUNDS = 120
"""Of statements that take milliseconds, for which there may be more time than was asked for: what
two processes say spreads as one over the root of their rounds, and making them takes as long as a
few dozen."""

_MOST_TIME = 10.0
"""So much more of it. Making the processes of such statements takes as long."""

_LONG_ROUND = 3e-4
"""Seconds. Processes of longer statements are not made beside others that are measured: setting up
and warming up they would move megabytes on the other core. Process pairs of a copy in 16 MB (a
round of 0.7 ms) spread 1.4 % beside that and 1.0 % without, those of `tanh` in 24 MB twice as
much."""

_MOST_ROUNDS = 2000
"""Of statements that are over in no time: more would say nothing new."""

_QUIET = 0.2
"""Of the blocks of a process, the share that was disturbed least. What neighbours in the cache do
to the middle of the rounds it does not feel: with it the process pairs of statements that fill
caches spread 0.7 to 0.9 times as much, and those of small ones as much."""

_CHANGES_OF_ORDER = 1 / 16
"""How often a round begins with the other side than the one before it. A block after one of its own
finds its data in the caches, 1 to 8 % faster than after one of the other, so in nearly all rounds
the two alternate. With an order drawn anew for every round the process pairs of statements that
move megabytes spread 1.3 to 1.7 times as much. Without any change something else that comes and
goes at the pace of the rounds could hit one side alone."""

_SETTLING = 0.01
"""Seconds at the beginning that are not counted: what lies in the cache by then is what the process
that was started last has left there. The first rounds of a copy in 16 MB were 8 % in its favour."""

_AS_WARM = 1.05
"""Where the run before a block of one run takes at most so many times as long, it counts too: twice
as many rounds for statements of milliseconds, which need them most. Process pairs of a polynomial
of 2.3 ms spread 0.24 in place of 0.33 %, of many small autograd calls 1.2 in place of 1.5 %."""

_ALIKE = 8.0
"""Two that are no further apart in speed run equally often in a block. A block begins with cold
caches, and that must weigh the same in both. A process that was just forked, beside a neighbour on
the core, can look four times as slow as its equal while its blocks are sized."""


class AlternatingProcess(Protocol):
    """A process that is ready to be measured: of a zygote's, or a fork of this one."""

    number: int
    """Runs in a block that it found fitting."""

    seconds: float
    """What such a block takes."""

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None: ...

    def blocks(self) -> BlockTimes: ...

    def close(self) -> None: ...


class Opens(Protocol):
    """An environment that starts a fresh process for a case at every call."""

    def start(self) -> object:
        """Before the first call; it does nothing where it has been started."""

    def run_on(self, cores: Collection[int]) -> None:
        """Move it there, whether it is starting or has started."""

    def session(
        self,
        case: Any,
        *,
        limits: Limits,
        shake: int,
        cores: Collection[int],
        beside: bool,
        time_limit: float,
    ) -> AlternatingProcess:
        """`shake` decides where its heap and its stack lie.

        `beside` says that others are measured on these cores now: it goes there for its blocks.
        """

    def close(self) -> None: ...


class Side(NamedTuple):
    """One of the two that are compared: its environment, and what is run there."""

    opens: Opens
    case: Any


class SideFailedError(Exception):
    """What is compared cannot run on one side; the cause says why."""

    def __init__(self, role: int, error: CaseFailedError) -> None:
        super().__init__(str(error))
        self.is_a = role == 0
        self.error = error


Round: TypeAlias = tuple[float, float]
"""One block of A and one of B, right after each other: seconds of one run."""


class TakenCrossover(NamedTuple):
    """What two process pairs say, one started A-first and one B-first."""

    estimates: Crossover
    """The log of B's time over A's."""

    a_seconds: float
    """The median time of one run in A."""


def take_crossover(
    a: Side,
    b: Side,
    rng: random.Random,
    cores: Collection[int],
    *,
    time_limit: float,
    seconds: float,
    in_background: bool = False,
) -> TakenCrossover:
    """Two fresh processes of each, two by two: the second two are started in the other order.

    `seconds` is what the blocks of two take together. `in_background` lets the second two be made
    while the first two are measured, if that does not disturb them.
    """
    order = (0, 1) if rng.random() < 0.5 else (1, 0)
    pairs = [
        _ProcessPair((a, b), first, rng.getrandbits(32), cores, time_limit, seconds)
        for first in order
    ]
    with private_directory() as folder:
        batons = (folder / "a", folder / "b")
        for baton in batons:
            os.mkfifo(baton, 0o600)
        both = _both(pairs, rng, batons, in_background=in_background)
    of = dict(zip(order, map(_estimate, both), strict=True))
    a_seconds = median([a_block for rounds in both for a_block, _ in rounds])
    return TakenCrossover(estimates=(of[0], of[1]), a_seconds=a_seconds)


def _estimate(rounds: Sequence[Round]) -> float:
    """The log ratio, between what the middle of the rounds says and what the quiet blocks say.

    The two err in different ways, so their mean errs less than either.
    """
    if not rounds:
        raise EmptyMeasurementError("a pair without rounds says nothing")
    a, b = ([math.log(time) for time in times] for times in zip(*rounds, strict=True))
    middle = median([one - other for one, other in zip(b, a, strict=True)])
    return (middle + _quiet(b) - _quiet(a)) / 2


def _quiet(logs: Sequence[float]) -> float:
    """The mean of the smallest ones."""
    count = max(1, int(_QUIET * len(logs)))
    return math.fsum(sorted(logs)[:count]) / count


def _both(
    pairs: Sequence[_ProcessPair],
    rng: random.Random,
    batons: tuple[Path, Path],
    *,
    in_background: bool,
) -> list[list[Round]]:
    one, other = pairs
    with closing(one):
        one.open()
        is_beside = in_background and one.round_seconds() < _LONG_ROUND
        opening = begin(lambda: other.open(beside=True), "process pair") if is_beside else None
        try:
            first = one.rounds(rng, batons)
        except BaseException:
            if opening is not None:  # nobody waits for it, however long it takes
                opening.add_done_callback(lambda _: other.close())
            raise
    with closing(other):
        if opening is None:
            other.open()
        else:
            opening.result()
        return [first, other.rounds(rng, batons)]


@dataclass(slots=True)
class _ProcessPair:
    """A fresh process of each side, that alternate with each other."""

    sides: tuple[Side, Side]
    first: int
    """Which of the two is started before the other: 0 for A."""

    shake: int
    """One for both, so that their heaps and stacks lie at like places."""

    cores: Collection[int]
    time_limit: float
    seconds: float
    _opened: dict[int, AlternatingProcess] = field(default_factory=dict)

    def open(self, *, beside: bool = False) -> None:
        """Start both, beside others or alone; a SideFailedError if either cannot be."""
        limits = Limits(precision=0.01, min_run_time=self.seconds, max_run_time=2 * self.seconds)
        for role in (self.first, 1 - self.first):
            side = self.sides[role]
            try:
                self._opened[role] = side.opens.session(
                    side.case,
                    limits=limits,
                    shake=self.shake,
                    cores=self.cores,
                    beside=beside,
                    time_limit=self.time_limit,
                )
            except CaseFailedError as error:
                raise SideFailedError(role, error) from error

    def round_seconds(self) -> float:
        """What a block of each takes together, with the runs that warm it up."""
        return sum(
            session.seconds / session.number * (number + warm_up_runs(number))
            for session, number in zip(
                (self._opened[0], self._opened[1]), self._numbers(), strict=True
            )
        )

    def rounds(self, rng: random.Random, batons: tuple[Path, Path]) -> list[Round]:
        """Let them alternate, and return what each round gave once they had settled."""
        numbers = self._numbers()
        count = _round_count(self.seconds, max(self.round_seconds(), 1e-9))
        order = _order(count, rng)
        for role in (1, 0):
            self._opened[role].begin(order, role, numbers[role], batons)
        a, b = self._blocks_of_both()
        rounds = list(zip(a.seconds, b.seconds, strict=True))
        if numbers == (1, 1):
            rounds = _with_warm_ups(rounds, list(zip(a.warm_ups, b.warm_ups, strict=True)))
        settled = rounds[_unsettled(rounds) :]
        return [(one / numbers[0], other / numbers[1]) for one, other in settled]

    def _blocks_of_both(self) -> tuple[BlockTimes, BlockTimes]:
        try:
            return _blocks(0, self._opened[0]), _blocks(1, self._opened[1])
        except SideFailedError as failure:
            if failure.is_a and isinstance(failure.error, CaseTimeoutError):
                _blocks(1, self._opened[1])  # raises if A's time was spent waiting for B
            raise

    def _numbers(self) -> tuple[int, int]:
        """Runs in a block of each; of two that are alike the one that was disturbed less knows."""
        a, b = self._opened[0], self._opened[1]
        one, other = sorted((a.seconds / a.number, b.seconds / b.number))
        if other > _ALIKE * one:
            return a.number, b.number
        number = max(a.number, b.number)
        return number, number

    def close(self) -> None:
        """End both."""
        for session in self._opened.values():
            session.close()


def _with_warm_ups(rounds: list[Round], warm_ups: list[Round]) -> list[Round]:
    """Both in turn, where the run before a block of one run takes as long as that block.

    Where it takes longer, the statement is slower with cold caches, which is not what is compared.
    """
    warm, cold = (median([time for each in times for time in each]) for times in (rounds, warm_ups))
    if cold > _AS_WARM * warm:
        return rounds
    return [each for both in zip(warm_ups, rounds, strict=True) for each in both]


def _round_count(wanted: float, of_one: float) -> int:
    """Rounds that take the seconds that are wanted, if one takes so many."""
    with_more_time = min(_WANTED_ROUNDS, int(_MOST_TIME * wanted / of_one))
    return min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, with_more_time, int(wanted / of_one)))


def _order(count: int, rng: random.Random) -> list[int]:
    """Whose block it is, for so many rounds."""
    order = []
    first = rng.randrange(2)
    for _ in range(count):
        if rng.random() < _CHANGES_OF_ORDER:
            first = 1 - first
        order += [first, 1 - first]
    return order


def _unsettled(rounds: Sequence[tuple[float, float]]) -> int:
    """How many rounds are not counted; half of them or more always are."""
    ends = itertools.accumulate(one + other for one, other in rounds)
    return min(len(rounds) // 2, sum(end <= _SETTLING for end in ends))


def _blocks(role: int, session: AlternatingProcess) -> BlockTimes:
    try:
        return session.blocks()
    except CaseFailedError as error:
        raise SideFailedError(role, error) from error
