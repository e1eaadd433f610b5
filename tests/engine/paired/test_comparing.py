"""Which Python functions are behind a change: a patched one is named, in real zygotes.

And what a comparison makes of timings: results of cases, and of their controls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests import ab_records, light_torch, records
from tests.engine.paired.sides import open_one
from tests.engine.zygote_cases import TORCH
from torchmark.engine.cores import Division
from torchmark.engine.paired import comparing
from torchmark.engine.paired.comparing import Comparison, ReadyCase, compare_python_calls
from torchmark.engine.paired.timing import CaseTiming, Control
from torchmark.engine.under_test import UnderTest
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.model.result import Metric, PairedTiming, PythonCalls, Result
from torchmark.model.run import Effort

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchmark.model.result import PlannedResult

FUNCTIONS = """
def helper(n):
    return n + 1

def relu(n):
    return helper(n)

def other(n):
    return n * 2
"""

PATCHED = """
def extra(n):
    for _ in range(20):
        n = n + 1
    return n

def relu(n):
    if n:
        return extra(helper(n))
"""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[UnderTest, UnderTest]]:
    folder = tmp_path_factory.mktemp("environments")
    a = open_one("A", light_torch.put_into(folder / "a", FUNCTIONS))
    b = open_one("B", light_torch.put_into(folder / "b, with a longer name", FUNCTIONS + PATCHED))
    yield a, b
    a.close()
    b.close()


def explained(
    sides: tuple[UnderTest, UnderTest], stmt: str, in_b: str | None = None
) -> tuple[PythonCalls, ...]:
    ready = (
        PythonCase(stmt=stmt, globals=TORCH),
        PythonCase(stmt=stmt if in_b is None else in_b, globals=TORCH),
    )
    return compare_python_calls(sides, ready, threads=1, time_limit=60)


def test_the_patched_function_is_named_biggest_first(sides: tuple[UnderTest, UnderTest]) -> None:
    new, patched = explained(sides, "torch.relu(1)")
    assert new.function == "extra (torch/__init__.py)"
    assert new.a == 0 < new.b
    assert patched.function == "relu (torch/__init__.py)"
    assert 0 < patched.a < patched.b < new.b


def test_what_shrinks_is_told_too(sides: tuple[UnderTest, UnderTest]) -> None:
    b, a = sides
    functions = explained((a, b), "torch.relu(1)")
    assert [(each.function.split()[0], each.b - each.a < 0) for each in functions] == [
        ("extra", True),
        ("relu", True),
    ]


def test_what_is_the_same_has_nothing_to_explain(sides: tuple[UnderTest, UnderTest]) -> None:
    assert explained(sides, "torch.other(1)") == ()


def test_another_statement_is_the_difference_itself(sides: tuple[UnderTest, UnderTest]) -> None:
    (only,) = explained(sides, "1 + 1", "n = 1; n + n")
    assert only.function == "the statement"
    assert only.b > only.a


def test_a_statement_that_cannot_be_traced_is_left_unexplained(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    assert explained(sides, "torch.relu(1)", "nowhere") == ()


def test_compiled_statements_have_no_python_functions(
    sides: tuple[UnderTest, UnderTest], tmp_path: Path
) -> None:
    native = NativeCase(library=tmp_path / "no.so", symbol="run")
    assert compare_python_calls(sides, (native, native), threads=1, time_limit=1) == ()


class FakeSide:
    """An environment that nothing is started in."""

    def __init__(self, name: str, files: str) -> None:
        self.name = name
        self.files = files

    @property
    def environment(self) -> FakeSide:
        return self

    def loads_the_same_files(self, other: FakeSide) -> bool:
        return self.files == other.files

    def is_same_installation(self, other: FakeSide) -> bool:
        return self.loads_the_same_files(other)


def compare_without_processes(
    monkeypatch: pytest.MonkeyPatch, *plan: PlannedResult, files: tuple[str, str]
) -> tuple[list[Result], list[dict[str, Any]]]:
    """Cases and controls whose B takes 5 % longer; and what the timing was told."""
    told: list[dict[str, Any]] = []
    explained = PythonCalls(function="f", a=1, b=2)

    def make_ready(wanted: Sequence[PlannedResult], *_: object, **__: object) -> list[ReadyCase]:
        ready = PythonCase(stmt="pass", globals={})
        return [ReadyCase(planned, (ready, ready)) for planned in wanted]

    def take(timings: list[CaseTiming], _start: object, **options: Any) -> Iterator[CaseTiming]:
        told.append(options)
        for each in (*timings, timings[0].control()):
            each.replicates += ab_records.alone(ab_records.logs_around(1.05))
            each.a_seconds, each.seconds = [1e-6], 2.0
            yield each

    monkeypatch.setattr(comparing, "make_ready", make_ready)
    monkeypatch.setattr(comparing, "take_replicates", take)
    monkeypatch.setattr(comparing, "compare_python_calls", lambda *_, **__: (explained,))
    comparison = Comparison(
        plan,
        FakeSide("A", files[0]),  # type: ignore[arg-type]
        FakeSide("B", files[1]),  # type: ignore[arg-type]
        effort=Effort(),
        division=Division(lanes=((0,),), others=(), everything=(0,)),
    )
    return [each for each in comparison.results() if isinstance(each, Result)], told


@pytest.mark.parametrize("files", [("one", "one"), ("one", "another")])
def test_a_control_is_a_result_of_its_own_that_nothing_explains(
    monkeypatch: pytest.MonkeyPatch, files: tuple[str, str]
) -> None:
    case = records.case()
    (time, control), told = compare_without_processes(
        monkeypatch, ab_records.planned(case, other=records.case("other")), files=files
    )
    assert isinstance(time.payload, PairedTiming)
    assert isinstance(control.payload, PairedTiming)
    assert (time.metric, control.metric) == (Metric.TIME, Metric.CONTROL)
    assert (control.case, control.other, control.environments) == (case, None, ab_records.PAIR)
    assert control.seconds == 2.0
    assert time.payload.same_files is (files == ("one", "one"))
    assert control.payload.same_files, "of A with A"
    assert time.payload.python_calls
    assert control.payload.python_calls == (), "A does what A does"
    assert [options["cases"] for options in told] == [1], "a control is judged by itself"


def test_cases_of_each_number_of_threads_have_a_control_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As they have zygotes of their own."""
    plan = [ab_records.planned(records.case(num_threads=threads)) for threads in (1, 2)]
    results, told = compare_without_processes(monkeypatch, *plan, files=("one", "one"))
    controls = [options["control"] for options in told]
    assert len(set(map(id, controls))) == 2
    assert all(isinstance(each, Control) for each in controls)
    assert [each.case.num_threads for each in results] == [1, 1, 2, 2]
