"""Cases counted in two environments, in as many layouts of memory as are needed to tell.

Two environments differ in the length of a path or of a variable, and so in where their objects
lie, which moves counts by a few instructions in a thousand. One layout settles what is the same to
the instruction, and what differs by much; what is in between is counted in two more. Where both
are the same installation, started the same way, one process serves both, and every difference is
real.
"""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.verdicts import Verdict
from torchmark.engine.counting import loop_profile, stats_of
from torchmark.engine.paired.plan import case_in_b, make_result
from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import CaseFailedError, TorchmarkError
from torchmark.model.result import PairedCounts, Status, counts_of_stats, spec_of
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from concurrent.futures import Future

    from torchmark.engine.under_test import UnderTest
    from torchmark.engine.zygote.cases import Count, NativeCase
    from torchmark.engine.zygote.zygote import Zygote
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
    a: PythonCase | NativeCase
    b: PythonCase | NativeCase
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


def counted(
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
            zygote_a = stack.enter_context(_zygote(a, threads, layout))
            zygote_b = zygote_a if is_same else stack.enter_context(_zygote(b, threads, layout))
            _start_with_the_loop({zygote_a, zygote_b})
            yield Stage(text=starting, is_over=True)
            futures = [
                (each, _submit(zygote_a, each.a, time_limit), _submit(zygote_b, each.b, time_limit))
                for each in waiting
            ]
            waiting = []
            for each, first, second in futures:
                _collect(each, (a.name, zygote_a, first), (b.name, zygote_b, second))
                if is_same or layout == LAYOUTS - 1 or each.is_clear():
                    yield each
                else:
                    waiting.append(each)


def _start_with_the_loop(zygotes: Collection[Zygote]) -> None:
    """Start them side by side, and count their empty loop before there is a queue for seats."""
    threads = [Thread(target=_quietly, args=(zygote.start,), daemon=True) for zygote in zygotes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for zygote in zygotes:
        _quietly(partial(loop_profile, zygote, NUMBER))


def _quietly(work: Callable[[], object]) -> None:
    with contextlib.suppress(TorchmarkError):  # the first case says what is wrong
        work()


def _zygote(side: UnderTest, threads: int, layout: int) -> Zygote:
    return side.zygote(threads=threads, under_callgrind=True, layout=layout)


def _submit(zygote: Zygote, case: PythonCase | NativeCase, time_limit: float) -> Future[Count]:
    return zygote.submit_count(case, number=NUMBER, time_limit=time_limit)


def _collect(counting: Counting, *sides: tuple[str, Zygote, Future[Count]]) -> None:
    cases = (counting.a, counting.b)
    specs = (spec_of(counting.planned.case), spec_of(case_in_b(counting.planned)))
    kept = (counting.counts_a, counting.counts_b)
    for index, (name, zygote, future) in enumerate(sides):
        try:
            count = future.result()
        except CaseFailedError as error:
            counting.failure = counting.failure or f"in {name}: {error}"
            continue
        is_python = isinstance(cases[index], PythonCase)
        baseline = loop_profile(zygote, NUMBER) if is_python else None
        kept[index].append(counts_of_stats(stats_of(specs[index], NUMBER, count, baseline)))
