"""Cases counted in two environments, in as many layouts of memory as are needed to tell.

Two environments differ in the length of a path or of a variable, and so in where their objects
lie, which moves counts by a few instructions in a thousand. One layout settles what is the same to
the instruction, and what differs by much; what is in between is counted in two more. Where both
are the same installation, started the same way, one process serves both, and every difference is
real.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.verdicts import Verdict
from torchmark.engine.background import begin
from torchmark.engine.counting import begin_counts
from torchmark.engine.paired.plan import case_in_b, make_result
from torchmark.errors import CaseFailedError
from torchmark.model.result import PairedCounts, Status, counts_of_stats, spec_of
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from torchmark.engine.counting import CountedCase
    from torchmark.engine.under_test import UnderTest
    from torchmark.engine.zygote.cases import Ready
    from torchmark.model.result import Counts, Result
    from torchmark.model.run import PlannedResult

NUMBER = 100
"""Runs that are counted."""

LAYOUTS = 3
"""Layouts that are tried at most."""

_STARTING = "starting the counters: torch is imported under valgrind, which takes 25 to 60 s"

_CLEAR = 0.02
"""No layout was seen to move a count by half of this share."""


@dataclass(slots=True, kw_only=True)
class Counting:
    """A case on its way to its counts."""

    planned: PlannedResult
    a: Ready
    b: Ready
    counts_a: list[Counts] = field(default_factory=list)
    counts_b: list[Counts] = field(default_factory=list)
    failure: str = ""
    is_rough: bool = False
    """Whether one layout will do: nobody asks for less than what layouts move."""

    def result(self) -> Result:
        if self.failure:
            return make_result(self.planned, Status.FAILED, reason=self.failure)
        counts = PairedCounts(a=tuple(self.counts_a), b=tuple(self.counts_b))
        return make_result(self.planned, payload=counts)

    def is_clear(self) -> bool:
        """Whether another layout would say nothing new."""
        if self.failure or self.is_rough:
            return True
        row = judge_counts(self.result())
        return row.verdict is Verdict.SAME or abs(row.share) > _CLEAR


def count_cases(
    countings: Sequence[Counting],
    a: UnderTest,
    b: UnderTest,
    *,
    threads: int,
    time_limit: float,
) -> Iterator[Stage | Counting]:
    """Count every case in both; each is handed on when its counts are clear."""
    is_same = a.environment.is_same_installation(b.environment)
    waiting = list(countings)
    for layout in range(1 if is_same else LAYOUTS):
        if not waiting:
            return
        starting = _STARTING if layout == 0 else f"{_STARTING}; layout {layout + 1}"
        yield Stage(text=starting)
        with ExitStack() as stack:
            zygotes = [
                stack.enter_context(
                    side.workers.fresh(threads, layout=layout, under_callgrind=True)
                )
                for side in ((a,) if is_same else (a, b))
            ]
            for started in [begin(zygote.start, "start") for zygote in zygotes]:
                started.exception()  # the first case says what is wrong
            yield Stage(text=starting, is_over=True)
            pairs = [(each.a, each.b) for each in waiting]
            futures = begin_counts(
                [zygotes[0], zygotes[-1]] * len(pairs),
                list(chain.from_iterable(pairs)),
                number=NUMBER,
                time_limit=time_limit,
            )
            counted, waiting = waiting, []
            for index, each in enumerate(counted):
                _collect(each, (a.name, futures[2 * index]), (b.name, futures[2 * index + 1]))
                if is_same or layout == LAYOUTS - 1 or each.is_clear():
                    yield each
                else:
                    waiting.append(each)


def _collect(counting: Counting, *sides: tuple[str, Future[CountedCase]]) -> None:
    specs = (spec_of(counting.planned.case), spec_of(case_in_b(counting.planned)))
    kept = (counting.counts_a, counting.counts_b)
    for (name, future), spec, counts in zip(sides, specs, kept, strict=True):
        try:
            counts.append(counts_of_stats(future.result().stats(spec)))
        except CaseFailedError as error:
            counting.failure = counting.failure or f"in {name}: {error}"
