"""From the names of suites to a run in the store, and from a run that was cut short to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torchmark.define.expansion.selection import selected
from torchmark.define.skips import EnvironmentFacts
from torchmark.define.suites import standard
from torchmark.define.suites.loading import LoadedSuite, cases_of
from torchmark.engine.cores import usable_cores
from torchmark.engine.execution import Execution
from torchmark.engine.measuring import Effort, failed, now
from torchmark.engine.reservations import reserve_lanes
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.model.language import Language
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Run, RunState
from torchmark.store import new_run_id
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torchmark.engine.cores import Division
    from torchmark.engine.execution import News
    from torchmark.engine.workers import Workers
    from torchmark.store import Store

_QUICK = Limits(precision=0.02, min_run_time=0.1, max_run_time=0.5)
"""For a person who waits: half of the runs, and a fourth of the patience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which cases, and what of them."""

    pattern: str = ""
    """As of `-k`; all cases if empty."""

    kinds: tuple[Metric, ...] = (Metric.TIME, Metric.INSTRUCTIONS)
    """What is measured."""

    cpp: bool = True
    """Whether C++ cases run."""

    quick: bool = False
    """Whether the standard suite's quick subset runs in place of all of it."""

    threads: int | None = None
    """The number of threads of every case, in place of what the definitions say."""


def effort_of(*, quick: bool, repeats: int, timeout: float) -> Effort:
    """How much to do for each case."""
    usual = Effort(repeats=repeats, timeout=timeout)
    return replace(usual, limits=_QUICK) if quick else usual


def wanted_cases(
    suites: Sequence[LoadedSuite], wanted: Wanted, facts: EnvironmentFacts
) -> tuple[Case, ...]:
    """The cases of the suites that the person asked for."""
    cases = cases_of(suites, facts=facts)
    if wanted.quick:
        of_standard = {case.id for case in cases_of(s for s in suites if s.name == "standard")}
        quick = {case.id for case in standard.quick(cases)}
        cases = tuple(case for case in cases if case.id in quick or case.id not in of_standard)
    if not wanted.cpp:
        cases = tuple(case for case in cases if case.language is not Language.CPP)
    if wanted.threads is not None:
        alike = (replace(case, num_threads=wanted.threads) for case in cases)
        cases = tuple({case.id: case for case in alike}.values())
    return selected(cases, wanted.pattern)


def facts_of(suites: Sequence[LoadedSuite], workers: Workers) -> EnvironmentFacts:
    """What the conditions of the suites ask of the environment."""
    features = frozenset[str]().union(*(suite.features_asked() for suite in suites))
    return EnvironmentFacts(
        torch=str(workers.facts()["torch"]), features=workers.features(features)
    )


def new_run(
    suites: Sequence[LoadedSuite],
    wanted: Wanted,
    effort: Effort,
    workers: Workers,
    environment: Mapping[str, Any],
    tags: Iterable[str] = (),
) -> Run:
    """The run that was asked for, not yet in the store; an error if it has no cases."""
    cases = wanted_cases(suites, wanted, facts_of(suites, workers))
    if not cases and not any(suite.failures for suite in suites):
        raise InvalidArgumentError(
            "no case is left to run; `torchmark list` shows what the suites have"
        )
    plan = tuple((case, kind) for case in cases for kind in wanted.kinds)
    return Run(
        id=new_run_id(),
        started=now(),
        plan=plan,
        settings=_as_settings(suites, effort),
        environment=dict(environment),
        tags=tuple(tags),
    )


def failures_of(suites: Iterable[LoadedSuite], kind: Metric) -> list[Result]:
    """A row for each file that could not be loaded."""
    return [
        failed(Case(label=(failure.file,), stmt=""), kind, failure)
        for suite in suites
        for failure in suite.failures
    ]


def cores_for(run: Run) -> AbstractContextManager[Division]:
    """Which cores do what: lanes as wide as the case with the most threads, where cores allow."""
    widths = [case.num_threads for case, kind in run.plan if kind is Metric.TIME]
    return reserve_lanes(usable_cores(), max(widths, default=1))


def carried_out(
    run: Run,
    store: Store,
    *,
    division: Division,
    workers: Workers,
    kept_models: Path | None,
) -> Generator[News, None, None]:
    """Measure what the run lacks; every result is in the store before it is handed on.

    Whoever stops early leaves the run in the store as interrupted, and it can be taken up again.
    """
    execution = Execution(
        missing_of(run, store.results(run.id)),
        effort=effort_in(run),
        division=division,
        workers=workers,
        kept_models=kept_models,
    )
    state = RunState.INTERRUPTED
    store.finish(run.id, RunState.RUNNING)
    results = execution.results()
    try:
        for news in results:
            if isinstance(news, Result):
                store.add(run.id, news)
            yield news
        state = RunState.FINISHED
    finally:
        results.close()
        store.finish(run.id, state)


def missing_of(run: Run, results: Iterable[Result]) -> list[tuple[Case, Metric]]:
    """What of the plan is not done: a failure is tried again, for its cause may be gone."""
    there = {
        (result.case.id, result.metric) for result in results if result.status is not Status.FAILED
    }
    return [(case, kind) for case, kind in run.plan if (case.id, kind) not in there]


def effort_in(run: Run) -> Effort:
    """How much the run does for each case, as it was said when it began."""
    settings = run.settings
    try:
        return Effort(
            limits=Limits(*settings["limits"]),
            number=settings["number"],
            repeats=settings["repeats"],
            timeout=settings["timeout"],
        )
    except (KeyError, TypeError) as error:
        raise InvalidArgumentError(
            f"run {run.id} does not say how its cases were measured, so it cannot go on; "
            "start a new run"
        ) from error


def checked_to_go_on(run: Run, environment: Mapping[str, Any]) -> None:
    """A run goes on in the environment that it began in, or its results would not belong together.

    An InvalidArgumentError says what is not as it was.
    """
    for name, path in _MUST_AGREE.items():
        before, here = _at(run.environment, path), _at(environment, path)
        if before != here:
            raise InvalidArgumentError(
                f"run {run.id} began with {name} {before}, and this is {here}; start a new run"
            )


_MUST_AGREE = {
    "torchmark": ("torchmark",),
    "torch": ("torch", "version"),
    "torch's commit": ("torch", "git"),
    "Python": ("python",),
    "the processor": ("machine", "cpu"),
}


def _at(facts: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = facts
    for name in path:
        value = value.get(name) if value is not None else None
    return value


def has_failures(results: Iterable[Result]) -> bool:
    return any(result.status is Status.FAILED for result in results)


def _as_settings(suites: Sequence[LoadedSuite], effort: Effort) -> dict[str, Any]:
    return {
        "suites": [suite.name for suite in suites],
        "limits": list(effort.limits),
        "number": effort.number,
        "repeats": effort.repeats,
        "timeout": effort.timeout,
    }
