"""A/B comparisons made up for tests: figures that a person can follow, and strategies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests import records
from torchmark.model.ab_record import (
    Compared,
    ComparedEnvironment,
    Comparison,
    PairedCounts,
    PairedTimes,
    PythonCalls,
)
from torchmark.model.function_counts import counts_of
from torchmark.model.result import Metric, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchmark.model.ab_record import Turn
    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.case import Case

ID = "20261116-080000-d4e5f6"
FACTS_A = {
    "torch": {"version": "2.12.0", "git": "0123456789abcdef", "config": "GCC 12\nMKL"},
    "python": "3.11.7",
    "threads": 1,
    "compiler": "g++ 12.2.0",
    "counting": "works",
    "cpp": "works",
}
FACTS_B = {**FACTS_A, "torch": {"version": "2.13.0", "git": "fedcba9876543210", "config": "GCC 13"}}
A = ComparedEnvironment(name="A", command="", facts=FACTS_A)
B = ComparedEnvironment(name="B", command="source envs/new/bin/activate", facts=FACTS_B)


def alone(logs: Iterable[float]) -> tuple[tuple[Turn, ...], ...]:
    """Pairs that had one turn each, whose two couples agreed."""
    return tuple(((each, each),) for each in logs)


def logs_around(ratio: float, spread: float = 0.001, count: int = 20) -> tuple[float, ...]:
    """The logs of ratios that lie evenly around `ratio`."""
    return tuple(
        math.log(ratio) + spread * ((index * 7) % count / (count - 1) * 2 - 1)
        for index in range(count)
    )


def turns_around(ratio: float, spread: float = 0.001, count: int = 20) -> tuple[Turn, ...]:
    return tuple((each, each) for each in logs_around(ratio, spread, count))


def timed(
    of: Case,
    ratio: float,
    *,
    spread: float = 0.001,
    pairs: int = 20,
    controls: int = 6,
    **fields: Any,
) -> Compared:
    """Two microseconds in A, and in B `ratio` as long."""
    times = PairedTimes(
        a_seconds=2e-6,
        pairs=alone(logs_around(ratio, spread, pairs) if pairs > 1 else (0.0,) * pairs),
        control=turns_around(1.0, spread, controls) if controls else (),
        penalty=1.0,
    )
    return Compared(case=of, metric=Metric.TIME, status=Status.DONE, times=times, **fields)


def counted(
    of: Case,
    a: Mapping[str, int],
    b: Mapping[str, int],
    *,
    layouts: tuple[int, ...] = (0,),
    **fields: Any,
) -> Compared:
    """Instructions of one run by function; each layout adds so many to the first function."""
    return Compared(
        case=of,
        metric=Metric.INSTRUCTIONS,
        status=Status.DONE,
        counts=PairedCounts(
            a=tuple(stats(a, more) for more in layouts), b=tuple(stats(b, more) for more in layouts)
        ),
        **fields,
    )


def stats(functions: Mapping[str, int], more: int = 0, number: int = 100) -> CallgrindStats:
    first = next(iter(functions), "")
    counts = {
        name: number * (count + (more if name == first else 0)) for name, count in functions.items()
    }
    return replace(
        records.counted(0, loop=500, number=number),
        stmt_inclusive_stats=counts_of(counts, inclusive=True),
        stmt_exclusive_stats=counts_of({**counts, "loop.c:run": 500}, inclusive=False),
    )


def missing(of: Case, kind: Metric, status: Status, reason: str, **fields: Any) -> Compared:
    return Compared(case=of, kind=kind, status=outcome, reason=reason, **fields)


def comparison(*results: Compared, **fields: Any) -> Comparison:
    defaults: dict[str, Any] = {"id": ID, "started": records.NOW, "a": A, "b": B}
    return Comparison(results=results, **{**defaults, **fields})


environments = st.builds(
    ComparedEnvironment, name=records.texts, command=records.texts, facts=records.objects
)
turns = st.tuples(st.floats(-1, 1), st.floats(-1, 1))
positive_seconds = st.floats(min_value=1e-12, max_value=1e6)
function_counts = st.dictionaries(records.texts, st.integers(0, 10**9), max_size=3)
many_stats = st.lists(st.builds(stats, function_counts), min_size=1, max_size=2).map(tuple)
python_calls = st.lists(
    st.builds(PythonCalls, function=records.texts, a=st.integers(0, 99), b=st.integers(0, 99)),
    max_size=2,
).map(tuple)
common: dict[str, Any] = {
    "case": records.cases,
    "other": st.none() | records.cases,
    "reason": records.texts,
    "python": python_calls,
}
done_times = st.builds(
    Compared,
    kind=st.just(Metric.TIME),
    status=st.just(Status.DONE),
    times=st.builds(
        PairedTimes,
        a_seconds=positive_seconds,
        pairs=st.lists(turns, max_size=6).map(lambda each: tuple((turn,) for turn in each)),
        control=st.lists(turns, max_size=6).map(tuple),
        penalty=st.floats(1, 12),
        layout_effect=st.floats(0, 0.01),
    ),
    **common,
)
done_counts = st.builds(
    Compared,
    kind=st.just(Metric.INSTRUCTIONS),
    status=st.just(Status.DONE),
    counts=st.builds(PairedCounts, a=many_stats, b=many_stats),
    **common,
)
gaps = st.builds(
    Compared,
    kind=records.kinds,
    status=st.sampled_from([Status.FAILED, Status.SKIPPED]),
    **common,
)
comparisons = st.builds(
    Comparison,
    id=records.texts,
    started=records.texts,
    a=environments,
    b=environments,
    results=st.lists(done_times | done_counts | gaps, max_size=5).map(tuple),
    remarks=st.lists(records.texts, max_size=2).map(tuple),
    settings=records.objects,
    is_complete=st.booleans(),
)
