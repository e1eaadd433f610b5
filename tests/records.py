"""Runs and results made up for tests: figures that a person can follow, and strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.model.test_measurement import samplings
from torchmark.model.case import Autograd, Case, Language, Runtime, ScriptedModel
from torchmark.model.function_counts import FunctionCount
from torchmark.model.result import (
    Counts,
    Facts,
    FunctionTable,
    Metric,
    PairedCounts,
    PairedProfile,
    PairedTiming,
    PlannedResult,
    PythonCalls,
    Result,
    Status,
    TimeSummary,
    Timing,
)
from torchmark.model.run import Environment, MachineSpeeds, Run, RunKind, RunState
from torchmark_probe.loops.sampling import Sampling

NOW = "2026-11-15T22:15:30Z"


def case(*label: str, **fields: Any) -> Case:
    defaults = {"stmt": "x + y", "setup": "x = y = torch.ones(4)", "runtime": Runtime.EAGER}
    given: dict[str, Any] = {**defaults, **fields}
    return Case(label=label or ("Pointwise", "add"), **given)


def timed(seconds: float, count: int = 99, spread: float = 0.005) -> Timing:
    """Times that lie evenly around `seconds`, which is their median, in a mixed order."""
    places = [(index * 7) % 11 / 5 - 1 for index in range(count)]
    times = tuple(seconds * (1 + spread * place) for place in places)
    quiet = (1e-6,) * count
    return Timing(processes=(Sampling(1, times, times, quiet, 1e-6, 1e-9),))


def counted(instructions: int, loop: int = 0, number: int = 100) -> Counts:
    """Counts of two functions, and of the loop where it was counted."""
    third = instructions // 3
    stmt = (
        FunctionCount(instructions - third, "a.cpp:f [lib.so]"),
        FunctionCount(third, "b.cpp:g"),
    )
    empty = (FunctionCount(loop, "loop.c:run"),) if loop else ()
    return Counts(
        runs=number,
        statement=FunctionTable(exclusive=stmt, inclusive=stmt),
        loop=FunctionTable(exclusive=empty, inclusive=empty),
    )


def time_result(of: Case, seconds: float = 2e-6, **fields: Any) -> Result:
    return Result(
        case=of,
        metric=Metric.TIME,
        status=Status.DONE,
        finished=NOW,
        seconds=0.5,
        payload=timed(seconds, **fields),
    )


def count_result(of: Case, instructions: int = 123_400, **fields: Any) -> Result:
    return Result(
        case=of,
        metric=Metric.INSTRUCTIONS,
        status=Status.DONE,
        finished=NOW,
        seconds=0.25,
        payload=counted(instructions, **fields),
    )


def failed_result(of: Case, metric: Metric = Metric.TIME, **fields: Any) -> Result:
    defaults = {"reason": "the case crashed its process with SIGSEGV", "stderr": "no luck\n"}
    return Result(
        case=of, metric=metric, status=Status.FAILED, finished=NOW, **{**defaults, **fields}
    )


def run_of(*cases: Case, id: str = "20261115-221530-a1b2c3", **fields: Any) -> Run:
    """A run that is to time and count the cases."""
    metrics = (Metric.TIME, Metric.INSTRUCTIONS)
    facts = {"torch": {"version": "2.13.0"}, "python": "3.11.7"}
    defaults: dict[str, Any] = {
        "id": id,
        "kind": RunKind.RUN,
        "started": NOW,
        "plan": tuple(
            PlannedResult(case=each, metric=metric) for each in cases for metric in metrics
        ),
        "environments": (Environment(facts=facts),),
    }
    return Run(**{**defaults, **fields})


def tuples(of: st.SearchStrategy[Any], max_size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=max_size).map(tuple)


texts = st.text(max_size=20)
cases = st.builds(
    Case,
    label=st.lists(texts, min_size=1, max_size=3).map(tuple),
    stmt=texts,
    setup=texts,
    global_setup=texts,
    language=st.sampled_from(Language),
    runtime=st.sampled_from(Runtime),
    autograd=st.sampled_from(Autograd),
    num_threads=st.integers(1, 128),
    params=tuples(st.tuples(texts, texts), 2),
    model=st.none() | st.builds(ScriptedModel, source=texts),
    skip=st.none() | texts,
)
finite = st.floats(allow_nan=False, allow_infinity=False)
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, plain_json, max_size=3)
seconds = st.floats(min_value=0, max_value=1e9)
instructions = st.integers(0, 10**12)
timings = st.builds(Timing, processes=tuples(samplings, 2))
summaries = st.builds(
    TimeSummary,
    samples=st.integers(1, 999),
    median=seconds,
    low=seconds,
    high=seconds,
    mean=st.none() | seconds,
    least=st.none() | seconds,
    p95=st.none() | seconds,
    deviation=st.none() | seconds,
)
function_tables = st.builds(
    FunctionTable,
    exclusive=tuples(st.builds(FunctionCount, instructions, texts)),
    inclusive=tuples(st.builds(FunctionCount, instructions, texts)),
)
counts = st.builds(
    Counts,
    runs=st.integers(1, 10**6),
    statement=function_tables,
    loop=function_tables,
    has_debug_symbols=st.booleans(),
    callgrind_out=st.none() | texts,
)
python_calls = tuples(
    st.builds(PythonCalls, function=texts, a=st.integers(0, 99), b=st.integers(0, 99)), 2
)
crossovers = tuples(st.tuples(finite, finite))
paired_timings = st.builds(
    PairedTiming,
    a_seconds=seconds,
    replicates=tuples(crossovers),
    alpha_share=finite,
    same_files=st.booleans(),
    python_calls=python_calls,
)
paired_counts = st.builds(
    PairedCounts, a=tuples(counts, 2), b=tuples(counts, 2), python_calls=python_calls
)
paired_profiles = st.builds(PairedProfile, a=texts, b=texts)
payloads = timings | summaries | counts | paired_timings | paired_counts | paired_profiles
facts = st.builds(
    Facts,
    flops=st.none() | instructions,
    bytes=st.none() | instructions,
    peak_memory_bytes=st.none() | instructions,
    max_error=st.none() | seconds,
    prepare_seconds=st.none() | seconds,
    remarks=tuples(texts, 2),
)
metrics = st.sampled_from(Metric)
results = st.builds(
    Result,
    case=cases,
    metric=metrics,
    status=st.sampled_from(Status),
    finished=texts,
    environments=tuples(texts, 2),
    other=st.none() | cases,
    seconds=seconds,
    reason=texts,
    stdout=texts,
    stderr=texts,
    payload=st.none() | payloads,
    facts=facts,
)
plain_results = st.builds(
    Result,
    case=cases,
    metric=st.sampled_from([Metric.TIME, Metric.INSTRUCTIONS]),
    status=st.sampled_from(Status),
    finished=texts,
    reason=texts,
    stdout=texts,
    stderr=texts,
    payload=st.none() | timings | counts,
    facts=facts,
)
"""Of one environment, with figures that can be: reports are made of them."""

planned_results = st.builds(
    PlannedResult,
    case=cases,
    metric=metrics,
    environments=tuples(texts, 2),
    other=st.none() | cases,
)
speeds = st.builds(
    MachineSpeeds,
    small_call_seconds=seconds,
    bytes_per_second=st.dictionaries(st.integers(1, 10**9), seconds, max_size=2),
    flops_per_second=st.dictionaries(texts, seconds, max_size=2),
)
environments = st.builds(Environment, name=texts, command=texts, facts=objects)
runs = st.builds(
    Run,
    id=texts,
    kind=st.sampled_from(RunKind),
    started=texts,
    state=st.sampled_from(RunState),
    plan=tuples(planned_results),
    environments=tuples(environments, 2),
    settings=objects,
    notes=tuples(texts, 2),
    speeds=st.none() | speeds,
    tags=tuples(texts, 2),
    results=tuples(results, 2),
)
