"""`torchmark run`: the cases of suites, timed and counted in this environment."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Sequence
from functools import partial

from torchmark.commands.planning import let_cases_import, load_suites, select_cases
from torchmark.commands.spine import (
    Listener,
    Place,
    begin_run,
    carry_out_on_cores,
    effort_of,
    find_run,
    use_store,
)
from torchmark.define.suites.loading import LoadedSuite
from torchmark.engine.cores import Division
from torchmark.engine.execution import Execution
from torchmark.engine.measuring import failed_result
from torchmark.engine.under_test import Workers, describe_environment
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.model.result import Metric, PlannedResult
from torchmark.model.run import (
    QUICK_LIMITS,
    TIME_LIMIT,
    USUAL_LIMITS,
    Effort,
    Progress,
    Run,
    RunKind,
)
from torchmark.store import Store, artifact_folder

TIME_AND_COUNT = (Metric.TIME, Metric.INSTRUCTIONS)


def run(
    suites: Sequence[str] = ("standard",),
    *,
    pattern: str = "",
    metrics: Sequence[Metric | str] = TIME_AND_COUNT,
    cpp: bool = True,
    quick: bool = False,
    threads: int | None = None,
    repeats: int = 1,
    timeout: float = TIME_LIMIT,
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
    kind: RunKind = RunKind.RUN,
) -> Run:
    """Time and count the cases of suites, and return the run with its results.

    A suite is the name of one that ships (standard, overrides), a Python file, a folder of
    `bench_*.py` files, a trace or a module. `pattern` has words of the cases that are meant, as of
    `-k`; `metrics` are some of "time" and "instructions"; `quick` takes the standard suite's quick
    part in less time; `threads` is for every case, otherwise each has its own number; `repeats`
    fresh processes measure each case, which may take `timeout` seconds. Every result is in the
    store the moment it exists. `resume` names a run that was cut short: it goes on with the suites
    and options it began with. `kind` says which command's report the run gets.
    """
    effort = Effort(
        limits=QUICK_LIMITS if quick else USUAL_LIMITS, repeats=repeats, timeout=timeout
    )
    wanted = [Metric(metric) for metric in metrics]
    # Before a worker imports torch: a suite that cannot be read is told at once.
    loaded = load_suites(() if resume is not None else suites)
    with use_store(store) as kept, contextlib.closing(Workers()) as workers:
        here = describe_environment(workers.facts())
        if resume is not None:
            started = find_run(kept, resume, kind)
            started.check_same_environments((here,))
            let_cases_import(started.settings.get("suites", ()))
        else:
            cases = select_cases(
                loaded, workers, pattern=pattern, cpp=cpp, quick=quick, threads=threads
            )
            started = begin_run(
                kept,
                kind,
                plan_results(cases, wanted, loaded),
                environments=[here],
                settings={"suites": [suite.name for suite in loaded]},
                effort=effort,
                tags=tags,
            )
            _add_files_that_failed(kept, started, loaded, wanted[0])
        widths = [each.case.num_threads for each in started.plan if each.metric is Metric.TIME]
        measure = partial(_measure, kept, workers)
        return carry_out_on_cores(started, kept, measure, progress, threads=max(widths, default=1))


def plan_results(
    cases: Sequence[Case], metrics: Sequence[Metric], suites: Sequence[LoadedSuite]
) -> list[PlannedResult]:
    """Every metric of every case; an error if there is none."""
    if not cases and not any(suite.failures for suite in suites):
        raise InvalidArgumentError(
            "no case is left to run; `torchmark list` shows what the suites have"
        )
    return [PlannedResult(case=case, metric=metric) for case in cases for metric in metrics]


def _measure(
    store: Store, workers: Workers, run: Run, division: Division
) -> Generator[Progress, None, None]:
    execution = Execution(
        run.missing(),
        effort=effort_of(run),
        division=division,
        workers=workers,
        kept_models=artifact_folder(store.where, run.id),
    )
    return execution.results()


def _add_files_that_failed(
    store: Store, run: Run, suites: Iterable[LoadedSuite], metric: Metric
) -> None:
    """A row for each file that could not be loaded."""
    for suite in suites:
        for failure in suite.failures:
            store.add(run.id, failed_result(Case(label=(failure.file,), stmt=""), metric, failure))
