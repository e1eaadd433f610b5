"""Blocks of runs, taken from one or more loops in rounds, until the result is precise enough.

Two things make the median of these samples steadier than that of long blocks.

*Short blocks.* A block is 300 µs long where the statement and the clock allow: many samples,
each too short to be cut in two by a disturbance.

*A reference loop.* Between any two blocks a fixed bit of work, the same for every statement, is
timed. On a shared machine a neighbour on the same core slows everything by half or more for
tens of milliseconds; the reference loop shows when. A block is quiet if that loop kept its pace
on both sides of it. Whether a block counts therefore never depends on its own time, so leaving
out the others does not flatter the statement. All samples are kept in the record.

Several loops are run in rounds, one block of each in a fresh random order, so that what changes
on the machine changes for all of them, and their times can be compared round by round.
"""

import dataclasses
import random
import time
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

from torchmark_probe.loops.clocks import ClockFacts
from torchmark_probe.loops.intervals import median, median_interval, quantile_of_sorted
from torchmark_probe.loops.snippets import Block, garbage_collection_off

BLOCK_SECONDS = 300e-6
"""Shorter blocks make the cold start of each visible (6 % of a small op at 50 µs, under 0.5 %
at 300 µs); longer ones are hit by more disturbances. Measured by docs/performance.md's runs."""

CLOCK_STEPS_PER_BLOCK = 1000
"""A block lasts this many steps of the clock, and readings of it, so both are below 0.1 %."""

QUIET_PACE = 1.25
"""A neighbour on the same core slows the reference loop by 1.7 or more; undisturbed it keeps its
pace within 1 %, and within 7 % where the core changes its clock."""

MIN_SAMPLES = 30
"""Below this the interval of a median is too wide to mean much."""

MIN_QUIET = 5
"""With fewer quiet samples than this, the least disturbed count and a warning is recorded."""

_CALMEST_SHARE = 0.25
"""The part of the samples that counts where fewer than `MIN_QUIET` are quiet."""

MAX_NUMBER = 2147483647
"""The largest number of runs in a block: what a C++ loop takes."""

_WARM_UP_SHARE = 0.05
"""Part of the least run time that is spent before the first sample, beyond sizing the block."""

_SURELY_LONG = 0.1
"""Seconds; a pause of the machine is hardly ever as long, so such a block is long by itself."""

_COLD_RUNS = 4
"""TorchScript's executor profiles the first run, optimises in the second, and does the same for
what is differentiated one run later; from the fifth on it runs what it has made."""

_CHECKED_AFTER = (5, MIN_SAMPLES, 100)
"""Blocks after which it is checked whether they are as long as they should be: soon, so that
little is dropped, and again when whatever has disturbed the first ones is over."""

_MOST_SIZINGS = 3
"""A machine that pauses all the time is taken as it is."""


class Limits(NamedTuple):
    """When to stop: the stop rule asks for all the least values, or for one of the most."""

    precision: float
    """Half width to aim at, as a share of the median, of the 95 % interval of these samples.

    What differs between two results is not in it, since more samples do not make it smaller."""

    min_run_time: float
    """Seconds of measured blocks per loop below which sampling goes on."""

    max_run_time: float
    """Seconds of measured blocks per loop after which sampling ends."""


class Size(NamedTuple):
    """Of a block."""

    number: int
    """Runs."""

    seconds: float
    """What they take."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Every sample of one loop, in the order taken."""

    number: int
    """Runs in each block."""

    wall: Tuple[float, ...]
    """Seconds of each block on the wall."""

    cpu: Tuple[float, ...]
    """Seconds of each block in CPU time of the thread that ran it."""

    pace: Tuple[float, ...]
    """The slower of the two runs of the reference loop around each block, in seconds."""

    quiet_pace: float
    """What the reference loop takes on an undisturbed core, in seconds: the best that is known."""

    clock_resolution: float
    """The step of the clock, in seconds."""

    def __post_init__(self) -> None:
        """Whoever reads samples from a file learns here that they are damaged."""
        counts = len(self.wall), len(self.cpu), len(self.pace)
        if self.number < 1 or min(counts) < 1 or min(counts) != max(counts) or min(self.wall) < 0:
            raise ValueError(
                "a sampling of %d runs per block with %d wall times, %d CPU times and %d paces: "
                "there must be one of each per block, and none is negative" % (self.number, *counts)
            )

    def quiet(self) -> Tuple[bool, ...]:
        """For each block, whether the reference loop kept its pace around it."""
        limit = QUIET_PACE * self.quiet_pace
        return tuple(pace <= limit for pace in self.pace)

    def counted(self) -> Tuple[int, ...]:
        """Which blocks count: the quiet ones, or the least disturbed where too few were quiet."""
        quiet = tuple(index for index, is_quiet in enumerate(self.quiet()) if is_quiet)
        if len(quiet) >= MIN_QUIET:
            return quiet
        ordered = sorted(self.pace)
        wanted = max(MIN_QUIET, int(_CALMEST_SHARE * len(ordered)))
        limit = ordered[min(wanted, len(ordered)) - 1]
        return tuple(index for index, pace in enumerate(self.pace) if pace <= limit)

    def disturbed_share(self) -> float:
        """The share of blocks around which the reference loop did not keep its pace."""
        return 1 - sum(self.quiet()) / len(self.pace)

    def slowdown(self) -> float:
        """How much slower than on an undisturbed core the reference loop was around what counts.

        1 where quiet blocks count. Else the statement was slowed as well, by an unknown amount
        that is hardly ever larger: one that waits for memory is slowed less.
        """
        if sum(self.quiet()) >= MIN_QUIET or self.quiet_pace <= 0:
            return 1.0
        return max(1.0, median([self.pace[index] for index in self.counted()]) / self.quiet_pace)


_ONES = (1,) * 1000
"""What the reference loop adds up."""


class ReferenceLoop:
    """Times a fixed bit of work, and remembers the best pace that it ever had."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.quiet_pace = float("inf")

    def run(self) -> float:
        """Do the bit of work (some 5 µs) and return its seconds.

        A sum runs in one tight loop of C. It is done once before it is timed, so that what ran
        before does not matter: a loop in Python took 1.5 times as long after a block of
        something else as it did in a row, which is what a neighbour costs.
        """
        sum(_ONES)
        self._clock()
        start = self._clock()
        sum(_ONES)
        return self._clock() - start

    def learn(self, seconds: Sequence[float]) -> None:
        """Take the quick end of these runs as the quiet pace if it is the best so far."""
        self.quiet_pace = min(self.quiet_pace, quantile_of_sorted(sorted(seconds), 0.05))


def sample(
    loops: Sequence[Any],
    limits: Limits,
    rng: random.Random,
    clock: ClockFacts,
    reference: ReferenceLoop,
) -> List[Sampling]:
    """Take blocks of every loop (anything with `run(number) -> Block`) until the limits say stop.

    All loops get the same number of blocks, one each per round, so that the samples of one round
    belong together.
    """
    with garbage_collection_off():
        sizes = [block_size(loop, clock, limits) for loop in loops]
        sizings = 1
        rounds = _Rounds(loops, sizes, reference, rng, clock, limits)
        while not rounds.satisfy(limits):
            rounds.run_one()
            misfits = rounds.misfits() if sizings < _MOST_SIZINGS else []
            if misfits:
                sizings += 1
                for index in misfits:
                    sizes[index] = block_size(loops[index], clock, limits)
                rounds = _Rounds(loops, sizes, reference, rng, clock, limits)
    return rounds.samplings()


def _block_seconds(clock: ClockFacts, limits: Limits, least: float = BLOCK_SECONDS) -> float:
    """A coarse clock asks for long blocks, but not so long that few of them fit."""
    wanted = CLOCK_STEPS_PER_BLOCK * max(clock.resolution, clock.cost)
    return max(least, min(wanted, limits.max_run_time / MIN_SAMPLES))


def _shared_seconds(sizes: Sequence[Size], clock: ClockFacts, limits: Limits) -> float:
    """How long every block should be. Beside a long statement the others get longer blocks too.

    A round has one block of each, so with short blocks a quick statement would be measured for a
    small part of the time that it was given.
    """
    longest = max(size.seconds for size in sizes)
    return max(_block_seconds(clock, limits), min(longest, limits.max_run_time / MIN_SAMPLES))


def block_size(loop: Any, clock: ClockFacts, limits: Limits, least: float = BLOCK_SECONDS) -> Size:
    """Runs of a block, and the seconds that they take, found by growing blocks, as a warm-up.

    Some blocks of that size show whether it is right: what was found during a pause of the machine
    is too small, and found again.
    """
    block_seconds = _block_seconds(clock, limits, least)
    for _ in range(_MOST_SIZINGS):
        size = _grow_block(loop, block_seconds, limits)
        if size.seconds > limits.max_run_time:
            break
        # One run that takes longer than a block is not run more often than it must be.
        checks = _CHECKED_AFTER[0] if size.seconds < 2 * block_seconds else 1
        walls = [loop.run(size.number).wall for _ in range(checks)]
        if not _is_misfit(size.number, walls, block_seconds):
            break
    return size


def _is_misfit(number: int, walls: Sequence[float], block_seconds: float) -> bool:
    """Whether blocks are far from the length that is wanted, and another number would help.

    Judged by the quick end: a pause makes a block longer, and nothing makes it shorter.
    """
    typical = quantile_of_sorted(sorted(walls), 0.25)
    is_short = 0 < typical < block_seconds / 2 and number < MAX_NUMBER
    return is_short or (typical > 2 * block_seconds and number > 1)


def _grow_block(loop: Any, block_seconds: float, limits: Limits) -> Size:
    """The first runs are cold and never the measure; a statement longer than a block gets one."""
    number, spent = 1, 0.0
    for _ in range(_COLD_RUNS):
        spent += loop.run(1).wall
        if spent > limits.max_run_time:
            return Size(1, spent)
        if spent > _SURELY_LONG:
            break
    give_up = time.perf_counter() + limits.max_run_time
    while True:
        taken = _least_time(loop, number, block_seconds)
        spent += taken
        if taken >= block_seconds / 2 or number >= MAX_NUMBER:
            break
        if spent > limits.max_run_time or time.perf_counter() > give_up:
            break
        growth = 0.75 * block_seconds / taken if taken > 0 else 10.0
        number = min(MAX_NUMBER, max(number + 1, int(number * min(10.0, max(growth, 2.0)))))
    if taken > 0:
        number, taken = _fit(number, taken, block_seconds)
    best = taken
    while taken > 0 and spent < _WARM_UP_SHARE * limits.min_run_time:
        wall = loop.run(number).wall
        best = min(best, wall or best)
        spent += wall or taken
    return _fit(number, best, block_seconds) if best > 0 else Size(number, taken)


def _fit(number: int, taken: float, block_seconds: float) -> Size:
    """Runs of a block that lasts as long as wanted, if so many took that long, and what they take.

    In a process that was just forked the first runs take several times as long as later ones, so a
    block is fitted again once it is warm.
    """
    fitting = max(1, min(MAX_NUMBER, round(number * block_seconds / taken)))
    return Size(fitting, taken * fitting / number)


def _stretch(size: Size, block_seconds: float) -> int:
    """Runs of a block that lasts at least so long."""
    if not 0 < size.seconds < block_seconds:
        return size.number
    return _fit(*size, block_seconds).number


def _least_time(loop: Any, number: int, block_seconds: float) -> float:
    """What a block of this size takes, the least of three readings if the first is long.

    One reading may hold a pause of the machine, and a block sized by it would be far too short.
    """
    first: float = loop.run(number).wall
    if first < block_seconds / 2 or first > _SURELY_LONG:
        return first
    others: List[float] = [loop.run(number).wall for _ in range(2)]
    return min(first, *others)


class _Rounds:
    """The samples so far of every loop, and whether they suffice."""

    def __init__(
        self,
        loops: Sequence[Any],
        sizes: Sequence[Size],
        reference: ReferenceLoop,
        rng: random.Random,
        clock: ClockFacts,
        limits: Limits,
    ) -> None:
        self._loops = list(loops)
        self._clock_resolution = clock.resolution
        self._block_seconds = _shared_seconds(sizes, clock, limits)
        self._numbers = [_stretch(size, self._block_seconds) for size in sizes]
        self._reference = reference
        self._rng = rng
        self._blocks: List[List[Block]] = [[] for _ in loops]
        self._paces: List[List[float]] = [[] for _ in loops]
        self._references: List[float] = [reference.run()]
        self._spent = 0.0
        self._next_look = 1

    def run_one(self) -> None:
        order = list(range(len(self._loops)))
        self._rng.shuffle(order)
        for index in order:
            block = self._loops[index].run(self._numbers[index])
            self._references.append(self._reference.run())
            self._blocks[index].append(block)
            self._paces[index].append(max(self._references[-2:]))
            self._spent += block.wall

    def misfits(self) -> List[int]:
        """The loops whose blocks are far too short or too long; only now and then is it checked."""
        if len(self._blocks[0]) not in _CHECKED_AFTER:
            return []
        return [
            index
            for index, (number, blocks) in enumerate(zip(self._numbers, self._blocks))
            if _is_misfit(number, [block.wall for block in blocks], self._block_seconds)
        ]

    def satisfy(self, limits: Limits) -> bool:
        """Whether to stop; the costly look at the intervals is taken ever more rarely."""
        taken = len(self._blocks[0])
        if taken == 0:
            return False
        spent = self._spent / len(self._loops)
        if spent >= limits.max_run_time:
            return True
        if taken < max(MIN_SAMPLES, self._next_look) or spent < limits.min_run_time:
            # A clock that stands still would let this go on for ever.
            return spent <= 0.0 and taken >= MIN_SAMPLES
        self._next_look = taken + max(1, taken // 4)
        return all(_is_precise(sampling, limits.precision) for sampling in self.samplings())

    def samplings(self) -> List[Sampling]:
        self._reference.learn(self._references)
        return [
            Sampling(
                number=number,
                wall=tuple(block.wall for block in blocks),
                cpu=tuple(block.cpu for block in blocks),
                pace=tuple(paces),
                quiet_pace=self._reference.quiet_pace,
                clock_resolution=self._clock_resolution,
            )
            for number, blocks, paces in zip(self._numbers, self._blocks, self._paces)
        ]


def _is_precise(sampling: Sampling, precision: float) -> bool:
    """Judged by the quiet samples alone: on a disturbed machine it pays to wait for more."""
    quiet = [wall for wall, is_quiet in zip(sampling.wall, sampling.quiet()) if is_quiet]
    if len(quiet) < MIN_SAMPLES:
        return False
    centre, (low, high) = median(quiet), median_interval(quiet)
    return max(centre - low, high - centre) <= precision * centre
