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
"""Minimum number of rounds, however long they take."""

_WANTED_ROUNDS = 120
"""Rounds to aim for with statements that take milliseconds, which may get more than the requested
time. The spread of a process pair falls with the root of the number of its rounds, and starting the
processes takes as long as a few dozen rounds."""

_MOST_TIME = 10.0
"""How many times the requested time these statements may get. Starting their processes takes as
long."""

_LONG_ROUND = 3e-4
"""Seconds. If a round takes longer, the next processes are not started while others are measured:
setting up and warming up would move megabytes on the other core. Process pairs of a copy in 16 MB
(a round of 0.7 ms) spread 1.4 % with that and 1.0 % without, those of `tanh` in 24 MB twice as
much."""

_MOST_ROUNDS = 2000
"""Maximum number of rounds, for very short statements: more would add nothing."""

_QUIET = 0.2
"""The share of a process's blocks that counts as quiet: the least disturbed ones. Neighbours in the
cache affect the median of the rounds more than the quiet blocks. With the quiet blocks, process
pairs of statements that fill caches spread 0.7 to 0.9 times as much; those of small ops spread the
same."""

_CHANGES_OF_ORDER = 1 / 16
"""How often a round begins with the other side than the round before. After a block of the same
side, a block finds its data in the caches and is 1 to 8 % faster than after a block of the other
side, so nearly all rounds alternate. With a new random order for every round, process pairs of
statements that move megabytes spread 1.3 to 1.7 times as much. Without any change of order, a
disturbance with the same period as the rounds could hit only one side."""

_SETTLING = 0.01
"""Seconds at the beginning that are not counted: until then the cache holds what the process that
was started last has left there. The first rounds of a copy in 16 MB were 8 % in its favour."""

_AS_WARM = 1.1
"""With blocks of one run, the run before a block counts too if it takes at most this many times as
long. This doubles the rounds of statements that take milliseconds, which need them most. The spread
of process pairs falls from 0.33 to 0.24 % for a polynomial of 2.3 ms, and from 1.5 to 1.2 % for
many small autograd calls."""

_ALONE = 0.9
"""If the second of two process pairs gets less than this share of the processor time that the
first one gets, something else uses its cores."""

_ALIKE = 8.0
"""If the two speeds differ by less than this factor, both sides use the same number of runs per
block. A block begins with cold caches, which must have the same weight on both sides. While its
blocks are sized, a process that was just forked can look four times as slow as an equal one,
because of a neighbour on the core."""


class AlternatingProcess(Protocol):
    """A process that is ready to be measured: a zygote's, or a fork of this process."""

    number: int
    """The number of runs that it chose for a block."""

    seconds: float
    """How long such a block takes."""

    is_small: bool
    """Whether its data fits into the caches of a core."""

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None: ...

    def blocks(self) -> BlockTimes: ...

    def close(self) -> None: ...


class Opens(Protocol):
    """An environment that starts a fresh process for a case at every call of `session`."""

    def start(self) -> object:
        """Start the environment if it is not running; called before the first session."""

    def run_on(self, cores: Collection[int]) -> None:
        """Move it to these cores, even while it is starting."""

    def session(
        self,
        case: Any,
        *,
        limits: Limits,
        shake: int,
        cores: Collection[int],
        while_others_run: bool,
        time_limit: float,
    ) -> AlternatingProcess:
        """Start a process for the case. `shake` decides where its heap and its stack lie.

        `while_others_run` says that others are being measured on these cores; it then moves there
        only for its blocks.
        """

    def close(self) -> None: ...


class Side(NamedTuple):
    """One of the two sides that are compared: its environment and its case."""

    opens: Opens
    case: Any


class SideFailedError(Exception):
    """The case cannot run on one side; the cause says why."""

    def __init__(self, role: int, error: CaseFailedError) -> None:
        super().__init__(str(error))
        self.is_a = role == 0
        self.error = error


Round: TypeAlias = tuple[float, float]
"""One block of A and one of B, back to back: seconds per run."""


class TakenCrossover(NamedTuple):
    """The results of two process pairs, one started A-first and one B-first."""

    estimates: Crossover
    """Logarithms of B's time divided by A's."""

    a_seconds: float
    """The median time of one run in A."""

    is_alone: bool = True
    """False if a process pair ran on other cores, and something else used these cores too."""


def take_crossover(
    a: Side,
    b: Side,
    rng: random.Random,
    cores: Collection[int],
    *,
    time_limit: float,
    seconds: float,
    in_background: bool = False,
    other_cores: Collection[int] = (),
) -> TakenCrossover:
    """Measure two process pairs: fresh processes of both sides, started in both orders.

    `seconds` is the total time of the blocks of a pair. With `in_background`, the second pair is
    started while the first one is measured, unless that would disturb it. With `other_cores`, the
    second pair runs on them. Both pairs then run at the same time, if their data fits into the
    caches of a core.
    """
    order = (0, 1) if rng.random() < 0.5 else (1, 0)
    pairs = [
        _ProcessPair((a, b), first, rng.getrandbits(32), where, time_limit, seconds)
        for first, where in zip(order, (cores, other_cores or cores), strict=True)
    ]
    if other_cores:
        both = _at_once(pairs, rng)
    else:
        both = _in_turn(pairs, rng, in_background=in_background)
    of = dict(zip(order, map(_estimate, both), strict=True))
    a_seconds = median([a_block for rounds in both for a_block, _ in rounds])
    one, other = (pair.processor_share for pair in pairs)
    return TakenCrossover((of[0], of[1]), a_seconds, other >= _ALONE * one)


def _estimate(rounds: Sequence[Round]) -> float:
    """Return the log ratio: the mean of the rounds' median and the difference of the quiet blocks.

    The two have different errors, so their mean has a smaller error than either.
    """
    if not rounds:
        raise EmptyMeasurementError("a process pair without rounds has no estimate")
    a, b = ([math.log(time) for time in times] for times in zip(*rounds, strict=True))
    middle = median([one - other for one, other in zip(b, a, strict=True)])
    return (middle + _quiet(b) - _quiet(a)) / 2


def _quiet(logs: Sequence[float]) -> float:
    """Return the mean of the smallest values."""
    count = max(1, int(_QUIET * len(logs)))
    return math.fsum(sorted(logs)[:count]) / count


def _at_once(pairs: Sequence[_ProcessPair], rng: random.Random) -> list[list[Round]]:
    """Measure each pair on its own cores."""
    one, other = pairs
    opening = begin(other.open, "process pair")
    with closing(one):
        try:
            one.open()
        except BaseException:
            opening.add_done_callback(lambda _: other.close())
            raise
        with closing(other):
            opening.result()
            if not (one.is_small() and other.is_small()):
                return [one.rounds(rng), other.rounds(rng)]
            apart = random.Random(rng.getrandbits(32))  # noqa: S311 - an order of blocks
            second = begin(lambda: other.rounds(apart), "process pair")
            return [one.rounds(rng), second.result()]


def _in_turn(
    pairs: Sequence[_ProcessPair], rng: random.Random, *, in_background: bool
) -> list[list[Round]]:
    one, other = pairs
    with closing(one):
        one.open()
        is_overlapping = in_background and one.round_seconds() < _LONG_ROUND
        opening = None
        if is_overlapping:
            opening = begin(lambda: other.open(while_others_run=True), "process pair")
        try:
            first = one.rounds(rng)
        except BaseException:
            if opening is not None:  # close it later without waiting here
                opening.add_done_callback(lambda _: other.close())
            raise
    with closing(other):
        if opening is None:
            other.open()
        else:
            opening.result()
        return [first, other.rounds(rng)]


@dataclass(slots=True)
class _ProcessPair:
    """A fresh process of each side; the two alternate with each other."""

    sides: tuple[Side, Side]
    first: int
    """Which of the two is started first: 0 for A."""

    shake: int
    """The same for both, so that their heaps and stacks lie at corresponding places."""

    cores: Collection[int]
    time_limit: float
    seconds: float
    _opened: dict[int, AlternatingProcess] = field(default_factory=dict)
    processor_share: float = 1.0
    """The share of the time of the blocks in which the processes had the processor."""

    def open(self, *, while_others_run: bool = False) -> None:
        """Start both; raise SideFailedError if either fails. See `Opens.session`."""
        limits = Limits(precision=0.01, min_run_time=self.seconds, max_run_time=2 * self.seconds)
        for role in (self.first, 1 - self.first):
            side = self.sides[role]
            try:
                self._opened[role] = side.opens.session(
                    side.case,
                    limits=limits,
                    shake=self.shake,
                    cores=self.cores,
                    while_others_run=while_others_run,
                    time_limit=self.time_limit,
                )
            except CaseFailedError as error:
                raise SideFailedError(role, error) from error

    def round_seconds(self) -> float:
        """Return how long a block of each takes together, including the warm-up runs."""
        return sum(
            session.seconds / session.number * (number + warm_up_runs(number))
            for session, number in zip(
                (self._opened[0], self._opened[1]), self._numbers(), strict=True
            )
        )

    def is_small(self) -> bool:
        """Whether the data of both sides fits into the caches of a core."""
        return all(session.is_small for session in self._opened.values())

    def rounds(self, rng: random.Random) -> list[Round]:
        """Let them alternate; return the rounds after the first ones, in which they settle."""
        numbers = self._numbers()
        count = _round_count(self.seconds, max(self.round_seconds(), 1e-9))
        order = _order(count, rng)
        with private_directory() as folder:
            batons = (folder / "a", folder / "b")
            for baton in batons:
                os.mkfifo(baton, 0o600)
            for role in (1, 0):
                self._opened[role].begin(order, role, numbers[role], batons)
            a, b = self._blocks_of_both()
        wall = math.fsum((*a.seconds, *b.seconds))
        self.processor_share = (a.cpu_seconds + b.cpu_seconds) / wall if wall else 1.0
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
        """Return the runs per block of each; if they are alike, both use the larger number."""
        a, b = self._opened[0], self._opened[1]
        one, other = sorted((a.seconds / a.number, b.seconds / b.number))
        if other > _ALIKE * one:
            return a.number, b.number
        number = max(a.number, b.number)
        return number, number

    def close(self) -> None:
        """End both processes."""
        for session in self._opened.values():
            session.close()


def _with_warm_ups(rounds: list[Round], warm_ups: list[Round]) -> list[Round]:
    """Add the runs before the blocks as rounds, if they take about as long as blocks of one run.

    If they take longer, the statement is slower with cold caches, which is not what is compared.
    """
    warm, cold = (median([time for each in times for time in each]) for times in (rounds, warm_ups))
    if cold > _AS_WARM * warm:
        return rounds
    return [each for both in zip(warm_ups, rounds, strict=True) for each in both]


def _round_count(wanted: float, of_one: float) -> int:
    """Return how many rounds fit into the wanted seconds, if one takes `of_one` seconds."""
    with_more_time = min(_WANTED_ROUNDS, int(_MOST_TIME * wanted / of_one))
    return min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, with_more_time, int(wanted / of_one)))


def _order(count: int, rng: random.Random) -> list[int]:
    """Return the role of every block for this number of rounds."""
    order = []
    first = rng.randrange(2)
    for _ in range(count):
        if rng.random() < _CHANGES_OF_ORDER:
            first = 1 - first
        order += [first, 1 - first]
    return order


def _unsettled(rounds: Sequence[tuple[float, float]]) -> int:
    """Return how many of the first rounds are not counted; at least half of all rounds are."""
    ends = itertools.accumulate(one + other for one, other in rounds)
    return min(len(rounds) // 2, sum(end <= _SETTLING for end in ends))


def _blocks(role: int, session: AlternatingProcess) -> BlockTimes:
    try:
        return session.blocks()
    except CaseFailedError as error:
        raise SideFailedError(role, error) from error
