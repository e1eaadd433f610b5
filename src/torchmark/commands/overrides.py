"""`torchmark overrides report`: measure what a pull request on overrides has to show."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from functools import partial

import msgspec

from torchmark.analyse.ab import judge
from torchmark.analyse.estimates import Verdict
from torchmark.commands.ab import (
    activate,
    describe,
    measure_pairs,
    note_environments,
    resume_comparison,
)
from torchmark.commands.planning import plan_suites
from torchmark.commands.spine import (
    Listener,
    Place,
    begin_run,
    carry_out_on_cores,
    effort_of,
    use_store,
)
from torchmark.define.suites.loading import load_suite
from torchmark.define.suites.overrides import IMPORTED_BY_DISPATCH
from torchmark.engine.cores import Division, on_cores
from torchmark.engine.paired.comparing import WantedProfile, profile_cases
from torchmark.engine.under_test import UnderTest
from torchmark.model.result import Metric, PlannedResult, Result
from torchmark.model.run import Effort, Progress, Run, RunKind

PAIR = ("base", "branch")

EFFORT = Effort(budget=0.0, replicates=9, pair_seconds=0.05, hurry=True)
"""Nine replicates of each of the 21 cases take a minute. They find changes of 2 % and more."""


def report(
    base: str = "",
    branch: str = "",
    *,
    all_flames: bool = False,
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
) -> Run:
    """Compare the cost of overrides in two environments, and profile the cases that got slower.

    `base` and `branch` are the shell commands that activate the environments. The profiles are
    stacks for flame graphs; with `all_flames`, every case has them. `resume` names a run that was
    interrupted: its environments are activated again, and the missing results are measured.
    """
    if resume is not None:
        return resume_comparison(
            RunKind.OVERRIDES, resume, store, progress, _measure, IMPORTED_BY_DISPATCH
        )
    suites = [load_suite("overrides")]
    commands = dict(zip(PAIR, (base, branch), strict=True))
    with use_store(store) as kept, activate(commands, modules=IMPORTED_BY_DISPATCH) as sides:
        described = describe(sides, progress)
        run = begin_run(
            kept,
            RunKind.OVERRIDES,
            plan_suites(sides[0], sides[1], suites, (Metric.TIME,)),
            environments=described,
            settings={"suites": ["overrides"], "all_flames": all_flames},
            effort=EFFORT,
            notes=note_environments(sides),
            tags=tags,
        )
        return carry_out_on_cores(run, kept, partial(_measure, sides), progress)


def _measure(
    sides: Sequence[UnderTest], run: Run, division: Division
) -> Generator[Progress | Run, None, None]:
    """Time every case, then take the stacks of the cases that need a flame graph."""
    run, results = yield from measure_pairs(sides, run, division)
    run, wanted = _plan_profiles(run, results)
    if wanted:
        yield run
        with on_cores(division.everything):  # no times are taken from here on
            yield from profile_cases(sides[0], sides[1], wanted, effort_of(run))


def _plan_profiles(run: Run, new: Sequence[Result]) -> tuple[Run, list[WantedProfile]]:
    """The run with the flame graphs in its plan, and the missing ones among them."""
    replaced = {each.key for each in new}
    before = [each for each in run.results if each.key not in replaced]
    run = msgspec.structs.replace(run, results=(*before, *new))
    profiles = [
        (PlannedResult(case=row.case, metric=Metric.PROFILE, environments=PAIR), row)
        for row in judge(run, PAIR).times
        if row.verdict is Verdict.SLOWER or run.settings["all_flames"]
    ]
    known = {each.key for each in run.plan}
    more = [planned for planned, _ in profiles if planned.key not in known]
    run = msgspec.structs.replace(run, plan=(*run.plan, *more))
    missing = {each.key for each in run.missing()}
    wanted = [
        WantedProfile(planned, (row.a_seconds, row.b_seconds))
        for planned, row in profiles
        if planned.key in missing
    ]
    return run, wanted
