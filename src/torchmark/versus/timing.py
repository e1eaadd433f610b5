"""Cases compared in two environments by their times, until each verdict is clear or its time is up.

Zygotes are restarted after some pairs, both at other addresses, since the layout of one process is
not the result; the next ones start while the present ones measure. Beside every few pairs of A and
B comes one of A and A, from which the report says how often this set-up cries wolf.

Where the kernel does not let us choose addresses, every start draws its own for A and for B, and
that moves small ops by one per cent: then a start, not a pair, is what counts as one.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torchmark.analyse.pairs import FEWEST_PAIRS, effect_of, is_decided
from torchmark.model.ab_record import PairedTimes
from torchmark.model.run_record import Kind
from torchmark.runner.execution import Began
from torchmark.versus.pairing import Side, SideFailedError, pair_of
from torchmark_probe.intervals import median

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Generator, Sequence

    from torchmark.versus.pairing import Opens, Pair
    from torchmark.versus.plan import Planned, Wish

PAIRS_OF_A_START = 4
"""Pairs that a case gets from one start of the zygotes."""

FEWEST_STARTS = 2

_PAIRS_TO_A_CONTROL = 2

_SHARE_OF_A_START = 1 / 3
"""Of the budget: what a case of seconds may use before the zygotes are started again."""


class Zygotes(NamedTuple):
    """One start of both environments."""

    a: Opens
    b: Opens
    has_fixed_addresses: bool

    def close(self) -> None:
        self.a.close()
        self.b.close()


class Starter(Protocol):
    """Starts both environments; equal layouts give equal addresses."""

    def __call__(self, layout: int) -> Zygotes: ...


@dataclass(slots=True, kw_only=True)
class Timing:
    """A case on its way to a verdict."""

    planned: Planned

    a: Any
    """What runs in A, as its zygote takes it."""

    b: Any
    """What runs in B."""

    estimates: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    a_seconds: list[float] = field(default_factory=list)
    looks: int = 0
    starts: int = 0

    seconds: float = 0.0
    """Spent so far."""

    failure: SideFailedError | None = None
    """Why there is no verdict, where one of the two failed."""

    def times(self) -> PairedTimes:
        """What the pairs gave so far."""
        return PairedTimes(
            a_seconds=median(self.a_seconds),
            estimates=tuple(self.estimates),
            control=tuple(self.control),
            looks=self.looks,
            starts=self.starts,
        )

    def is_over(self, budget: float, cases: int) -> bool:
        """Whether it has failed, is decided, or has had its time."""
        if self.failure is not None:
            return True
        if self.starts < FEWEST_STARTS or len(self.estimates) < FEWEST_PAIRS:
            return False
        self.looks += 1
        effect = effect_of(self.estimates, looks=self.looks)
        return self.seconds >= budget or is_decided(effect, cases=cases)

    def take(self, zygotes: Zygotes, budget: float, pair: Callable[[Side, Side], Pair]) -> None:
        """The pairs of one start."""
        begun = time.perf_counter()
        a, b = Side(opens=zygotes.a, case=self.a), Side(opens=zygotes.b, case=self.b)
        estimates, control = [], []
        wanted = PAIRS_OF_A_START if zygotes.has_fixed_addresses else 1
        try:
            for number in range(wanted):
                if number % _PAIRS_TO_A_CONTROL == 0:
                    control.append(pair(a, a).estimate)
                taken = pair(a, b)
                estimates.append(taken.estimate)
                self.a_seconds.append(taken.a_seconds)
                if time.perf_counter() - begun > budget * _SHARE_OF_A_START:
                    break
        except SideFailedError as failure:
            self.failure = failure
        self.estimates += estimates
        self.control += control
        self.starts += 1
        self.seconds += time.perf_counter() - begun


def timed(
    timings: Sequence[Timing],
    start: Starter,
    *,
    rng: random.Random,
    cores: Collection[int],
    wish: Wish,
    cases: int,
    in_background: bool,
) -> Generator[Began | Timing, None, None]:
    """Take pairs of every case until it is over; each is handed on when it is.

    `cases` is how many are judged together. `in_background` lets the next zygotes start while the
    present ones measure, for which there must be another core.
    """
    waiting = list(timings)
    coming = _Coming(start, in_background=in_background)

    def pair(one: Side, other: Side) -> Pair:
        return pair_of(one, other, rng, cores, time_limit=wish.time_limit)

    with closing(coming):
        while waiting:
            with closing(coming.next()) as zygotes:
                for each in list(waiting):
                    yield Began(each.planned.case, Kind.TIME)
                    each.take(zygotes, wish.budget, pair)
                    if each.is_over(wish.budget, cases):
                        waiting.remove(each)
                        yield each


class _Coming:
    """The zygotes of one layout after the other, the next ones being started meanwhile."""

    def __init__(self, start: Starter, *, in_background: bool) -> None:
        self._start = start
        self._in_background = in_background
        self._layout = 0
        self._future: Future[Zygotes] | None = None

    def next(self) -> Zygotes:
        present = self._future or self._begun()
        zygotes = present.result()
        self._future = self._begun() if self._in_background else None
        return zygotes

    def close(self) -> None:
        if self._future is not None:
            self._future.add_done_callback(_close)

    def _begun(self) -> Future[Zygotes]:
        """Not in a pool of concurrent.futures: those are joined when the interpreter ends."""
        future: Future[Zygotes] = Future()
        layout, self._layout = self._layout, self._layout + 1

        def do() -> None:
            try:
                future.set_result(self._start(layout))
            except BaseException as error:  # it is the future that raises it
                future.set_exception(error)

        Thread(target=do, name="torchmark start", daemon=True).start()
        return future


def _close(start: Future[Zygotes]) -> None:
    if start.exception() is None:
        start.result().close()
