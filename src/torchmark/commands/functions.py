"""Two functions of a program compared with the rigour of `torchmark ab`."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.pairs import Verdict, effect_in, verdicts_of
from torchmark.arguments import checked_positive
from torchmark.engine.cores import on_cores, usable_cores
from torchmark.engine.paired.forks import Forks
from torchmark.engine.paired.plan import BUDGET, Planned, Wish
from torchmark.engine.paired.starting import Zygotes
from torchmark.engine.paired.timing import Timing, timed
from torchmark.engine.reservation import reserved
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.report.figures import seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchmark.analyse.pairs import PairEffect
    from torchmark_probe.loops.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionsCompared:
    """How the second function compares with the first."""

    a: str
    """The name of the first."""

    b: str
    """The name of the second."""

    a_seconds: float
    """One call of the first."""

    effect: PairEffect
    """The ratio with all that is known of it."""

    verdict: Verdict
    """Of the second: faster, slower, same or unclear."""

    @property
    def b_seconds(self) -> float:
        """One call of the second."""
        return self.a_seconds * self.ratio

    @property
    def ratio(self) -> float:
        """The time of the second over that of the first."""
        return self.effect.ratio

    @property
    def interval(self) -> Interval:
        """Where the ratio lies with 95 % confidence."""
        return self.effect.interval

    def __str__(self) -> str:
        low, high = (f"{(end - 1) * 100:+.2f} %" for end in self.interval)
        seen = f"; a change of {self.effect.smallest * 100:.2f} % would have been seen"
        return (
            f"{self.b} beside {self.a}: {self.verdict.value}, {(self.ratio - 1) * 100:+.2f} % "
            f"[{low}, {high}] ({seconds_text(self.a_seconds)} → {seconds_text(self.b_seconds)}, "
            f"{self.effect.pairs} pairs{seen if self.verdict is Verdict.UNCLEAR else ''})"
        )


def ab(
    a: Callable[[], object],
    b: Callable[[], object],
    *,
    budget: float = BUDGET,
    time_limit: float = 300.0,
    seed: int = 0,
) -> FunctionsCompared:
    """Compare two functions without arguments: forks of this process, pair by pair.

    Each is called once in this process first, so what it raises is raised here. In the forks torch
    runs on one thread. Where things lie in this process is part of the result: `torchmark ab`,
    which starts processes anew, is free of that.

    >>> import torch
    >>> x = torch.ones(300, 300)
    >>> print(ab(lambda: x + x, lambda: x @ x).verdict.value)
    slower
    """
    checked_positive("budget", budget)
    for name, function in (("a", a), ("b", b)):
        if not callable(function):
            raise InvalidArgumentError(f"{name} is no function: {function!r}")
        function()
    case = Case(label=("ab",), stmt="function()")
    timing: Timing = Timing(planned=Planned(case=case), a=a, b=b)
    with reserved(usable_cores(), 1) as division, on_cores(division.others):
        coming = timed(
            [timing],
            lambda _layout: Zygotes(Forks(), Forks()),
            rng=random.Random(seed),  # noqa: S311 - an order of blocks, not a secret
            cores=division.lanes[0],
            wish=Wish(budget=budget, time_limit=time_limit),
            cases=1,
            in_background=False,
        )
        with closing(coming):
            for _ in coming:
                pass
    if timing.failure is not None:
        raise timing.failure.error
    times = timing.times()
    effect = effect_in(times)
    return FunctionsCompared(
        a=_name(a, "a"),
        b=_name(b, "b"),
        a_seconds=times.a_seconds,
        effect=effect,
        verdict=verdicts_of([effect])[0],
    )


def _name(function: Callable[[], object], otherwise: str) -> str:
    name = getattr(function, "__name__", otherwise)
    return otherwise if name == "<lambda>" else str(name)
