"""Compare two functions of a program with the method of `torchmark ab`."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import Effect, judge_alone
from torchmark.arguments import check_positive
from torchmark.commands.spine import reserve_cores
from torchmark.engine.paired.forks import Forks
from torchmark.engine.paired.timing import CaseTiming, Zygotes, take_replicates
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.model.result import Metric, PlannedResult
from torchmark.model.run import TIME_LIMIT, Effort
from torchmark.report.figures import seconds_text
from torchmark_probe.loops.intervals import Interval

BUDGET = Effort().budget


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionsCompared:
    """How the second function compares with the first."""

    a: str
    """The name of the first function."""

    b: str
    """The name of the second function."""

    a_seconds: float
    """Seconds of one call of the first function."""

    effect: Effect
    """The ratio with its interval, verdict and detectable change."""

    @property
    def verdict(self) -> Verdict:
        """Whether the second function is faster, slower, the same or unclear."""
        return self.effect.verdict

    @property
    def b_seconds(self) -> float:
        """Seconds of one call of the second function."""
        return self.a_seconds * self.ratio

    @property
    def ratio(self) -> float:
        """The time of the second function divided by that of the first."""
        return self.effect.ratio

    @property
    def interval(self) -> Interval:
        """The interval of the ratio, at the level of the verdict (`effect.level`)."""
        return self.effect.interval

    def __str__(self) -> str:
        low, high = (f"{(end - 1) * 100:+.2f} %" for end in self.interval)
        is_unclear = self.verdict is Verdict.UNCLEAR
        detectable = f"; detectable: {self.effect.detectable * 100:.2f} %" if is_unclear else ""
        return (
            f"{self.b} compared with {self.a}: {self.verdict.value}, "
            f"{(self.ratio - 1) * 100:+.2f} % [{low}, {high}] ({seconds_text(self.a_seconds)} → "
            f"{seconds_text(self.b_seconds)}, {self.effect.replicates} replicates{detectable})"
        )


def compare_functions(
    a: Callable[[], object],
    b: Callable[[], object],
    *,
    budget: float = BUDGET,
    time_limit: float = TIME_LIMIT,
    seed: int = 0,
) -> FunctionsCompared:
    """Compare two functions without arguments, in forks of this process; see `torchmark.ab`."""
    effort = Effort(budget=check_positive("budget", budget), timeout=time_limit, seed=seed)
    for name, function in (("a", a), ("b", b)):
        if not callable(function):
            raise InvalidArgumentError(f"{name} must be a function, got {function!r}")
        function()
    planned = PlannedResult(case=Case(label=("ab",), stmt="function()"), metric=Metric.TIME)
    case = CaseTiming(planned=planned, ready=(a, b))
    with reserve_cores(1) as division:
        coming = take_replicates(
            [case],
            lambda _layout: Zygotes(Forks(), Forks()),
            rng=random.Random(effort.seed),  # noqa: S311 - an order of blocks, not a secret
            cores=division.lanes[0],
            effort=effort,
            cases=1,
            in_background=False,
        )
        with closing(coming):
            for _ in coming:
                pass
    if case.failure is not None:
        raise case.failure.error
    timing = case.timing()
    return FunctionsCompared(
        a=_name(a, "a"), b=_name(b, "b"), a_seconds=timing.a_seconds, effect=judge_alone(timing)
    )


def _name(function: Callable[[], object], otherwise: str) -> str:
    name = getattr(function, "__name__", otherwise)
    return otherwise if name == "<lambda>" else str(name)
