"""Replays all calls of a step in order, again and again; times whole passes and each position.

A trace does not say which tensor of one call is used by another. So every distinct call has its own
inputs, made once. Its result is kept until the call runs again: as in a real step, memory is then
allocated while the results of other calls exist. Without this, one hot piece of memory would serve
every result. If all results were kept until the end of a pass, all of their memory would be
returned and faulted in again.

In passes that are timed as a whole, the clock is not read between calls. Other passes read the
clock after every call; the cost of a reading is subtracted.
"""

import random
import time
from typing import Any, List, Optional, Sequence

from torchmark_probe.loops.clocks import Clock, clock_facts, wall_clock
from torchmark_probe.loops.intervals import median, median_interval
from torchmark_probe.loops.sampling import ReferenceLoop, sample
from torchmark_probe.loops.snippets import Block, garbage_collection_off
from torchmark_probe.replay.calls import Call, rebuild, settle
from torchmark_probe.zygote.handlers import (
    Surroundings,
    answers,
    headline_of,
    why_unsupported,
)
from torchmark_probe.zygote.messages import LeftOut, ReplayedInOrder, ReplayInOrder

_FEWEST_PASSES = 5
"""Minimum number of passes with a clock reading after every call, for a median per position."""


@answers(ReplayInOrder)
def _replay(work: ReplayInOrder, around: Surroundings, _talk: int) -> ReplayedInOrder:
    clock = wall_clock(around.torch)
    facts = clock_facts(clock)
    left_out: List[LeftOut] = []
    passes = Passes(_prepare_calls(work, left_out), work.order, clock)
    rng = random.Random(work.seed)  # noqa: S311 - an order of blocks, not a secret
    sampling = sample([passes], work.limits, rng, facts, ReferenceLoop())[0]
    with garbage_collection_off():
        taken = passes.seconds_by_position(facts.cost, work.limits.min_run_time)
    intervals = [median_interval(seconds) for seconds in taken]
    return ReplayedInOrder(
        sampling=sampling,
        seconds=[median(seconds) for seconds in taken],
        lows=[max(0.0, interval.low) for interval in intervals],
        highs=[interval.high for interval in intervals],
        passes=max(map(len, taken), default=0),
        left_out=left_out,
    )


def _prepare_calls(work: ReplayInOrder, left_out: List[LeftOut]) -> List[Optional[Call]]:
    """Make every call's inputs, and run it once; a call that fails becomes None and is left out.

    Each call is checked against the memory that the calls before it have left.
    """
    settle()
    calls: List[Optional[Call]] = []
    for number, text in enumerate(work.calls):
        try:
            operator, args, kwargs = rebuild(text, work.seed, work.values)
            operator(*args, **kwargs)
        except Exception as error:  # an operator may raise anything
            why = why_unsupported(error)
            left_out.append(LeftOut(number, why or headline_of(error), bool(why)))
            calls.append(None)
        else:
            calls.append((operator, args, kwargs))
    return calls


class Passes:
    """The calls in order, without those that are None; a run is a pass."""

    def __init__(self, calls: Sequence[Optional[Call]], order: Sequence[int], clock: Clock) -> None:
        self._clock = clock
        self._held: List[Any] = [None] * len(calls)
        in_order = [(number, calls[number]) for number in order]
        self._sequence = [(number, *call) for number, call in in_order if call is not None]

    def run(self, number: int) -> Block:
        held, sequence = self._held, self._sequence
        cpu, start = time.thread_time(), self._clock()
        for _ in range(number):
            for index, operator, args, kwargs in sequence:
                held[index] = operator(*args, **kwargs)
        end = self._clock()
        return Block(end - start, time.thread_time() - cpu)

    def seconds_by_position(self, reading: float, budget: float) -> List[List[float]]:
        """Return the times of each call in every pass, for `budget` seconds in total.

        `reading` is the cost of reading the clock.
        """
        taken: List[List[float]] = []
        while len(taken) < _FEWEST_PASSES or sum(map(sum, taken)) < budget:
            taken.append(self._pass_with_readings())
        return [[max(0.0, seconds - reading) for seconds in times] for times in zip(*taken)]

    def _pass_with_readings(self) -> List[float]:
        held, clock = self._held, self._clock
        readings = [clock()]
        for index, operator, args, kwargs in self._sequence:
            held[index] = operator(*args, **kwargs)
            readings.append(clock())
        return [later - earlier for earlier, later in zip(readings, readings[1:])]
