"""Compares cases by their times until each verdict is clear or the case has used its budget.

Both environments are launched repeatedly, at different addresses each time, because one process has
only one layout of memory. A fresh launch of both is a replicate, and the verdict is based on
replicates. Within a replicate, a few crossovers of fresh processes are taken. The next launch runs
in the background, on cores where nothing is measured. While it runs, more crossovers are taken.
When only the launch is left to wait for, nothing is measured and it gets every core, because
importing torch twice on one core takes seconds.

A control shows how many false alarms this procedure gives: A is launched twice, as if it were two
environments, and some of the cases are compared in these two in the same way. This happens between
the other replicates and takes at most a tenth of the time.

The budget is per case, but cases share it: time that clear cases leave goes to unclear ones.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from torchmark.analyse.mixed_model import FEWEST_CROSSOVERS
from torchmark.analyse.pairs import (
    SAME_WITHIN,
    Forecast,
    detectable_among,
    forecast,
    is_decided,
    is_precise,
)
from torchmark.engine.cores import begin
from torchmark.engine.paired.pairing import (
    Opens,
    Side,
    SideFailedError,
    TakenCrossover,
    take_crossover,
)
from torchmark.engine.paired.sharing import share_time, tell_sharing
from torchmark.engine.under_test import FIRST_LAYOUT, UnderTest
from torchmark.model.result import Crossover, Metric, PairedTiming, PlannedResult
from torchmark.model.run import FEWEST_REPLICATES, Began, Effort, Note, Stage
from torchmark.report.figures import duration_text

_CROSSOVERS_BEFORE_THE_FIRST_LOOK = 2
"""Crossovers per case before the first look; after that the launch gets all cores. Most changes are
clear at the first look, so it should come early."""

_MOST_CROSSOVERS = 6
"""Maximum number per replicate; another launch says more than further crossovers."""

_LOOKS = {FEWEST_REPLICATES: 1 / 4, 10: 1 / 12, 20: 1 / 12, 40: 1 / 12}
"""Numbers of replicates after which results are checked, with the share of the allowed false alarms
that each of these looks may spend.

The shares add up to one at most, so that the looks do not make false alarms more frequent. The
final look, at the end of the budget, gets what the earlier looks have left. This is at least half,
because small changes are found then."""

_CONTROL_SHARE = 0.1
"""Share of the total time of comparing, launches included."""

_CASES_TO_A_CONTROL = 10
"""One case in this many is also compared with itself."""

_LAUNCH_SECONDS = 4.0
"""Assumed minimum time of a launch of both environments, until the control has launched them once:
importing torch twice on one core."""

_WITHOUT_OTHERS = 20
"""Crossovers that use one core only, after something else was found to use the second one."""

Starter: TypeAlias = "Callable[[int], Zygotes]"
"""Makes both environments without starting them; equal layouts give equal addresses."""

Taker: TypeAlias = "Callable[[Side, Side], TakenCrossover]"
"""Takes a crossover of two sides."""


class Zygotes(NamedTuple):
    """One launch of both environments, which may be the same zygote."""

    a: Opens
    b: Opens

    home: Collection[int] = ()
    """Cores to return to; if given, `close` moves the zygotes there instead of ending them."""

    def start(self) -> None:
        """Start both at the same time; if one fails, close both."""
        start_of_b = begin(self.b.start, "start")
        try:
            self.a.start()
            start_of_b.result()
        except BaseException:
            self.close()
            raise

    def run_on(self, cores: Collection[int]) -> None:
        self.a.run_on(cores)
        self.b.run_on(cores)

    def close(self) -> None:
        if self.home:
            self.run_on(self.home)
            return
        self.a.close()
        self.b.close()


def starter(a: UnderTest, b: UnderTest, *, threads: int, everywhere: Collection[int]) -> Starter:
    """Return a function that makes zygotes of both at equal addresses, or one if they are the same.

    The first layout uses the zygotes in which cases were tried; they have been running for seconds
    by the time timing starts. `everywhere` has all cores, which those zygotes had before.
    """
    is_same = a.environment.is_same_installation(b.environment)

    def make(layout: int) -> Zygotes:
        is_first = layout == FIRST_LAYOUT

        def of(side: UnderTest) -> Opens:
            if is_first:
                return side.workers.start(threads, under_callgrind=False)
            return side.workers.fresh(threads, layout=layout)

        one = of(a)
        return Zygotes(one, one if is_same else of(b), home=everywhere if is_first else ())

    return make


def control_starter(a: UnderTest, b: UnderTest, *, threads: int) -> Starter:
    """Return a function that makes zygotes of A for both sides; one if A and B are the same."""
    is_same = a.environment.is_same_installation(b.environment)

    def make(layout: int) -> Zygotes:
        one = a.workers.fresh(threads, layout=layout)
        return Zygotes(one, one if is_same else a.workers.fresh(threads, layout=layout))

    return make


class Starts:
    """Launches the zygotes of one layout after another."""

    def __init__(self, make: Starter, measured: Collection[int], *, in_background: bool) -> None:
        """`measured` are the cores for timing, in addition to those of the calling thread."""
        self._make = make
        self.in_background = in_background
        self.idle_cores = os.sched_getaffinity(0)
        """The cores on which nothing is measured."""
        self.everywhere = self.idle_cores | set(measured)
        self.longest = 0.0
        """Seconds that the longest launch has taken so far."""
        self._layout = FIRST_LAYOUT
        self._coming: tuple[Zygotes, Future[None]] | None = None

    def next(self, *, is_last: bool = False) -> Zygotes:
        """Wait for the next launch. Unless `is_last`, start the one after it in the background."""
        zygotes, is_over = self._coming or self._begin()
        if not is_over.done():
            zygotes.run_on(self.everywhere)
        is_over.result()
        self._coming = self._begin() if self.in_background and not is_last else None
        return zygotes

    def is_ready(self) -> bool:
        """Whether `next` would return without waiting."""
        return self._coming is None or self._coming[1].done()

    def close(self) -> None:
        if self._coming is not None:
            zygotes, is_over = self._coming
            is_over.add_done_callback(lambda _: zygotes.close())

    def _begin(self) -> tuple[Zygotes, Future[None]]:
        zygotes = self._make(self._layout)
        self._layout += 1

        def start() -> None:
            begun = time.perf_counter()
            zygotes.start()
            self.longest = max(self.longest, time.perf_counter() - begun)

        return zygotes, begin(start, "start")


class SpareCores:
    """Cores on which a second process pair can run at the same time."""

    def __init__(self, free: Sequence[int], wanted: int) -> None:
        """`free` are the cores on which nothing is measured; a process pair needs `wanted`."""
        self._cores = tuple(free[:wanted]) if 0 < wanted <= len(free) else ()
        self._without = 0

    def cores(self) -> tuple[int, ...]:
        """The cores for the next crossover; for a while after `leave` there are none."""
        if self._without:
            self._without -= 1
            return ()
        return self._cores

    def leave(self) -> None:
        """Do without them for the next crossovers, because something else uses them."""
        self._without = _WITHOUT_OTHERS


@dataclass(slots=True, eq=False)
class CaseTiming:
    """A case on its way to a verdict."""

    planned: PlannedResult

    ready: tuple[Any, Any]
    """What runs in A and in B, in the form that zygotes take."""

    same_files: bool = True
    """Whether both environments load the same files."""

    replicates: list[tuple[Crossover, ...]] = field(default_factory=list)
    a_seconds: list[float] = field(default_factory=list)
    alpha_share: float = 1.0
    """The share of the allowed false alarms that the last look may spend."""

    seconds: float = 0.0
    """Time spent so far."""

    failure: SideFailedError | None = None
    """Why there is no verdict, if one of the two failed."""

    forecast: Forecast | None = None
    """Set after the first replicates if a size of change to detect was given."""

    _present: list[Crossover] = field(default_factory=list)
    """The crossovers of the current replicate."""

    _spent: float = 0.0
    """The share of the allowed false alarms that the looks have spent so far."""

    extra: float = 0.0
    """Seconds on top of its budget, which other cases did not need."""

    def timing(self) -> PairedTiming:
        """Return the data of the replicates so far."""
        return PairedTiming(
            a_seconds=statistics.median(self.a_seconds),
            replicates=tuple(self.replicates),
            alpha_share=self.alpha_share,
            same_files=self.same_files,
            forecast=None if self.forecast is None else self.forecast.detectable,
        )

    def cut_short(self) -> bool:
        """End the case early; return whether its data is enough for an interval."""
        if self._present:
            self.replicates.append(tuple(self._present))
            self._present.clear()
        self.end()
        return self.crossovers >= FEWEST_CROSSOVERS

    def control(self) -> CaseTiming:
        """Return the same case for a comparison of A with A."""
        a = self.ready[0]
        planned = msgspec.structs.replace(self.planned, metric=Metric.CONTROL, other=None)
        return CaseTiming(planned=planned, ready=(a, a))

    def take_crossover(self, zygotes: Zygotes, take: Taker) -> None:
        """Add a crossover to the current replicate, or record the failure."""
        begun = time.perf_counter()
        try:
            taken = take(Side(zygotes.a, self.ready[0]), Side(zygotes.b, self.ready[1]))
            self._present.append(taken.estimates)
            self.a_seconds.append(taken.a_seconds)
        except SideFailedError as failure:
            self.failure = failure
        self.seconds += time.perf_counter() - begun

    def take_more(self, zygotes: Zygotes, take: Taker, effort: Effort) -> bool:
        """Take another crossover if the case may have one; return whether it was taken."""
        is_first_look_near = len(self.replicates) + 1 <= FEWEST_REPLICATES
        most = _CROSSOVERS_BEFORE_THE_FIRST_LOOK if is_first_look_near else _MOST_CROSSOVERS
        is_enough = self.is_in_its_last_replicate(effort) or len(self._present) >= most
        if self.failure is not None or is_enough:
            return False
        self.take_crossover(zygotes, take)
        return True

    def is_in_its_last_replicate(self, effort: Effort) -> bool:
        """Whether it will end with the current or next replicate, whatever the result."""
        return self._has_enough(effort) and len(self.replicates) + 1 >= effort.replicates

    def end_replicate(self, effort: Effort, cases: int) -> bool:
        """Return whether the case ends with this replicate: failed, decided or out of budget."""
        if self.failure is not None:
            return True
        self.replicates.append(tuple(self._present))
        self._present.clear()
        if self.extra:
            self.end()
            if is_precise(self.timing(), cases=cases):
                return True
        count = len(self.replicates)
        if self._has_enough(effort) and count >= effort.replicates:
            self.end()
            if effort.detect is None or self.seconds >= effort.budget:
                return True
            if detectable_among(self.timing(), cases) <= effort.detect:
                return True
        if effort.hurry or count not in _LOOKS:
            return False
        self.alpha_share = _LOOKS[count]
        self._spent += self.alpha_share
        # If a size of change to detect was given, only a clear change ends the case earlier.
        return is_decided(self.timing(), cases=cases, gives_up=effort.detect is None)

    def end(self) -> None:
        """Give the final look what the earlier looks have left."""
        self.alpha_share = 1 - self._spent

    def make_forecast(self, effort: Effort, cases: int) -> None:
        """Forecast the effort needed to detect the wanted size of change."""
        assert effort.detect is not None
        self.end()
        most = int(self.crossovers * effort.budget / self.seconds)
        self.forecast = forecast(self.timing(), effort.detect, cases=cases, most=most)

    @property
    def seconds_left(self) -> float:
        """Remaining seconds according to the forecast."""
        assert self.forecast is not None
        return self._seconds_until(self.forecast)

    def is_out_of_time(self, effort: Effort) -> bool:
        """Whether it has used its budget, so that only time of other cases lets it continue."""
        has_replicates = len(self.replicates) >= effort.replicates
        return self.failure is None and has_replicates and self._has_enough(effort)

    def has_had_its_budget(self, effort: Effort) -> bool:
        """Whether it can only get more time that other cases left, so its result may be final."""
        return len(self.replicates) >= effort.replicates and self.seconds >= effort.budget

    def seconds_to_see_same(self, most: float, cases: int) -> float:
        """Forecast the additional seconds until a change of 1 % is detectable.

        Returns infinity if `most` seconds are not enough.
        """
        count = int(self.crossovers * (1 + most / self.seconds))
        told = forecast(self.timing(), SAME_WITHIN, cases=cases, most=count)
        return self._seconds_until(told) if told.detectable <= SAME_WITHIN else math.inf

    def _seconds_until(self, told: Forecast) -> float:
        return self.seconds * max(0.0, told.crossovers / self.crossovers - 1)

    def _has_enough(self, effort: Effort) -> bool:
        """Whether its time is used up or the forecast number of crossovers is reached."""
        if effort.detect is None or self.seconds >= effort.budget:
            return self.seconds >= effort.budget + self.extra
        return self.forecast is not None and self.crossovers >= self.forecast.crossovers

    @property
    def crossovers(self) -> int:
        """Number of crossovers taken so far."""
        return len(self.a_seconds)


class Control:
    """Compares A with A in separate launches, between the replicates of a comparison."""

    def __init__(self, timings: Sequence[CaseTiming], start: Starter) -> None:
        """`start` makes two environments of A; the control cases are spread over those given."""
        count = max(1, len(timings) // _CASES_TO_A_CONTROL)
        places = [(2 * number + 1) * len(timings) // (2 * count) for number in range(count)]
        self._cases = [timings[place] for place in places] if timings else []
        self._waiting = [each.control() for each in self._cases]
        self._over: list[CaseTiming] = []
        self._start = start
        self._layout = FIRST_LAYOUT + 1  # the first layout is used by the cases themselves
        self._begun = time.perf_counter()
        self._spent = 0.0
        self._longest = 0.0
        """Seconds of the longest replicate."""

    def is_due(self, launch: float) -> bool:
        """Whether another replicate fits into the control's share of the time.

        Before the first replicate, `launch` is the time that launching both environments took.
        """
        of_one = self._longest or self._foresee(launch)
        share = (self._spent + of_one) / (time.perf_counter() - self._begun + of_one)
        return bool(self._waiting) and share <= _CONTROL_SHARE

    def _foresee(self, launch: float) -> float:
        """Estimate the time of a replicate: a launch, and one crossover of every case."""
        crossovers = (each.seconds / max(1, each.crossovers) for each in self._cases)
        return max(_LAUNCH_SECONDS, launch) + sum(crossovers)

    def take_replicate(self, take: Taker, effort: Effort) -> None:
        """Launch A twice and take a crossover of every case."""
        begun = time.perf_counter()
        zygotes = self._start(self._layout)
        self._layout += 1
        zygotes.start()
        with closing(zygotes):
            for each in self._waiting:
                each.take_crossover(zygotes, take)
        over = [each for each in self._waiting if each.end_replicate(effort, cases=1)]
        self._over += over
        self._waiting = [each for each in self._waiting if each not in over]
        seconds = time.perf_counter() - begun
        self._longest = max(self._longest, seconds)
        self._spent += seconds

    def results(self) -> list[CaseTiming]:
        """Return the cases with enough replicates for a verdict, except those that failed."""
        for each in self._waiting:
            each.end()
        every = [*self._over, *self._waiting]
        return [
            each
            for each in every
            if each.failure is None and len(each.replicates) >= FEWEST_REPLICATES
        ]


def take_replicates(
    timings: Sequence[CaseTiming],
    start: Starter,
    *,
    rng: random.Random,
    cores: Collection[int],
    effort: Effort,
    cases: int,
    in_background: bool,
    control: Control | None = None,
) -> Generator[Began | Note | Stage | CaseTiming, None, None]:
    """Take replicates of every case until it ends; yield each case when it does.

    Cases that are unclear at the end of their budget are held back until the others have ended, and
    continue if those left enough time. `cases` is how many are judged together. With
    `in_background`, which needs another core, the next processes are started while the current ones
    are measured. Only one thing is started there at a time: during a launch, processes are started
    on the core that then measures them.
    """
    waiting = list(timings)
    held: list[CaseTiming] = []
    sharing: Stage | None = None
    replicates = 0
    starts = Starts(start, cores, in_background=in_background)
    spare = SpareCores(sorted(starts.idle_cores - set(cores)), len(cores))
    take = _taker(starts, spare, rng, cores, effort)

    with closing(starts):
        while waiting:
            is_last = all(each.is_in_its_last_replicate(effort) for each in waiting)
            with closing(starts.next(is_last=is_last)) as zygotes:
                for each in waiting:
                    yield Began(case=each.planned.case, metric=Metric.TIME)
                    each.take_crossover(zygotes, take)
                if not effort.hurry:
                    _use_the_wait(waiting, starts, zygotes, take, effort)
            over = [each for each in waiting if each.end_replicate(effort, cases)]
            waiting = [each for each in waiting if each not in over]
            if effort.detect is None and not effort.hurry:
                held += [each for each in over if each.is_out_of_time(effort)]
            yield from (each for each in over if each not in held)
            if not waiting:
                waiting = share_time(held, timings, effort, cases)
                yield from (each for each in held if each not in waiting)
                held.clear()
                if sharing is not None:
                    yield msgspec.structs.replace(sharing, is_over=True)
                if waiting:
                    sharing = Stage(text=tell_sharing(waiting))
                    yield sharing
            replicates += 1
            if effort.detect is not None and replicates == FEWEST_REPLICATES and waiting:
                for each in waiting:
                    each.make_forecast(effort, cases)
                yield Note(text=tell_forecast(waiting, effort))
            if control is not None and control.is_due(starts.longest):
                control.take_replicate(take, effort)
    if control is not None:
        yield from control.results()


def _taker(
    starts: Starts,
    spare: SpareCores,
    rng: random.Random,
    cores: Collection[int],
    effort: Effort,
) -> Taker:
    """Return what takes a crossover on these cores, and on spare ones if nothing else runs there.

    Nothing is started in the background while the next launch is prepared there.
    """

    def take(one: Side, other: Side) -> TakenCrossover:
        is_overlapping = starts.in_background and starts.is_ready()
        others = spare.cores() if is_overlapping else ()
        keeps_off = is_overlapping and not others
        for side in (one, other):
            side.opens.run_on(starts.idle_cores if keeps_off else starts.everywhere)
        taken = take_crossover(
            one,
            other,
            rng,
            cores,
            time_limit=effort.timeout,
            seconds=effort.pair_seconds,
            in_background=is_overlapping,
            other_cores=others,
        )
        if not taken.is_alone:
            spare.leave()
        return taken

    return take


def tell_forecast(cases: Sequence[CaseTiming], effort: Effort) -> str:
    """Say how long detecting the wanted change will take, and which cases will not reach it."""
    assert effort.detect is not None
    seconds = sum(each.seconds_left for each in cases)
    late = [each for each in cases if each.forecast and each.forecast.detectable > effort.detect]
    size = f"{effort.detect * 100:g} %"
    told = f"forecast: to detect {size} takes about {duration_text(seconds)} more"
    if not late:
        return told
    worst = max(each.forecast.detectable for each in late if each.forecast)
    return (
        f"{told}; {len(late)} of {len(cases)} cases will not reach it in {effort.budget:g} s each "
        f"(forecast: {worst * 100:.1f} % or less)"
    )


def _use_the_wait(
    waiting: Sequence[CaseTiming], starts: Starts, zygotes: Zygotes, take: Taker, effort: Effort
) -> None:
    """Take more crossovers while waiting, first for the cases with the fewest."""
    willing = deque(sorted(waiting, key=lambda each: each.crossovers))
    while willing and not starts.is_ready():
        each = willing.popleft()
        if each.take_more(zygotes, take, effort):
            willing.append(each)
