"""Cases compared by their times, until each verdict is clear or the case has used its budget.

Both environments are launched again and again, at other addresses each time, because the layout of
one process is not the result: a fresh launch of both is a replicate, and replicates are what the
verdict counts. Within a replicate a few crossovers of fresh processes are taken. The next launch
goes on while the present one is measured, on the cores on which nothing is measured; as long as it
is not ready there is time for more crossovers. While it is waited for nothing is measured at all,
and it has every core: importing torch twice on one core takes seconds.

A control tells how many false alarms this set-up gives: A is launched twice, as two environments,
and some of the cases are compared in these two by the same procedure, in between the others and for
a tenth of the time at most.
"""

from __future__ import annotations

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
from torchmark.analyse.pairs import Forecast, detectable_among, forecast, is_decided
from torchmark.engine.cores import begin
from torchmark.engine.paired.pairing import (
    Opens,
    Side,
    SideFailedError,
    TakenCrossover,
    take_crossover,
)
from torchmark.engine.under_test import FIRST_LAYOUT, UnderTest
from torchmark.model.result import Crossover, Metric, PairedTiming, PlannedResult
from torchmark.model.run import FEWEST_REPLICATES, Began, Effort, Note
from torchmark.report.figures import duration_text

_CROSSOVERS_BEFORE_THE_FIRST_LOOK = 2
"""Most changes are clear at the first look, which the next launches bring nearer: they have the
cores for themselves after so many crossovers."""

_MOST_CROSSOVERS = 6
"""After that many, more of them say nothing that another launch would not say better."""

_LOOKS = {FEWEST_REPLICATES: 1 / 4, 10: 1 / 12, 20: 1 / 12, 40: 1 / 12}
"""Numbers of replicates after which results are checked, with the share of the allowed false alarms
that each of these looks may spend.

What is spent adds up to one at most, so that looking does not make false alarms more frequent. The
look at the end of the budget has what the looks before it have left, half or more: that is when
small changes are found."""

_CONTROL_SHARE = 0.1
"""Of the time that comparing takes in all, launches included."""

_CASES_TO_A_CONTROL = 10
"""One case in so many is compared with itself."""

_LAUNCH_SECONDS = 4.0
"""What a launch of both environments is assumed to take at least, before the control has had one:
importing torch twice on one core."""

Starter: TypeAlias = "Callable[[int], Zygotes]"
"""Makes both environments, not yet started; equal layouts give equal addresses."""

Taker: TypeAlias = "Callable[[Side, Side], TakenCrossover]"
"""Takes a crossover of two sides."""


class Zygotes(NamedTuple):
    """One launch of both environments; they may be one."""

    a: Opens
    b: Opens

    home: Collection[int] = ()
    """Where they go back to if others need them afterwards; they are not ended then."""

    def start(self) -> None:
        """Start both at the same time; if one cannot, neither stays."""
        beside = begin(self.b.start, "start")
        try:
            self.a.start()
            beside.result()
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
    """Makes zygotes of both at the same addresses; one where they are one.

    The first are those that cases were tried in: they have run for seconds when times begin.
    `everywhere` has all cores, which those had before.
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
    """Makes zygotes of A in the place of both: two, or one where A and B are one."""
    is_same = a.environment.is_same_installation(b.environment)

    def make(layout: int) -> Zygotes:
        one = a.workers.fresh(threads, layout=layout)
        return Zygotes(one, one if is_same else a.workers.fresh(threads, layout=layout))

    return make


class Starts:
    """The zygotes of one layout after the other."""

    def __init__(self, make: Starter, measured: Collection[int], *, in_background: bool) -> None:
        """`measured` are the cores that times are taken on, beside those of the calling thread."""
        self._make = make
        self._in_background = in_background
        self.beside = os.sched_getaffinity(0)
        """Where nothing is measured."""
        self.everywhere = self.beside | set(measured)
        self.longest = 0.0
        """Seconds that a launch has taken so far."""
        self._layout = FIRST_LAYOUT
        self._coming: tuple[Zygotes, Future[None]] | None = None

    def next(self, *, is_last: bool = False) -> Zygotes:
        """Wait for the next ones; after the last nobody needs another start."""
        zygotes, is_over = self._coming or self._begin()
        if not is_over.done():
            zygotes.run_on(self.everywhere)
        is_over.result()
        self._coming = self._begin() if self._in_background and not is_last else None
        return zygotes

    def is_ready(self) -> bool:
        """Whether nobody would have to wait for the next."""
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


@dataclass(slots=True)
class CaseTiming:
    """A case on its way to a verdict."""

    planned: PlannedResult

    ready: tuple[Any, Any]
    """What runs in A and in B, as their zygotes take it."""

    same_files: bool = True
    """Whether both environments load the same files."""

    replicates: list[tuple[Crossover, ...]] = field(default_factory=list)
    a_seconds: list[float] = field(default_factory=list)
    alpha_share: float = 1.0
    """Of the allowed false alarms, what the last look may spend."""

    seconds: float = 0.0
    """Spent so far."""

    failure: SideFailedError | None = None
    """Why there is no verdict, where one of the two failed."""

    forecast: Forecast | None = None
    """Where a size of change was asked for, once the first replicates are there."""

    _present: list[Crossover] = field(default_factory=list)
    """The crossovers of the present replicate."""

    _spent: float = 0.0
    """Of the allowed false alarms, what the looks so far have spent."""

    def timing(self) -> PairedTiming:
        """What the replicates gave so far."""
        return PairedTiming(
            a_seconds=statistics.median(self.a_seconds),
            replicates=tuple(self.replicates),
            alpha_share=self.alpha_share,
            same_files=self.same_files,
            forecast=None if self.forecast is None else self.forecast.detectable,
        )

    def cut_short(self) -> bool:
        """End it with what there is; whether that is enough for an interval."""
        if self._present:
            self.replicates.append(tuple(self._present))
            self._present.clear()
        self.end()
        return self.crossovers >= FEWEST_CROSSOVERS

    def control(self) -> CaseTiming:
        """The same case, to be compared in A and in A."""
        a = self.ready[0]
        planned = msgspec.structs.replace(self.planned, metric=Metric.CONTROL, other=None)
        return CaseTiming(planned=planned, ready=(a, a))

    def take_crossover(self, zygotes: Zygotes, take: Taker) -> None:
        """One more of the present replicate; a failure is noted."""
        begun = time.perf_counter()
        try:
            taken = take(Side(zygotes.a, self.ready[0]), Side(zygotes.b, self.ready[1]))
            self._present.append(taken.estimates)
            self.a_seconds.append(taken.a_seconds)
        except SideFailedError as failure:
            self.failure = failure
        self.seconds += time.perf_counter() - begun

    def take_more(self, zygotes: Zygotes, take: Taker, effort: Effort) -> bool:
        """Once more, while there is time that nothing else needs; False if that is enough."""
        is_first_look_near = len(self.replicates) + 1 <= FEWEST_REPLICATES
        most = _CROSSOVERS_BEFORE_THE_FIRST_LOOK if is_first_look_near else _MOST_CROSSOVERS
        is_enough = self.is_in_its_last_replicate(effort) or len(self._present) >= most
        if self.failure is not None or is_enough:
            return False
        self.take_crossover(zygotes, take)
        return True

    def is_in_its_last_replicate(self, effort: Effort) -> bool:
        """Whether it ends with the present replicate, or the one that comes, whatever that says."""
        return self._has_enough(effort) and len(self.replicates) + 1 >= effort.replicates

    def end_replicate(self, effort: Effort, cases: int) -> bool:
        """Whether the case is over with this replicate: failed, decided, or out of budget."""
        if self.failure is not None:
            return True
        self.replicates.append(tuple(self._present))
        self._present.clear()
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
        # Where a size of change was asked for, only a change that is clear ends it earlier.
        return is_decided(self.timing(), cases=cases, gives_up=effort.detect is None)

    def end(self) -> None:
        """The last look has what the looks before it have left."""
        self.alpha_share = 1 - self._spent

    def make_forecast(self, effort: Effort, cases: int) -> None:
        """Foretell what the wanted size of change will take, from what there is."""
        assert effort.detect is not None
        self.end()
        most = int(self.crossovers * effort.budget / self.seconds)
        self.forecast = forecast(self.timing(), effort.detect, cases=cases, most=most)

    @property
    def seconds_left(self) -> float:
        """By the forecast."""
        assert self.forecast is not None
        return self.seconds * max(0.0, self.forecast.crossovers / self.crossovers - 1)

    def _has_enough(self, effort: Effort) -> bool:
        """Whether its budget is used up, or the forecast is reached."""
        if effort.detect is None or self.seconds >= effort.budget:
            return self.seconds >= effort.budget
        return self.forecast is not None and self.crossovers >= self.forecast.crossovers

    @property
    def crossovers(self) -> int:
        """How many were taken so far."""
        return len(self.a_seconds)


class Control:
    """A compared with A, launched apart, in between the cases of a comparison."""

    def __init__(self, timings: Sequence[CaseTiming], start: Starter) -> None:
        """`start` makes two environments of A; the cases are spread over those given."""
        count = max(1, len(timings) // _CASES_TO_A_CONTROL)
        places = [(2 * number + 1) * len(timings) // (2 * count) for number in range(count)]
        self._cases = [timings[place] for place in places] if timings else []
        self._waiting = [each.control() for each in self._cases]
        self._over: list[CaseTiming] = []
        self._start = start
        self._layout = FIRST_LAYOUT + 1  # the first ones are where the cases themselves begin
        self._begun = time.perf_counter()
        self._spent = 0.0
        self._longest = 0.0
        """Seconds of a replicate."""

    def is_due(self, launch: float) -> bool:
        """Whether another replicate fits into the share of the time.

        Where there was none yet, `launch` is what launching both environments has taken.
        """
        of_one = self._longest or self._foresee(launch)
        share = (self._spent + of_one) / (time.perf_counter() - self._begun + of_one)
        return bool(self._waiting) and share <= _CONTROL_SHARE

    def _foresee(self, launch: float) -> float:
        """What a replicate will take: a launch, and a crossover of every case as that has them."""
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
        """What has replicates enough for a verdict; what failed here failed for its case too."""
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
) -> Generator[Began | Note | CaseTiming, None, None]:
    """Take replicates of every case until it is over; each is handed on when it is.

    `cases` is how many are judged together. `in_background` lets the next processes be made while
    the present ones are measured, for which there must be another core. One thing at a time is made
    there: while a launch goes on, processes are made on the core that then measures them.
    """
    waiting = list(timings)
    replicates = 0
    starts = Starts(start, cores, in_background=in_background)

    def take(one: Side, other: Side) -> TakenCrossover:
        is_beside = in_background and starts.is_ready()
        for side in (one, other):
            side.opens.run_on(starts.beside if is_beside else starts.everywhere)
        return take_crossover(
            one,
            other,
            rng,
            cores,
            time_limit=effort.timeout,
            seconds=effort.pair_seconds,
            in_background=is_beside,
        )

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
            yield from over
            replicates += 1
            if effort.detect is not None and replicates == FEWEST_REPLICATES and waiting:
                for each in waiting:
                    each.make_forecast(effort, cases)
                yield Note(text=tell_forecast(waiting, effort))
            if control is not None and control.is_due(starts.longest):
                control.take_replicate(take, effort)
    if control is not None:
        yield from control.results()


def tell_forecast(cases: Sequence[CaseTiming], effort: Effort) -> str:
    """How long the wanted size of change will take, and where it will not be reached."""
    assert effort.detect is not None
    seconds = sum(each.seconds_left for each in cases)
    late = [each for each in cases if each.forecast and each.forecast.detectable > effort.detect]
    size = f"{effort.detect * 100:g} %"
    told = f"forecast: to detect {size} takes about {duration_text(seconds)} more"
    if not late:
        return told
    worst = max(each.forecast.detectable for each in late if each.forecast)
    return (
        f"{told}; {len(late)} of {len(cases)} cases will not get there in {effort.budget:g} s each "
        f"(forecast: {worst * 100:.1f} % or less)"
    )


def _use_the_wait(
    waiting: Sequence[CaseTiming], starts: Starts, zygotes: Zygotes, take: Taker, effort: Effort
) -> None:
    """More crossovers one by one, first of the cases that had the fewest."""
    willing = deque(sorted(waiting, key=lambda each: each.crossovers))
    while willing and not starts.is_ready():
        each = willing.popleft()
        if each.take_more(zygotes, take, effort):
            willing.append(each)
