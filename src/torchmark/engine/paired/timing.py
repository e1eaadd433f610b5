"""Cases compared in two environments by their times, until each verdict is clear or its time is up.

Both environments are started again and again, at other addresses each time, since the layout of
one process is not the result: one start of both is one pair, and pairs are what the verdict counts.
Within a pair fresh processes take turns a few times. The next start goes on while the present one
is measured; as long as it is not ready there is time for some more turns.

Every sixth time a control follows: A against A, in the same way, from which the report says how
often this set-up cries wolf.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from torchmark.analyse.pairs import FEWEST_PAIRS, effect_in, is_decided
from torchmark.engine.execution import Began
from torchmark.engine.paired.pairing import Side, SideFailedError, turns_of
from torchmark.engine.paired.starting import Starts
from torchmark.model.ab_record import PairedTimes
from torchmark.model.result import Metric

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Generator, Iterator, Sequence

    from torchmark.engine.paired.pairing import Turns
    from torchmark.engine.paired.plan import Planned, Wish
    from torchmark.engine.paired.starting import Starter, Zygotes
    from torchmark.model.ab_record import Turn

_TURNS_BEFORE_THE_FIRST_LOOK = 2
"""Most changes are clear at the first look, which the next starts bring nearer: they have the cores
for themselves after so many turns."""

_MOST_TURNS = 6
"""After that many, more of them say nothing that another start would not say better."""

_TURNS_TO_A_CONTROL = 6

_LOOKS = {FEWEST_PAIRS: 4.0, 10: 12.0, 20: 12.0, 40: 12.0}
"""Numbers of pairs after which it is looked whether they suffice, with the penalty of that look.

The inverses of all penalties add up to one, so that looking does not make false alarms more
frequent. The look when the time is up has what the looks before it have left, half or more: that is
when small changes are found."""


@dataclass(slots=True, kw_only=True)
class Timing:
    """A case on its way to a verdict."""

    planned: Planned

    a: Any
    """What runs in A, as its zygote takes it."""

    b: Any
    """What runs in B."""

    layout_effect: float = 0.0
    """The log ratio that the two may have for nothing."""

    pairs: list[tuple[Turn, ...]] = field(default_factory=list)
    control: list[Turn] = field(default_factory=list)
    a_seconds: list[float] = field(default_factory=list)
    penalty: float = 1.0
    """Of the last look, for all that were taken."""

    seconds: float = 0.0
    """Spent so far."""

    failure: SideFailedError | None = None
    """Why there is no verdict, where one of the two failed."""

    _present: list[Turn] = field(default_factory=list)
    """The turns of the present pair."""

    _looks: list[float] = field(default_factory=list)
    """The penalties of the looks so far."""

    def times(self) -> PairedTimes:
        """What the pairs gave so far."""
        return PairedTimes(
            a_seconds=statistics.median(self.a_seconds),
            pairs=tuple(self.pairs),
            control=tuple(self.control),
            penalty=self.penalty,
            layout_effect=self.layout_effect,
        )

    def begin_pair(self, zygotes: Zygotes, take: Taker, wish: Wish) -> None:
        """The turns that every pair has, and a control where one is due."""
        with self._noting_failures():
            self._turn(zygotes, take)
            if self._wants_a_control() and not (wish.hurry and self.control):
                self._control(zygotes, take)

    def more_turns(self, zygotes: Zygotes, take: Taker, wish: Wish) -> bool:
        """Once more, while there is time that nothing else needs; False if that is enough."""
        pairs = len(self.pairs) + 1
        is_first_look_near = pairs <= FEWEST_PAIRS
        most = _TURNS_BEFORE_THE_FIRST_LOOK if is_first_look_near else _MOST_TURNS
        is_enough = self.is_in_its_last_pair(wish) or len(self._present) >= most
        if self.failure is not None or is_enough:
            return False
        with self._noting_failures():
            if self._wants_a_control():
                self._control(zygotes, take)
            else:
                self._turn(zygotes, take)
        return True

    def is_in_its_last_pair(self, wish: Wish) -> bool:
        """Whether it is over with the present pair, or the one that comes, whatever that says."""
        return self.seconds >= wish.budget and len(self.pairs) + 1 >= wish.pairs

    def end_pair(self, wish: Wish, cases: int) -> bool:
        """Take the pair as one; whether the case has failed, is decided, or has had its time."""
        if self.failure is not None:
            return True
        self.pairs.append(tuple(self._present))
        self._present.clear()
        pairs = len(self.pairs)
        if self.seconds >= wish.budget and pairs >= wish.pairs:
            self.penalty = 1 / (1 - sum(1 / penalty for penalty in self._looks))
            return True
        if wish.hurry or pairs not in _LOOKS:
            return False
        self.penalty = _LOOKS[pairs]
        self._looks.append(self.penalty)
        return is_decided(effect_in(self.times()), cases=cases)

    @property
    def turns(self) -> int:
        """How often the two took turns so far."""
        return len(self.a_seconds)

    def _wants_a_control(self) -> bool:
        return self.turns > _TURNS_TO_A_CONTROL * len(self.control)

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        except SideFailedError as failure:
            self.failure = failure
        self.seconds += time.perf_counter() - begun

    def _control(self, zygotes: Zygotes, take: Taker) -> None:
        """A against A; whichever of the two fails, it is A that does."""
        a = Side(opens=zygotes.a, case=self.a)
        try:
            self.control.append(take(a, a).estimates)
        except SideFailedError as failure:
            raise SideFailedError(0, failure.error) from failure

    def _turn(self, zygotes: Zygotes, take: Taker) -> None:
        turns = take(Side(opens=zygotes.a, case=self.a), Side(opens=zygotes.b, case=self.b))
        self._present.append(turns.estimates)
        self.a_seconds.append(turns.a_seconds)


class Taker(Protocol):
    """Lets fresh processes of two sides take turns."""

    def __call__(self, a: Side, b: Side, /) -> Turns: ...


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

    `cases` is how many are judged together. `in_background` lets the next processes be made while
    the present ones are measured, for which there must be another core. One thing at a time is made
    there: while a start goes on, processes are made on the core that then measures them.
    """
    waiting = list(timings)
    starts = Starts(start, cores, in_background=in_background)

    def take(one: Side, other: Side) -> Turns:
        is_beside = in_background and starts.is_ready()
        for side in (one, other):
            side.opens.run_on(starts.beside if is_beside else starts.everywhere)
        return turns_of(
            one,
            other,
            rng,
            cores,
            time_limit=wish.time_limit,
            seconds=wish.turns_seconds,
            in_background=is_beside,
        )

    with closing(starts):
        while waiting:
            is_last = all(each.is_in_its_last_pair(wish) for each in waiting)
            with closing(starts.next(is_last=is_last)) as zygotes:
                for each in waiting:
                    yield Began(each.planned.case, Metric.TIME)
                    each.begin_pair(zygotes, take, wish)
                if not wish.hurry:
                    _use_the_wait(waiting, starts, zygotes, take, wish)
            over = [each for each in waiting if each.end_pair(wish, cases)]
            waiting = [each for each in waiting if each not in over]
            yield from over


def _use_the_wait(
    waiting: Sequence[Timing], starts: Starts, zygotes: Zygotes, take: Taker, wish: Wish
) -> None:
    """More turns one by one, first of the cases that had the fewest."""
    willing = deque(sorted(waiting, key=lambda each: each.turns))
    while willing and not starts.is_ready():
        each = willing.popleft()
        if each.more_turns(zygotes, take, wish):
            willing.append(each)
