"""`torchmark time` and `torchmark count`: a few statements, measured here and now.

Times are taken in this process, round by round, so that statements can be compared; counts come
from forks of a zygote. Both make a run. It is stored if a store is given, before it is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from torchmark.engine.machine import import_torch
from torchmark.engine.under_test import describe_environment
from torchmark.engine.user_code import as_user_error
from torchmark.model.case import Case, Language
from torchmark.model.result import (
    Metric,
    Payload,
    PlannedResult,
    Result,
    Status,
    Timing,
    counts_of_stats,
    utc_now,
)
from torchmark.model.run import TIME_LIMIT, Run, RunKind, RunState
from torchmark.store import Store, new_run_id
from torchmark.timers import Timer
from torchmark.together import count_together, measure_together
from torchmark_probe.loops.snippets import run_globally
from torchmark_probe.zygote import warmup


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Statements that share all else."""

    texts: Sequence[str]
    setup: str = "pass"
    global_setup: str = ""
    """C++: what stands at the top of the file; Python: run once before all that are timed."""

    language: Language = Language.PYTHON
    threads: int = 1


def time_statements(
    statements: Statements,
    *,
    min_run_time: float = 0.2,
    description: str | None = None,
    store: Store | None = None,
    tags: Iterable[str] = (),
) -> Run:
    """Time the statements in rounds in this process; `description` is the title of the column."""
    shared: dict[str, Any] = {"global_setup": statements.global_setup}
    if statements.language is Language.PYTHON:
        shared = {"globals": {"torch": import_torch()}}
        with as_user_error():
            run_globally(statements.global_setup, shared["globals"])
    timers = _make_timers(statements, **shared)
    measured = measure_together(timers, min_run_time=min_run_time)
    payloads = [Timing(processes=(each.sampling,)) for each in measured if each.sampling]
    settings = {
        "min_run_time": min_run_time,
        **({"description": description} if description else {}),
    }
    cases = [_make_case(timer, statements) for timer in timers]
    return _save(_make_run(RunKind.TIME, cases, payloads, settings), store, tags)


def count_statements(
    statements: Statements,
    *,
    number: int = 100,
    functions: int = 10,
    timeout: float = TIME_LIMIT,
    progress: Callable[[str], None] | None = None,
    store: Store | None = None,
    tags: Iterable[str] = (),
) -> Run:
    """Count the instructions of the statements; reports show so many functions of each."""
    timers = _make_timers(statements, global_setup=statements.global_setup)
    counted = count_together(timers, number, progress=progress, time_limit=timeout)
    payloads = [counts_of_stats(stats) for stats in counted]
    cases = [_make_case(timer, statements) for timer in timers]
    return _save(_make_run(RunKind.COUNT, cases, payloads, {"functions": functions}), store, tags)


def name_statements(statements: Sequence[str]) -> list[str]:
    r"""Statements on one line each; one that is given again is told apart by its number.

    >>> name_statements(["x = 1\ny = x", "pass", "pass"])
    ['x = 1; y = x', 'pass', 'pass #2']
    """
    seen: dict[str, int] = {}
    names = []
    for statement in statements:
        name = "; ".join(line.strip() for line in statement.strip().splitlines()) or "pass"
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return names


def _make_timers(statements: Statements, **shared: Any) -> list[Timer]:
    names = name_statements(statements.texts)
    return [
        Timer(
            text,
            setup=statements.setup,
            **shared,
            language=statements.language,
            sub_label=name,
            num_threads=statements.threads,
        )
        for text, name in zip(statements.texts, names, strict=True)
    ]


def _make_case(timer: Timer, statements: Statements) -> Case:
    spec = timer.task_spec
    return Case(
        label=(spec.sub_label or spec.stmt,),
        stmt=spec.stmt,
        setup=spec.setup,
        global_setup=statements.global_setup,
        language=statements.language,
        num_threads=spec.num_threads,
    )


def _make_run(
    kind: RunKind, cases: Sequence[Case], payloads: Sequence[Payload], settings: dict[str, Any]
) -> Run:
    """A run that is not stored has no id."""
    metric = Metric.TIME if kind is RunKind.TIME else Metric.INSTRUCTIONS
    now = utc_now()
    return Run(
        id="",
        kind=kind,
        started=now,
        state=RunState.FINISHED,
        plan=tuple(PlannedResult(case=case, metric=metric) for case in cases),
        settings=settings,
        results=tuple(
            Result(case=case, metric=metric, status=Status.DONE, finished=now, payload=payload)
            for case, payload in zip(cases, payloads, strict=True)
        ),
    )


def _save(run: Run, store: Store | None, tags: Iterable[str]) -> Run:
    """The run as the store has it, if there is one to keep it."""
    if store is None:
        return run
    here = describe_environment(warmup.facts(import_torch()))
    kept = msgspec.structs.replace(run, id=new_run_id(), environments=(here,), tags=tuple(tags))
    store.create(kept)
    return store.run(kept.id)
