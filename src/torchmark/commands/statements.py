"""`torchmark time` and `torchmark count`: measure a few statements.

The statements run in processes forked from a zygote. All are timed in one process, in rounds, so
that they can be compared; each is counted in another. A statement that fails gives a result with
the reason. Both functions return a run; if they get a store, they store the run first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from torchmark.arguments import check_count, check_positive
from torchmark.engine.cores import begin
from torchmark.engine.counting import find_failures, zygotes_for
from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.compiler import toolchain_of
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.measuring import count_case, failed_result, time_together
from torchmark.engine.under_test import Workers, describe_environment
from torchmark.engine.user_code import as_user_error
from torchmark.engine.zygote.cases import Ready, with_torch
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CompileError, InvalidArgumentError
from torchmark.model.case import Case, Language, trimmed
from torchmark.model.result import Metric, PlannedResult, Result, utc_now
from torchmark.model.run import TIME_LIMIT, USUAL_LIMITS, Effort, Run, RunKind, RunState
from torchmark.store import Store, new_run_id
from torchmark_probe.loops.sampling import Limits
from torchmark_probe.loops.snippets import PythonLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Statements with the same setup, language and number of threads."""

    texts: Sequence[str]
    setup: str = "pass"
    global_setup: str = ""
    """C++: code at the top of the file. Python: code that is run once before all statements."""

    language: Language = Language.PYTHON
    threads: int = 1


def time_statements(
    statements: Statements,
    *,
    min_run_time: float = 0.2,
    description: str | None = None,
    timeout: float = TIME_LIMIT,
    store: Store | None = None,
    tags: Iterable[str] = (),
) -> Run:
    """Time the statements in rounds in one process.

    A statement whose setup or run takes more than `timeout` seconds fails. `description` is the
    title of the time column.
    """
    check_positive("min_run_time", min_run_time)
    limits = Limits(USUAL_LIMITS.precision, min_run_time, 10 * min_run_time)
    effort = Effort(limits=limits, timeout=check_positive("timeout", timeout))
    settings = {
        "min_run_time": min_run_time,
        **({"description": description} if description else {}),
    }
    cases = _make_cases(statements)
    # The statements get the environment variables of this process, e.g. LD_PRELOAD and HOME.
    launch = Launch(environment=tuple(sorted(os.environ.items())))
    with ZygotePool() as pool:
        zygote = Workers(launch, pool).start(statements.threads, under_callgrind=False)
        results = time_together(cases, _prepare(cases, zygote), zygote, effort)
        return _save(_make_run(RunKind.TIME, results, settings), zygote, store, tags)


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
    """Count the instructions of the statements. Reports show `functions` functions of each."""
    if statements.language is Language.PYTHON and statements.global_setup:
        raise InvalidArgumentError(
            f"global_setup is for C++ statements only, got {statements.global_setup!r}; "
            "for a Python statement put it into setup"
        )
    effort = Effort(
        runs=check_count("the number of runs", number), timeout=check_positive("timeout", timeout)
    )
    cases = _make_cases(statements)
    threads = [statements.threads] * len(cases)
    plain, *_ = zygotes_for(threads, under_callgrind=False)
    ready = _prepare(cases, plain)
    failures = find_failures(threads, ready, time_limit=timeout, progress=progress)
    counter, *_ = zygotes_for(threads, under_callgrind=True)
    if len(failures) < len(cases):
        counter.start(progress)
    counting = {
        index: begin(partial(count_case, cases[index], ready[index], counter, effort), "count")
        for index in range(len(cases))
        if index not in failures
    }
    results = [
        failed_result(case, Metric.INSTRUCTIONS, failures[index])
        if index in failures
        else counting[index].result()
        for index, case in enumerate(cases)
    ]
    run = _make_run(RunKind.COUNT, results, {"functions": functions})
    return _save(run, plain, store, tags)


def name_statements(statements: Sequence[str]) -> list[str]:
    r"""Name each statement by its text on one line; a repeated one gets a number.

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


def _make_cases(statements: Statements) -> list[Case]:
    """Make a case for each statement; raise an error if Python code does not compile."""
    is_cpp = statements.language is Language.CPP
    check_count("threads", statements.threads)

    def as_written(source: str) -> str:
        text = trimmed(source)
        return "" if is_cpp and text == "pass" else text  # the default setup is Python

    cases = []
    for text, name in zip(statements.texts, name_statements(statements.texts), strict=True):
        case = Case(
            label=(name,),
            stmt=as_written(text),
            setup=as_written(statements.setup),
            global_setup=trimmed(statements.global_setup),
            language=statements.language,
            num_threads=statements.threads,
        )
        if not is_cpp:
            with as_user_error():
                PythonLoop(case.stmt, case.setup)
        cases.append(case)
    return cases


def _prepare(cases: Sequence[Case], zygote: Zygote) -> list[Ready]:
    """Prepare the cases for the zygote. C++ is compiled; raise an error if it does not compile."""
    if cases[0].language is Language.PYTHON:
        return [with_torch(case) for case in cases]
    statements = [CppStatement(case.stmt, case.setup, case.global_setup) for case in cases]
    ready: list[Ready] = []
    for built in build(statements, toolchain=toolchain_of(zygote.start())):
        if isinstance(built, CompileError):
            raise built
        ready.append(built)
    return ready


def _make_run(kind: RunKind, results: Sequence[Result], settings: dict[str, Any]) -> Run:
    """Make a finished run. It has no id until it is stored."""
    return Run(
        id="",
        kind=kind,
        started=utc_now(),
        state=RunState.FINISHED,
        plan=tuple(PlannedResult(case=each.case, metric=each.metric) for each in results),
        settings=settings,
        results=tuple(results),
    )


def _save(run: Run, zygote: Zygote, store: Store | None, tags: Iterable[str]) -> Run:
    """Store the run, if there is a store. The zygote describes the environment."""
    if store is None:
        return run
    here = describe_environment(zygote.start())
    kept = msgspec.structs.replace(run, id=new_run_id(), environments=(here,), tags=tuple(tags))
    store.create(kept)
    return store.run(kept.id)
