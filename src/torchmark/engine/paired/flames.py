"""Where the time of cases goes in two environments: stacks by py-spy, taken in both at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from torchmark.engine.background import begin
from torchmark.engine.paired.plan import make_result
from torchmark.engine.paired.readying import ReadyCases
from torchmark.engine.sampling_profiler import record
from torchmark.errors import MissingToolError, ProfilerError, TorchmarkError, ZygoteError
from torchmark.flame.stacks import fold_stacks
from torchmark.model.result import PairedProfile, Result, Status
from torchmark.model.run import Began

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.engine.paired.readying import Ready
    from torchmark.engine.sampling_profiler import Recording
    from torchmark.engine.under_test import UnderTest
    from torchmark.model.case import Case
    from torchmark.model.effort import Effort
    from torchmark.model.run import PlannedResult

SECONDS = 2
"""That a loop is looked at."""

_OF_EVERY_CASE = (MissingToolError, ProfilerError, ZygoteError)
"""Errors that the next case would have too."""


class WantedProfile(NamedTuple):
    """A case whose stacks are wanted."""

    planned: PlannedResult

    seconds: tuple[float, float]
    """What a run takes in each by its replicates: how wide the flame graphs are. What the loops
    take while they are looked at is not known as well."""


def profile_cases(
    a: UnderTest, b: UnderTest, wanted: Sequence[WantedProfile], effort: Effort
) -> Iterator[Began | Result]:
    """One case after the other; where py-spy cannot work at all, the others fail with the first."""
    reason = ""
    for planned, seconds in wanted:
        if reason:
            yield make_result(planned, Status.FAILED, reason=reason)
            continue
        yield Began(case=planned.case, metric=planned.metric)
        try:
            yield _profile(a, b, planned, seconds, effort)
        except TorchmarkError as error:
            yield make_result(planned, Status.FAILED, reason=str(error))
            reason = str(error) if isinstance(error, _OF_EVERY_CASE) else ""


def _profile(
    a: UnderTest,
    b: UnderTest,
    planned: PlannedResult,
    seconds: tuple[float, float],
    effort: Effort,
) -> Result:
    """Look at the case in both at the same time, with the frames of C and C++."""
    cases = ReadyCases(a, b, effort, units_at_once=1)
    for news in cases.make([planned]):
        if isinstance(news, Result):
            return news
    in_a, in_b = cases.of(planned)
    first = begin(lambda: _record(a, planned.case, in_a), "recording")
    recordings = (_record(b, planned.case, in_b), first.result())[::-1]
    texts = [
        fold_stacks(replace(each, seconds_per_run=of_run).per_run())
        for each, of_run in zip(recordings, seconds, strict=True)
    ]
    samples = (recordings[0].inside, recordings[1].inside)
    payload = PairedProfile(a=texts[0], b=texts[1], samples=samples)
    return make_result(planned, payload=payload)


def _record(side: UnderTest, case: Case, ready: Ready) -> Recording:
    zygote = side.workers.start(case.num_threads, under_callgrind=False)
    return record(zygote, ready, seconds=SECONDS, native=True)
