"""Flame graphs of a case in both environments, and of what is different."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.engine.background import begun
from torchmark.engine.paired.plan import Planned, Wish
from torchmark.engine.paired.readying import Readied
from torchmark.engine.sampling_profiler import UNIT, record
from torchmark.errors import CaseFailedError
from torchmark.flame.svg import difference_svg, flame_svg
from torchmark.model.ab_record import Compared
from torchmark.model.case_flames import CaseFlames
from torchmark.report.figures import seconds_text

if TYPE_CHECKING:
    from torchmark.engine.paired.readying import Ready
    from torchmark.engine.sampling_profiler import Recording
    from torchmark.engine.under_test import UnderTest
    from torchmark.model.case import Case

SECONDS = 2
"""That a loop is looked at."""


def flames_of(
    base: UnderTest, branch: UnderTest, case: Case, seconds: tuple[float, float]
) -> CaseFlames:
    """Look at the case in both at the same time, with the frames of C and C++.

    `seconds` is what pairs say that a run takes in each: how wide the pictures are. What the loops
    take while they are looked at is not known as well.
    """
    ready_base, ready_branch = _ready(base, branch, case)
    of_base = begun(lambda: _recording(base, case, ready_base), "recording")
    second = replace(_recording(branch, case, ready_branch), seconds_per_run=seconds[1])
    first = replace(of_base.result(), seconds_per_run=seconds[0])
    return CaseFlames(
        case=case,
        base=_drawn(base, case, first),
        branch=_drawn(branch, case, second),
        difference=difference_svg(
            first.per_run(),
            second.per_run(),
            title=f"{case.name}: {branch.name} beside {base.name}",
            unit=UNIT,
            normalise=False,
        ),
    )


def _ready(base: UnderTest, branch: UnderTest, case: Case) -> tuple[Ready, Ready]:
    planned = Planned(case=case)
    readied = Readied(base, branch, Wish(), units_at_once=1)
    for news in readied.make([planned]):
        if isinstance(news, Compared):
            raise CaseFailedError(news.reason, kind="raised")
    return readied.of(planned)


def _recording(side: UnderTest, case: Case, ready: Ready) -> Recording:
    zygote = side.workers.started(case.num_threads, under_callgrind=False)
    return record(zygote, ready, seconds=SECONDS, native=True)


def _drawn(side: UnderTest, case: Case, seen: Recording) -> str:
    return flame_svg(
        seen.per_run(),
        title=f"{case.name}: {side.name}",
        unit=UNIT,
        note=f"{seen.inside} samples by py-spy; a run takes {seconds_text(seen.seconds_per_run)}",
    )
