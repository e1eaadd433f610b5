"""Runs and results made up for tests: figures that a person can follow, and strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.model.test_measurement import measurements
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.case import Autograd, Case, Runtime, ScriptedModel
from torchmark.model.function_counts import counts_of
from torchmark.model.language import Language
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Run, RunState
from torchmark.model.task_spec import TaskSpec

NOW = "2026-11-15T22:15:30Z"


def case(*label: str, **fields: Any) -> Case:
    defaults = {"stmt": "x + y", "setup": "x = y = torch.ones(4)", "runtime": Runtime.EAGER}
    given: dict[str, Any] = {**defaults, **fields}
    return Case(label=label or ("Pointwise", "add"), **given)


def timed(seconds: float, count: int = 99, spread: float = 0.005) -> Measurement:
    """Times that lie evenly around `seconds`, which is their median, in a mixed order."""
    places = [(index * 7) % 11 / 5 - 1 for index in range(count)]
    times = [seconds * (1 + spread * place) for place in places]
    return Measurement(1, times, TaskSpec("x + y", "pass"))


def counted(instructions: int, loop: int = 0, number: int = 100) -> CallgrindStats:
    """Counts of two functions, and of the loop where it was counted."""
    spec = TaskSpec("x + y", "pass")
    stmt = {"a.cpp:f [lib.so]": instructions - instructions // 3, "b.cpp:g": instructions // 3}
    empty = {"loop.c:run": loop} if loop else {}
    return CallgrindStats(
        task_spec=spec,
        number_per_run=number,
        built_with_debug_symbols=True,
        baseline_inclusive_stats=counts_of(empty, inclusive=True),
        baseline_exclusive_stats=counts_of(empty, inclusive=False),
        stmt_inclusive_stats=counts_of(stmt, inclusive=True),
        stmt_exclusive_stats=counts_of(stmt, inclusive=False),
        stmt_callgrind_out=None,
    )


def time_result(of: Case, seconds: float = 2e-6, **fields: Any) -> Result:
    return Result(
        case=of,
        metric=Metric.TIME,
        status=Status.DONE,
        finished=NOW,
        seconds=0.5,
        measurement=timed(seconds, **fields),
    )


def count_result(of: Case, instructions: int = 123_400, **fields: Any) -> Result:
    return Result(
        case=of,
        metric=Metric.INSTRUCTIONS,
        status=Status.DONE,
        finished=NOW,
        seconds=0.25,
        counts=counted(instructions, **fields),
    )


def failed_result(of: Case, kind: Metric = Metric.TIME, **fields: Any) -> Result:
    defaults = {"reason": "the case crashed its process with SIGSEGV", "stderr": "no luck\n"}
    return Result(case=of, kind=kind, status=Status.FAILED, finished=NOW, **{**defaults, **fields})


def run_of(*cases: Case, id: str = "20261115-221530-a1b2c3", **fields: Any) -> Run:
    """A run that is to time and count the cases."""
    defaults: dict[str, Any] = {
        "id": id,
        "started": NOW,
        "plan": tuple((each, kind) for each in cases for kind in Metric),
        "environment": {"torch": {"version": "2.13.0"}, "python": "3.11.7"},
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
kinds = st.sampled_from(Metric)
runs = st.builds(
    Run,
    id=texts,
    started=texts,
    state=st.sampled_from(RunState),
    plan=st.lists(st.tuples(cases, kinds), max_size=4).map(tuple),
    settings=objects,
    environment=objects,
    tags=st.lists(texts, max_size=2).map(tuple),
)
seconds = st.floats(min_value=0, max_value=1e9)
counts = st.builds(counted, st.integers(0, 10**12), st.integers(0, 10**6), st.integers(1, 10**6))
results = st.builds(
    Result,
    case=cases,
    kind=kinds,
    status=st.sampled_from(Status),
    finished=texts,
    seconds=seconds,
    reason=texts,
    stdout=texts,
    stderr=texts,
    measurement=st.none() | measurements,
    counts=st.none() | counts,
    compile_seconds=st.none() | seconds,
)
