"""Counts cases in two environments, in as many memory layouts as needed.

Two environments differ in the lengths of paths and variables, and therefore in where their objects
lie. This changes counts by a few instructions in a thousand. One layout is enough if the counts are
equal or differ by much; anything in between is counted in two more layouts. If both environments
are the same installation, started the same way, one process serves both, and every difference is
real.

Three sentries are counted too: small cases that torch's developers do not change. If plain Python,
a product of matrices or an empty tensor takes a different number of instructions, then the
environments differ in Python, in the BLAS library or in how torch was compiled. The differences of
other cases then do not only come from the change under test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.estimates import Verdict
from torchmark.engine.cores import begin
from torchmark.engine.counting import CountedCase, begin_counts
from torchmark.engine.under_test import UnderTest
from torchmark.engine.zygote.cases import Ready, with_torch
from torchmark.errors import CaseFailedError
from torchmark.model.case import Case, spec_of
from torchmark.model.result import (
    Counts,
    Metric,
    PairedCounts,
    PlannedResult,
    Result,
    Status,
    counts_of_stats,
)
from torchmark.model.run import Environment, Stage

NUMBER = 100
"""Number of counted runs."""

LAYOUTS = 3
"""Maximum number of layouts."""

_STARTING = "starting the counters: importing torch under valgrind takes 25 to 60 s"

_CLEAR = 0.02
"""A difference above this share needs no other layout: none moved a count by half as much."""


@dataclass(slots=True)
class Counting:
    """A case whose counts are being collected."""

    planned: PlannedResult
    ready: tuple[Ready, Ready]
    counts: tuple[list[Counts], list[Counts]] = field(default_factory=lambda: ([], []))
    failure: str = ""
    is_rough: bool = False
    """Whether one layout is enough, because changes as small as those of layouts do not matter."""

    def add(self, sides: Sequence[UnderTest], futures: Sequence[Future[CountedCase]]) -> None:
        """Wait for the counts of A and B in one layout."""
        each = zip(sides, futures, self.planned.cases, self.counts, strict=True)
        for side, future, case, kept in each:
            try:
                kept.append(counts_of_stats(future.result().stats(spec_of(case))))
            except CaseFailedError as error:
                self.failure = self.failure or f"in {side.name}: {error}"

    def result(self) -> Result:
        if self.failure:
            return self.planned.finish(Status.FAILED, reason=self.failure)
        counts = PairedCounts(a=tuple(self.counts[0]), b=tuple(self.counts[1]))
        return self.planned.finish(payload=counts)

    def is_clear(self) -> bool:
        """Whether another layout would not change the verdict."""
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
    """Count every case in both environments; yield each as soon as its counts are clear."""
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
                started.exception()  # if the start failed, counting the first case raises the error
            yield Stage(text=starting, is_over=True)
            futures = begin_counts(
                [zygotes[0], zygotes[-1]] * len(waiting),
                list(chain.from_iterable(each.ready for each in waiting)),
                number=NUMBER,
                time_limit=time_limit,
            )
            counted, waiting = waiting, []
            for index, each in enumerate(counted):
                each.add((a, b), futures[2 * index : 2 * index + 2])
                if is_same or layout == LAYOUTS - 1 or each.is_clear():
                    yield each
                else:
                    waiting.append(each)


_NOTABLE = 0.005
"""A share larger than what layouts cause."""


class _Sentry(NamedTuple):
    """A case, and what a difference in it means."""

    case: Case
    what: str
    meaning: str

    fact: re.Pattern[str]
    """Finds the explaining fact in an environment's description."""


_SENTRIES = (
    _Sentry(
        Case(label=("sentry", "Python"), stmt="b = [a + 1, str(a)]", setup="a = 41"),
        "plain Python",
        "another Python",
        re.compile(r"^(Python [\d.]+)"),
    ),
    _Sentry(
        Case(
            label=("sentry", "BLAS"),
            stmt="torch.mm(x, x, out=y)",
            setup="x = torch.ones((64, 64)); y = torch.ones((64, 64))",
        ),
        "a product of 64x64 matrices",
        "another BLAS",
        re.compile(r"(BLAS_INFO=\w+)"),
    ),
    _Sentry(
        Case(label=("sentry", "compiler"), stmt="x.data_ptr()", setup="x = torch.ones(1)"),
        "asking a tensor for its address",
        "another compiler or other build flags",
        re.compile(r"- ((?:GCC|[Cc]lang) [\d.]+)"),
    ),
)


def sentries() -> list[Counting]:
    """Return the cases that are counted in both environments in addition to the suite."""
    found = []
    for sentry in _SENTRIES:
        ready = with_torch(sentry.case)
        planned = PlannedResult(case=sentry.case, metric=Metric.INSTRUCTIONS)
        found.append(Counting(planned=planned, ready=(ready, ready), is_rough=True))
    return found


def remarks_of(counted: Sequence[Result], a: Environment, b: Environment) -> list[str]:
    """Return a sentence for each sentry that differs, with the facts that may explain it."""
    by_case = {each.case.id: each for each in counted if isinstance(each.payload, PairedCounts)}
    remarks = []
    for sentry in _SENTRIES:
        each = by_case.get(sentry.case.id)
        row = judge_counts(each) if each is not None else None
        if row is None or abs(row.share) <= _NOTABLE:
            continue
        more = "more" if row.share > 0 else "fewer"
        remarks.append(
            f"{sentry.what} takes {abs(row.share) * 100:.1f} % {more} instructions in {b.name}, "
            f"probably because of {sentry.meaning} ({_fact(sentry, a)}, {_fact(sentry, b)}). So "
            "not every difference below comes from torch's source"
        )
    return remarks


def _fact(sentry: _Sentry, environment: Environment) -> str:
    facts = environment.facts
    text = f"Python {facts.get('python', '')}\n{facts.get('torch', {}).get('config', '')}"
    said = sentry.fact.search(text)
    return f"{environment.name}: {said.group(1) if said else 'unknown'}"
