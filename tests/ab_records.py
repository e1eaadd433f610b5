"""A/B runs made up for tests: figures that a person can follow, and strategies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests import records
from torchmark.model.function_counts import FunctionCount
from torchmark.model.result import (
    Counts,
    FunctionTable,
    Metric,
    PairedCounts,
    PairedTiming,
    PlannedResult,
    PythonCalls,
    Result,
    Status,
)
from torchmark.model.run import Environment, Run, RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchmark.model.case import Case
    from torchmark.model.result import Crossover

ID = "20261116-080000-d4e5f6"
PAIR = ("A", "B")
FACTS_A = {
    "torch": {"version": "2.12.0", "git": "0123456789abcdef", "config": "GCC 12\nMKL"},
    "python": "3.11.7",
    "threads": 1,
    "compiler": "g++ 12.2.0",
    "counting": "works",
    "cpp": "works",
}
FACTS_B = {**FACTS_A, "torch": {"version": "2.13.0", "git": "fedcba9876543210", "config": "GCC 13"}}
A = Environment(name="A", command="", facts=FACTS_A)
B = Environment(name="B", command="source envs/new/bin/activate", facts=FACTS_B)


def alone(logs: Iterable[float]) -> tuple[tuple[Crossover, ...], ...]:
    """Replicates of one crossover each, whose two process pairs agreed."""
    return tuple(((each, each),) for each in logs)


def logs_around(ratio: float, spread: float = 0.001, count: int = 20) -> tuple[float, ...]:
    """The logs of ratios that lie evenly around `ratio`."""
    return tuple(
        math.log(ratio) + spread * ((index * 7) % count / (count - 1) * 2 - 1)
        for index in range(count)
    )


def planned(of: Case, metric: Metric = Metric.TIME, **fields: Any) -> PlannedResult:
    return PlannedResult(case=of, metric=metric, **{"environments": PAIR, **fields})


def result(of: Case, metric: Metric, **fields: Any) -> Result:
    defaults = {"status": Status.DONE, "environments": PAIR, "finished": records.NOW}
    return Result(case=of, metric=metric, **{**defaults, **fields})


def timed(
    of: Case,
    ratio: float,
    *,
    spread: float = 0.001,
    replicates: int = 20,
    python_calls: tuple[PythonCalls, ...] = (),
    metric: Metric = Metric.TIME,
    **fields: Any,
) -> Result:
    """Two microseconds in A, and in B `ratio` as long."""
    few = (0.0,) * replicates
    payload = PairedTiming(
        a_seconds=2e-6,
        replicates=alone(logs_around(ratio, spread, replicates) if replicates > 1 else few),
        python_calls=python_calls,
    )
    return result(of, metric, payload=payload, **fields)


def controlled(of: Case, ratio: float = 1.0, **fields: Any) -> Result:
    """A compared with A: what its two launches say of each other."""
    return timed(of, ratio, metric=Metric.CONTROL, **fields)


def counted(
    of: Case,
    a: Mapping[str, int],
    b: Mapping[str, int],
    *,
    layouts: tuple[int, ...] = (0,),
    python_calls: tuple[PythonCalls, ...] = (),
    **fields: Any,
) -> Result:
    """Instructions of one run by function; each layout adds so many to the first function."""
    payload = PairedCounts(
        a=tuple(counts(a, more) for more in layouts),
        b=tuple(counts(b, more) for more in layouts),
        python_calls=python_calls,
    )
    return result(of, Metric.INSTRUCTIONS, payload=payload, **fields)


def counts(functions: Mapping[str, int], more: int = 0, runs: int = 100) -> Counts:
    first = next(iter(functions), "")
    entries = tuple(
        FunctionCount(runs * (count + (more if name == first else 0)), name)
        for name, count in functions.items()
    )
    loop = (FunctionCount(500, "loop.c:run"),)
    return Counts(
        runs=runs,
        statement=FunctionTable(exclusive=(*entries, *loop), inclusive=entries),
        loop=FunctionTable(exclusive=loop, inclusive=loop),
    )


def missing(of: Case, metric: Metric, status: Status, reason: str, **fields: Any) -> Result:
    return result(of, metric, status=status, reason=reason, **fields)


def run_of(*results: Result, **fields: Any) -> Run:
    """A finished run with these results and no others in its plan, which has no controls."""
    plan = [
        PlannedResult(case=e.case, metric=e.metric, environments=e.environments, other=e.other)
        for e in results
        if e.metric is not Metric.CONTROL
    ]
    defaults: dict[str, Any] = {
        "id": ID,
        "kind": RunKind.AB,
        "started": records.NOW,
        "state": RunState.FINISHED,
        "plan": tuple(plan),
        "environments": (A, B),
    }
    return Run(results=results, **{**defaults, **fields})


environments = st.lists(
    st.builds(Environment, name=records.texts, command=records.texts, facts=records.objects),
    min_size=2,
    max_size=3,
    unique_by=lambda each: each.name,
).map(tuple)
crossovers = st.tuples(st.floats(-1, 1), st.floats(-1, 1))
positive_seconds = st.floats(min_value=1e-12, max_value=1e6)
function_counts = st.dictionaries(records.texts, st.integers(0, 10**9), max_size=3)
many_counts = st.lists(st.builds(counts, function_counts), min_size=1, max_size=2).map(tuple)
python_calls = st.lists(
    st.builds(PythonCalls, function=records.texts, a=st.integers(0, 99), b=st.integers(0, 99)),
    max_size=2,
).map(tuple)
timings = st.builds(
    PairedTiming,
    a_seconds=positive_seconds,
    replicates=st.lists(crossovers, max_size=6).map(lambda each: tuple((one,) for one in each)),
    alpha_share=st.floats(1 / 12, 1),
    same_files=st.booleans(),
    python_calls=python_calls,
)
paired_counts = st.builds(PairedCounts, a=many_counts, b=many_counts, python_calls=python_calls)
outcomes = (
    st.tuples(st.sampled_from([Metric.TIME, Metric.CONTROL]), st.just(Status.DONE), timings)
    | st.tuples(st.just(Metric.INSTRUCTIONS), st.just(Status.DONE), paired_counts)
    | st.tuples(
        st.sampled_from([Metric.TIME, Metric.INSTRUCTIONS]),
        st.sampled_from([Status.FAILED, Status.SKIPPED]),
        st.none(),
    )
)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any run: every case once, in one comparison or two."""
    places = draw(environments)
    results = []
    for number, (metric, status, payload) in enumerate(draw(st.lists(outcomes, max_size=5))):
        case = draw(records.cases)
        results.append(
            result(
                replace(case, label=(*case.label, str(number))),
                metric,
                status=status,
                payload=payload,
                other=draw(st.none() | records.cases),
                reason=draw(records.texts),
                environments=(places[0].name, draw(st.sampled_from(places[1:])).name),
            )
        )
    return run_of(
        *results,
        environments=places,
        id=draw(records.texts),
        started=draw(records.texts),
        notes=tuple(draw(st.lists(records.texts, max_size=2))),
        settings=draw(records.objects),
        state=draw(st.sampled_from(RunState)),
    )
