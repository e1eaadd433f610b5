"""Takes blocks of runs from one or more loops, in rounds, until the result is precise enough.

Two things make the median of these samples steadier than the median of long blocks.

*Short blocks.* A block takes 300 µs if the statement and the clock allow it. So there are many
samples, most of which are too short to contain a disturbance.

*A reference loop.* Between any two blocks, a fixed amount of work is timed, the same for every
statement. On a shared machine, a neighbour on the same core makes everything slower by half or more
for tens of milliseconds; the reference loop shows when. A block is quiet if that loop kept its pace
before and after it. So whether a block counts never depends on its own time, and leaving out the
others does not bias the result. All samples are kept in the record.

Several loops are run in rounds: one block of each, in a new random order. So changes of the machine
affect all of them, and their times can be compared round by round.
"""

import dataclasses
import random
import time
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

from torchmark_probe.loops.clocks import ClockFacts
from torchmark_probe.loops.intervals import median, median_interval, quantile_of_sorted
from torchmark_probe.loops.snippets import Block, garbage_collection_off

BLOCK_SECONDS = 300e-6
"""Shorter blocks show their cold start (6 % of a small op at 50 µs, below 0.5 % at 300 µs); longer
blocks contain more disturbances. Measured by the runs of docs/method/performance.md."""

CLOCK_STEPS_PER_BLOCK = 1000
"""A block takes this many clock steps and readings, so that both are below 0.1 %."""

QUIET_PACE = 1.25
"""A neighbour on the same core makes the reference loop slower by a factor of 1.7 or more. Without
one, its pace varies by 1 %, or by 7 % if the core changes its clock."""

MIN_SAMPLES = 30
"""With fewer samples, the interval of a median is too wide to be useful."""

MIN_QUIET = 5
"""With fewer quiet samples, the least disturbed ones count and a warning is recorded."""

_CALMEST_SHARE = 0.25
"""The share of samples that counts if fewer than `MIN_QUIET` are quiet."""

MAX_NUMBER = 2147483647
"""Maximum number of runs in a block, which is that of a C++ loop."""

_WARM_UP_SHARE = 0.05
"""Share of the minimum run time to spend before the first sample, after sizing the block."""

_SURELY_LONG = 0.1
"""Seconds. Pauses of the machine are hardly ever this long, so the block itself takes this long."""

_COLD_RUNS = 4
"""TorchScript's executor profiles the first run and optimises in the second, and one run later for
code with gradients. From the fifth run on, it runs the optimised code."""

_CHECKED_AFTER = (5, MIN_SAMPLES, 100)
"""Numbers of blocks after which their length is checked: early, so that few blocks are dropped, and
again when a disturbance of the first ones has passed."""

_MOST_SIZINGS = 3
"""Maximum number of sizings, for a machine that pauses all the time."""


class Limits(NamedTuple):
    """When to stop: after reaching all minimum values, or one of the maximum values."""

    precision: float
    """Half width of the samples' 95 % interval to aim for, as a share of the median.

    Differences between results are not included, because more samples do not reduce them."""

    min_run_time: float
    """Minimum seconds of measured blocks per loop."""

    max_run_time: float
    """Maximum seconds of measured blocks per loop."""


class Size(NamedTuple):
    """The size of a block."""

    number: int
    """Number of runs."""

    seconds: float
    """Time that they take."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Every sample of one loop, in the order taken."""

    number: int
    """Number of runs in each block."""

    wall: Tuple[float, ...]
    """Wall-clock seconds of each block."""

    cpu: Tuple[float, ...]
    """Seconds of CPU time of each block, in the thread that ran it."""

    pace: Tuple[float, ...]
    """The slower of the two reference loop runs before and after each block, in seconds."""

    quiet_pace: float
    """Seconds of the reference loop on an undisturbed core: the best known."""

    clock_resolution: float
    """The clock's resolution in seconds."""

    def __post_init__(self) -> None:
        """Check the samples, which may come from a damaged file."""
        counts = len(self.wall), len(self.cpu), len(self.pace)
        if self.number < 1 or min(counts) < 1 or min(counts) != max(counts) or min(self.wall) < 0:
            raise ValueError(
                "a sampling of %d runs per block with %d wall times, %d CPU times and %d paces: "
                "there must be one of each per block, and none is negative" % (self.number, *counts)
            )

    def quiet(self) -> Tuple[bool, ...]:
        """For each block, whether the reference loop kept its pace before and after it."""
        limit = QUIET_PACE * self.quiet_pace
        return tuple(pace <= limit for pace in self.pace)

    def counted(self) -> Tuple[int, ...]:
        """The blocks that count: the quiet ones, or the least disturbed if too few were quiet."""
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

    def unsteadiness(self) -> float:
        """How far the reference loop fell behind its best pace around the counted blocks.

        A share that holds for nine in ten of the blocks. Even an otherwise idle core varies its
        speed over time, by several per cent if its host is busy.
        """
        if self.quiet_pace <= 0:
            return 0.0
        paces = sorted(self.pace[index] for index in self.counted())
        behind = quantile_of_sorted(paces, 0.9) / self.quiet_pace - 1
        return min(max(behind, 0.0), QUIET_PACE - 1)

    def slowdown(self) -> float:
        """How much slower the reference loop was around the counted blocks than on a quiet core.

        1 if quiet blocks count. Otherwise the statement was slower too, by an unknown factor that
        is rarely larger than this; a statement that waits for memory is affected less.
        """
        if sum(self.quiet()) >= MIN_QUIET or self.quiet_pace <= 0:
            return 1.0
        return max(1.0, median([self.pace[index] for index in self.counted()]) / self.quiet_pace)


_ONES = (1,) * 1000
"""The numbers that the reference loop adds up."""


class ReferenceLoop:
    """Times a fixed amount of work, and remembers its best pace."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.quiet_pace = float("inf")

    def run(self) -> float:
        """Do the work (about 5 µs) and return its seconds.

        The work is a sum, which runs in one tight C loop. It runs once before it is timed, so that
        earlier code does not matter: a Python loop took 1.5 times as long after a block of other
        code as after itself, which is as much as a neighbour costs.
        """
        sum(_ONES)
        self._clock()
        start = self._clock()
        sum(_ONES)
        return self._clock() - start

    def learn(self, seconds: Sequence[float]) -> None:
        """Use the fast end of these runs as the quiet pace if it is the best so far."""
        self.quiet_pace = min(self.quiet_pace, quantile_of_sorted(sorted(seconds), 0.05))


def sample(
    loops: Sequence[Any],
    limits: Limits,
    rng: random.Random,
    clock: ClockFacts,
    reference: ReferenceLoop,
) -> List[Sampling]:
    """Take blocks of every loop (anything with `run(number) -> Block`) until the limits say stop.

    All loops get the same number of blocks, one each per round, so that the samples of a round
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
    """Return the length of blocks: longer for a coarse clock, unless too few would fit."""
    wanted = CLOCK_STEPS_PER_BLOCK * max(clock.resolution, clock.cost)
    return max(least, min(wanted, limits.max_run_time / MIN_SAMPLES))


def _shared_seconds(sizes: Sequence[Size], clock: ClockFacts, limits: Limits) -> float:
    """Return the length of every block; it is longer if one of the statements is long.

    A round has one block of each loop. With short blocks, a fast statement would only be measured
    for a small part of the time that is available for it.
    """
    longest = max(size.seconds for size in sizes)
    return max(_block_seconds(clock, limits), min(longest, limits.max_run_time / MIN_SAMPLES))


def block_size(
    loop: Any,
    clock: ClockFacts,
    limits: Limits,
    least: float = BLOCK_SECONDS,
    *,
    run_seconds: float = 0.0,
) -> Size:
    """Return the size of a block, found by running growing blocks, which also warms up.

    `run_seconds` is the time of a warm run, if it is known: if that is longer than a block, the
    size is known too.

    Several blocks of the chosen size are run as a check: a size that was chosen during a pause of
    the machine is too small, and is chosen again.
    """
    block_seconds = _block_seconds(clock, limits, least)
    if run_seconds > 2 * block_seconds:
        return Size(1, run_seconds)
    for _ in range(_MOST_SIZINGS):
        size = _grow_block(loop, block_seconds, limits)
        if size.seconds > limits.max_run_time:
            break
        # A run that takes longer than a block is not repeated unless necessary.
        checks = _CHECKED_AFTER[0] if size.seconds < 2 * block_seconds else 1
        walls = [loop.run(size.number).wall for _ in range(checks)]
        if not _is_misfit(size.number, walls, block_seconds):
            break
    return size


def _is_misfit(number: int, walls: Sequence[float], block_seconds: float) -> bool:
    """Whether blocks are far from the wanted length, and another number of runs would help.

    Uses the shorter blocks: a pause makes a block longer, but nothing makes it shorter.
    """
    typical = quantile_of_sorted(sorted(walls), 0.25)
    is_short = 0 < typical < block_seconds / 2 and number < MAX_NUMBER
    return is_short or (typical > 2 * block_seconds and number > 1)


def _grow_block(loop: Any, block_seconds: float, limits: Limits) -> Size:
    """Grow blocks until one is long enough; the first runs are cold and are not used."""
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
    """Return a size of the wanted length, if `number` runs took `taken` seconds.

    In a process that was just forked, the first runs take several times as long as later ones, so
    the size is fitted again after the warm-up.
    """
    fitting = max(1, min(MAX_NUMBER, round(number * block_seconds / taken)))
    return Size(fitting, taken * fitting / number)


def _stretch(size: Size, block_seconds: float) -> int:
    """Return the runs of a block that takes at least this long."""
    if not 0 < size.seconds < block_seconds:
        return size.number
    return _fit(*size, block_seconds).number


def _least_time(loop: Any, number: int, block_seconds: float) -> float:
    """Return the time of a block of this size: the least of three if the first one is long.

    A single block may contain a pause of the machine, and a size based on it would be too small.
    """
    first: float = loop.run(number).wall
    if first < block_seconds / 2 or first > _SURELY_LONG:
        return first
    others: List[float] = [loop.run(number).wall for _ in range(2)]
    return min(first, *others)


class _Rounds:
    """The samples so far of every loop, and whether they are enough."""

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
        """Return loops whose blocks are far too short or too long; only checked occasionally."""
        if len(self._blocks[0]) not in _CHECKED_AFTER:
            return []
        return [
            index
            for index, (number, blocks) in enumerate(zip(self._numbers, self._blocks))
            if _is_misfit(number, [block.wall for block in blocks], self._block_seconds)
        ]

    def satisfy(self, limits: Limits) -> bool:
        """Whether to stop. The expensive check of the intervals is done more and more rarely."""
        taken = len(self._blocks[0])
        if taken == 0:
            return False
        spent = self._spent / len(self._loops)
        if spent >= limits.max_run_time:
            return True
        if taken < max(MIN_SAMPLES, self._next_look) or spent < limits.min_run_time:
            # With a clock that stands still, this would never end.
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
    """Whether the quiet samples are precise; on a disturbed machine it helps to wait for more."""
    quiet = [wall for wall, is_quiet in zip(sampling.wall, sampling.quiet()) if is_quiet]
    if len(quiet) < MIN_SAMPLES:
        return False
    centre, (low, high) = median(quiet), median_interval(quiet)
    return max(centre - low, high - centre) <= precision * centre
