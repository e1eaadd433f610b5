"""Runs and results made up for tests: figures that a person can follow, and strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from torchmark.model.case import Autograd, Case, Runtime, ScriptedModel
from torchmark.model.environment import Environment
from torchmark.model.language import Language
from torchmark.model.measurement import Measurement
from torchmark.model.result import (
    Counts,
    Facts,
    FunctionTable,
    Metric,
    Result,
    Status,
    TimeSummary,
    Timing,
)
from torchmark.model.run import PlannedResult, Run, RunKind, RunState
from torchmark.model.task_spec import TaskSpec
from torchmark_probe.loops.sampling import Sampling

NOW = "2026-11-15T22:15:30Z"


def case(*label: str, **fields: Any) -> Case:
    defaults = {"stmt": "x + y", "setup": "x = y = torch.ones(4)", "runtime": Runtime.EAGER}
    given: dict[str, Any] = {**defaults, **fields}
    return Case(label=label or ("Pointwise", "add"), **given)


def samples(seconds: float, count: int = 99, spread: float = 0.005) -> Sampling:
    """Times that lie evenly around `seconds`, which is their median, in a mixed order."""
    places = [(index * 7) % 11 / 5 - 1 for index in range(count)]
    times = tuple(seconds * (1 + spread * place) for place in places)
    return Sampling(
        number=1, wall=times, cpu=times, pace=(1.0,) * count, quiet_pace=1.0, clock_resolution=0.0
    )


def timed(seconds: float, count: int = 99, spread: float = 0.005) -> Measurement:
    return Measurement.from_sampling(TaskSpec("x + y", "pass"), samples(seconds, count, spread))


def counted(instructions: int, loop: int = 0, number: int = 100) -> Counts:
    """Counts of two functions, and of the loop where it was counted."""
    functions = (
        (instructions - instructions // 3, "a.cpp:f [lib.so]"),
        (instructions // 3, "b.cpp:g"),
    )
    empty = ((loop, "loop.c:run"),) if loop else ()
    return Counts(
        runs=number,
        statement=FunctionTable(exclusive=functions, inclusive=functions),
        loop=FunctionTable(exclusive=empty, inclusive=empty),
    )


def time_result(of: Case, seconds: float = 2e-6, **fields: Any) -> Result:
    return Result(
        case=of,
        metric=Metric.TIME,
        status=Status.DONE,
        finished=NOW,
        seconds=0.5,
        payload=Timing(processes=(samples(seconds, **fields),)),
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
    params=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    model=st.none() | st.builds(ScriptedModel, source=texts),
    skip=st.none() | texts,
)
plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, plain_json, max_size=3)
metrics = st.sampled_from(Metric)
names = st.lists(texts, min_size=1, max_size=2).map(tuple)
seconds = st.floats(min_value=0, max_value=1e9)
samplings = st.builds(
    samples, st.floats(1e-9, 1e3), count=st.integers(1, 40), spread=st.floats(0, 0.5)
)
counts = st.builds(counted, st.integers(0, 10**12), st.integers(0, 10**6), st.integers(1, 10**6))
payloads = (
    st.builds(Timing, processes=st.lists(samplings, max_size=2).map(tuple))
    | st.builds(TimeSummary, samples=st.integers(1, 99), median=seconds, low=seconds, high=seconds)
    | counts
)
results = st.builds(
    Result,
    case=cases,
    metric=metrics,
    status=st.sampled_from(Status),
    finished=texts,
    environments=names,
    other=st.none() | cases,
    seconds=seconds,
    reason=texts,
    stdout=texts,
    stderr=texts,
    payload=st.none() | payloads,
    facts=st.builds(Facts, prepare_seconds=st.none() | seconds),
)
runs = st.builds(
    Run,
    id=texts,
    kind=st.sampled_from(RunKind),
    started=texts,
    state=st.sampled_from(RunState),
    plan=st.lists(
        st.builds(PlannedResult, case=cases, metric=metrics, environments=names), max_size=4
    ).map(tuple),
    environments=st.lists(
        st.builds(Environment, name=texts, command=texts, facts=objects), max_size=2
    ).map(tuple),
    settings=objects,
    notes=st.lists(texts, max_size=2).map(tuple),
    tags=st.lists(texts, max_size=2).map(tuple),
    results=st.lists(results, max_size=4).map(tuple),
)
