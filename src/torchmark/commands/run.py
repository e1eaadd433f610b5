"""`torchmark run`: time and count the cases of suites in this environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from torchmark.analyse.processes import RepeatForecast, forecast_processes
from torchmark.arguments import check_member, check_modules, check_positive
from torchmark.commands.planning import (
    choose_cases,
    installed_facts,
    let_cases_import,
    load_suites,
    select_cases,
)
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
from torchmark.engine.zygote.process import Launch
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case, Language
from torchmark.model.result import Metric, PlannedResult, Result, ResultKey, Timing
from torchmark.model.run import (
    QUICK_LIMITS,
    TIME_LIMIT,
    USUAL_LIMITS,
    Effort,
    Note,
    Progress,
    Run,
    RunKind,
    Stage,
)
from torchmark.report.figures import duration_text, number_text
from torchmark.store import Store, artifact_folder
from torchmark.store.database import option_for
from torchmark_probe.loops.sampling import Limits

TIME_AND_COUNT = (Metric.TIME, Metric.INSTRUCTIONS)

PILOT_LIMITS = Limits(precision=0.02, min_run_time=0.03, max_run_time=0.1)
PILOT_PROCESSES = 10
"""Enough to know their spread to within a quarter. They are part of the result. The change that is
then detectable is within 1.5 times the forecast in nine of ten cases."""

MOST_PROCESSES = 100
"""Processes of one case, unless there is a budget; they take minutes."""

_START = 3.0
_OF_A_BUILD = 0.3
_COUNTER_START = 25.0
_OF_A_COUNT = 0.5
"""Seconds to import torch, build a C++ case, start the counter and count a case. On two cores the
standard suite takes 6.1 min, and 7.1 min if C++ has to be built (docs/method/performance.md)."""

_LONG = 120.0
"""If a run will take more seconds, hints say how to stop it and what is shorter."""


def run(
    suites: Sequence[str] = ("standard",),
    *,
    pattern: str = "",
    metrics: Sequence[Metric | str] = TIME_AND_COUNT,
    cpp: bool = True,
    quick: bool = False,
    threads: int | None = None,
    repeats: int = 1,
    budget: float | None = None,
    detect: float | None = None,
    timeout: float = TIME_LIMIT,
    imports: Sequence[str] = (),
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
    kind: RunKind = RunKind.RUN,
) -> Run:
    """Time and count the cases of suites, and return the run with its results.

    A suite is `standard`, `overrides`, a Python file, a folder of `bench_*.py` files, a trace or a
    module. `pattern` selects cases by words, like `-k`; `cpp=False` leaves out C++ cases.
    `metrics` are "time", "instructions" or both. `quick` runs a part of the standard suite and
    takes fewer samples of each case. `threads` replaces the number of threads of every case.
    `imports` names modules that every process imports before it builds a case, for example a module
    that defines operators.

    Each case is measured in `repeats` fresh processes, and timed until its median is precise. A
    case that takes more than `timeout` seconds in one process fails. `budget` limits the seconds of
    measured blocks per case, in all its processes together (default: 2 per process). With `detect`,
    a short pilot chooses the number of processes of each case, so that a change of that size
    between two runs is found with 80 % power (0.005 is 0.5 %). `budget` then limits the number of
    processes (default: 100).

    Every result is in the store as soon as it exists. `resume` names a run that was interrupted:
    its missing results are measured, with the suites and options it was started with. `kind` is the
    command whose report the run gets.
    """
    seconds = None if budget is None else check_positive("budget", budget)
    effort = Effort(
        limits=_limits(seconds, repeats, quick=quick, detects=detect is not None),
        repeats=repeats,
        detect=detect,
        timeout=timeout,
    )
    wanted = [check_member("metric", metric, Metric) for metric in metrics]
    # Before a worker imports torch, so that a suite that cannot be read is reported at once.
    loaded = load_suites(() if resume is not None else suites, time_limit=timeout)
    _check_loaded(loaded)
    choice: dict[str, Any] = {"pattern": pattern, "cpp": cpp, "quick": quick, "threads": threads}
    with use_store(store) as kept:
        begun = None if resume is None else find_run(kept, resume, kind)
        modules = check_modules(imports) if begun is None else begun.imports
        with contextlib.closing(Workers(Launch(imports=modules))) as workers:
            if begun is None and progress is not None:
                cases = choose_cases(loaded, installed_facts(), **choice)
                for text in announce([suite.name for suite in loaded], cases, wanted, effort, kept):
                    progress(Stage(text=text))
            here = describe_environment(workers.facts())
            if begun is not None:
                begun.check_same_environments((here,))
                let_cases_import(begun.settings.get("suites", ()))
            else:
                cases = select_cases(loaded, workers, **choice)
                begun = begin_run(
                    kept,
                    kind,
                    plan_results(cases, wanted),
                    environments=[here],
                    settings={
                        "suites": [suite.name for suite in loaded],
                        "imports": modules or None,
                        "budget": seconds,
                    },
                    effort=effort,
                    notes=[note for suite in loaded for note in suite.notes],
                    tags=tags,
                )
                _add_files_that_failed(kept, begun, loaded, wanted[0])
            widths = [each.case.num_threads for each in begun.plan if each.metric is Metric.TIME]
            measure = partial(_measure, kept, workers)
            return carry_out_on_cores(
                begun, kept, measure, progress, threads=max(widths, default=1)
            )


def _limits(budget: float | None, repeats: int, *, quick: bool, detects: bool) -> Limits:
    """Return the limits of sampling in one process; the budget is for all processes together."""
    limits = QUICK_LIMITS if quick or detects else USUAL_LIMITS
    if budget is None or detects:  # with `detect`, the budget limits the number of processes
        return limits
    most = budget / repeats
    return limits._replace(min_run_time=min(limits.min_run_time, most), max_run_time=most)


def most_processes(budget: float | None) -> int:
    """Return the most processes of a case with `detect`: its pilot and what the budget allows.

    >>> most_processes(None), most_processes(11.0), most_processes(0.1)
    (100, 30, 10)
    """
    if budget is None:
        return MOST_PROCESSES
    left = budget - PILOT_PROCESSES * PILOT_LIMITS.max_run_time
    return PILOT_PROCESSES + max(0, int(left / QUICK_LIMITS.max_run_time))


def _check_loaded(suites: Sequence[LoadedSuite]) -> None:
    """Raise an error if no file of the suites can be loaded; then there is nothing to store."""
    failures = [str(failure) for suite in suites for failure in suite.failures]
    if failures and not any(suite.parts for suite in suites):
        raise InvalidArgumentError("no suite can be loaded:\n" + "\n".join(failures))


def announce(
    suites: Sequence[str],
    cases: Sequence[Case],
    metrics: Sequence[Metric],
    effort: Effort,
    store: Store,
) -> Iterator[str]:
    """Say what a run will do, how long it may take, and where results go, before it starts."""
    measured = [case for case in cases if case.skip is None]
    if not measured:
        return
    seconds = seconds_for(measured, metrics, effort, len(os.sched_getaffinity(0)))
    what = {Metric.TIME: "times", Metric.INSTRUCTIONS: "instruction counts"}
    how_long = (
        f"about {duration_text(seconds)}"
        if effort.detect is None
        else "a pilot will estimate how long it takes"
    )
    yield (
        f"{', '.join(suites)}: {number_text(len(measured), 'case')}, "
        f"{' and '.join(what[metric] for metric in metrics)}, "
        f"{number_text(len(measured) * len(metrics), 'measurement')}, {how_long}; "
        f"results go to {store.where}"
    )
    if seconds > _LONG:
        resume = f"torchmark run --resume latest{option_for(store.where)}"
        yield (
            f"Ctrl-C stops the run and keeps its results; `{resume}` continues it. "
            "`torchmark run --quick` takes a minute or two. `torchmark --help` lists all commands."
        )


def seconds_for(
    cases: Sequence[Case], metrics: Sequence[Metric], effort: Effort, cores: int
) -> float:
    """Estimate how long a run takes. With two cores or more, counting and timing run in parallel.

    >>> python = Case(label=("add",), stmt="x + 1")
    >>> cpp = Case(label=("add",), stmt="x + 1;", language=Language.CPP)
    >>> round(seconds_for([python] * 86 + [cpp] * 95, TIME_AND_COUNT, Effort(), 2) / 60)
    7
    """
    building = _START + _OF_A_BUILD * sum(case.language is Language.CPP for case in cases)
    timing = len(cases) * effort.limits.max_run_time * effort.repeats * (Metric.TIME in metrics)
    is_counted = Metric.INSTRUCTIONS in metrics
    counting = is_counted * (_COUNTER_START + len(cases) * _OF_A_COUNT * effort.repeats)
    return building + (timing + counting if cores == 1 else max(timing, counting))


def plan_results(cases: Sequence[Case], metrics: Sequence[Metric]) -> list[PlannedResult]:
    """Plan every metric of every case; raise an error if there are no cases."""
    if not cases:
        raise InvalidArgumentError(
            "no case is left to run; check the suites and the pattern of -k (`torchmark list` "
            "shows the cases of suites)"
        )
    return [PlannedResult(case=case, metric=metric) for case in cases for metric in metrics]


def _measure(
    store: Store, workers: Workers, run: Run, division: Division
) -> Generator[Progress | Run, None, None]:
    effort = effort_of(run)
    execution = Execution(
        run.missing(),
        effort=effort,
        division=division,
        workers=workers,
        kept_models=artifact_folder(store.where, run.id),
    )
    if effort.detect is None:
        yield from execution.results()
    else:
        yield from _measure_after_pilot(run, execution, effort.detect)


def _measure_after_pilot(
    run: Run, execution: Execution, wanted: float
) -> Generator[Progress | Run, None, None]:
    """Measure each case in as many processes as the size of change needs, pilot included."""
    text = f"pilot: estimating the processes needed to detect {wanted * 100:g} %"
    yield Stage(text=text)
    pilots = {each.key: each for each in _take_pilot(execution)}
    yield Stage(text=text, is_over=True)
    most = most_processes(run.settings.get("budget"))
    forecasts = {key: forecast_processes(each, wanted, most=most) for key, each in pilots.items()}
    told = _tell_forecast(pilots, forecasts, wanted, most)
    yield Note(text=told)
    yield msgspec.structs.replace(run, notes=(*run.notes, told))
    more = {key: each.processes - PILOT_PROCESSES for key, each in forecasts.items()}
    over = {key for key, count in more.items() if count <= 0 and pilots[key].payload is not None}
    yield from (pilots[key] for key in over)
    execution.plan = [each for each in execution.plan if each.key not in over]
    execution.repeats = {key[0]: max(1, count) for key, count in more.items()}
    for news in execution.results():
        yield _add_pilot(news, pilots) if isinstance(news, Result) else news


def _add_pilot(result: Result, pilots: Mapping[ResultKey, Result]) -> Result:
    pilot, own = pilots.get(result.key), result.payload
    if pilot is None or not isinstance(own, Timing) or not isinstance(pilot.payload, Timing):
        return result
    both = Timing(processes=(*pilot.payload.processes, *own.processes))
    seconds = pilot.seconds + result.seconds
    return msgspec.structs.replace(result, payload=both, seconds=seconds)


def _take_pilot(execution: Execution) -> Iterator[Result]:
    """Time every case briefly in a few processes, to learn how much processes differ."""
    quick = msgspec.structs.replace(execution.effort, limits=PILOT_LIMITS, repeats=PILOT_PROCESSES)
    timed = [each for each in execution.plan if each.metric is Metric.TIME]
    workers = execution.workers.another()
    pilot = Execution(timed, effort=quick, division=execution.division, workers=workers)
    with contextlib.closing(pilot.results()) as news:
        yield from (each for each in news if isinstance(each, Result))


def _tell_forecast(
    pilots: Mapping[ResultKey, Result],
    forecasts: Mapping[ResultKey, RepeatForecast],
    wanted: float,
    most: int,
) -> str:
    """Say how long detecting the change will take, and how many cases will not reach it."""
    longer = (QUICK_LIMITS.min_run_time - PILOT_LIMITS.min_run_time) * PILOT_PROCESSES
    seconds = sum(
        (each.seconds + longer) * (forecasts[key].processes / PILOT_PROCESSES - 1)
        for key, each in pilots.items()
        if each.payload is not None
    )
    late = [each.detectable for each in forecasts.values() if each.detectable > wanted]
    told = f"forecast: to detect {wanted * 100:g} % takes about {duration_text(seconds)} more"
    if not late:
        return told
    return (
        f"{told}; {len(late)} of {len(pilots)} cases will not reach it in {most} "
        f"processes (they will detect {max(late) * 100:.1f} %)"
    )


def _add_files_that_failed(
    store: Store, run: Run, suites: Iterable[LoadedSuite], metric: Metric
) -> None:
    """Store a failed result for each file that could not be loaded."""
    for suite in suites:
        for failure in suite.failures:
            store.add(run.id, failed_result(Case(label=(failure.file,), stmt=""), metric, failure))
