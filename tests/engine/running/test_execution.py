"""A plan carried out by a fake zygote: one result for each, whatever happens."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from torchmark.engine import preparing
from torchmark.engine.cores import Division
from torchmark.engine.execution import Execution
from torchmark.engine.zygote.cases import NativeCase
from torchmark.errors import CompileError, CompilerMissingError, ZygoteError
from torchmark.model.case import MODEL_PATH, Case, Language, Runtime, ScriptedModel
from torchmark.model.result import Metric, PlannedResult, Result, Status
from torchmark.model.run import Began, Effort, Stage

from .fakes import FakeWorld

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchmark.engine.cpp.compiler import Toolchain
    from torchmark.engine.cpp.source import CppStatement

HERE = tuple(sorted(os.sched_getaffinity(0)))
TWO_CORES = Division(lanes=((HERE[0],),), others=(HERE[-1],), everything=HERE)
ONE_CORE = Division(lanes=((HERE[0],),), others=(), everything=HERE[:1])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return FakeWorld(tmp_path)


@pytest.fixture(autouse=True)
def fake_builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that were built."""
    batches: list[int] = []

    def build(
        statements: Sequence[CppStatement], *, toolchain: Toolchain
    ) -> list[NativeCase | CompileError]:
        batches.append(len(statements))
        return [
            CompileError("line 1: no")
            if each.stmt == "bad"
            else NativeCase("library.so", each.stmt)
            for each in statements
        ]

    monkeypatch.setattr(preparing, "build", build)
    return batches


def case(stmt: str, **options: Any) -> Case:
    return Case(label=("group", stmt), stmt=stmt, **options)


def cpp(stmt: str, **options: Any) -> Case:
    return case(stmt, language=Language.CPP, **options)


BOTH = (Metric.TIME, Metric.INSTRUCTIONS)


def both(*cases: Case) -> list[PlannedResult]:
    return [plan(each, metric) for each in cases for metric in BOTH]


def plan(case: Case, metric: Metric = Metric.TIME) -> PlannedResult:
    return PlannedResult(case=case, metric=metric)


def executed(
    world: FakeWorld,
    planned: list[PlannedResult],
    division: Division = TWO_CORES,
    **options: Any,
) -> dict[tuple[str, Metric], Result]:
    execution = Execution(
        planned,
        effort=Effort(**options),
        division=division,
        workers=world.workers(),
    )
    results = [news for news in execution.results() if isinstance(news, Result)]
    keys = [(result.case.stmt, result.metric) for result in results]
    assert len(keys) == len(set(keys)), "nothing comes twice"
    return dict(zip(keys, results, strict=True))


def test_every_case_is_timed_and_counted_once(world: FakeWorld) -> None:
    results = executed(world, both(case("a"), case("b"), cpp("c"), cpp("d")))
    assert set(results) == {(name, kind) for name in "abcd" for kind in BOTH}
    assert all(result.status is Status.DONE for result in results.values())
    assert results["a", Metric.TIME].measurement is not None
    assert results["a", Metric.TIME].stdout == "said"
    stats = results["c", Metric.INSTRUCTIONS].stats
    assert stats is not None
    assert stats.counts() == 1000


def test_a_failing_case_is_a_result_and_the_others_go_on(world: FakeWorld) -> None:
    results = executed(world, both(case("fail"), case("a")))
    for kind in BOTH:
        failure = results["fail", kind]
        assert failure.status is Status.FAILED
        assert (failure.reason, failure.stdout, failure.stderr) == ("it failed", "before", "why")
        assert results["a", kind].status is Status.DONE


def test_what_does_not_compile_is_a_result(world: FakeWorld, fake_builds: list[int]) -> None:
    results = executed(world, both(cpp("bad"), cpp("good")))
    assert results["bad", Metric.TIME].reason == "line 1: no"
    assert results["good", Metric.TIME].status is Status.DONE
    assert fake_builds == [2], "compiled together"


def test_without_a_compiler_cpp_is_skipped_as_in_a_comparison(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, *, toolchain: Toolchain) -> None:
        raise CompilerMissingError("apt-get install g++")

    monkeypatch.setattr(preparing, "build", refuse)
    results = executed(world, both(cpp("c"), case("a")))
    assert results["c", Metric.TIME].status is Status.SKIPPED
    assert results["c", Metric.TIME].reason == "apt-get install g++"
    assert results["a", Metric.TIME].status is Status.DONE


def test_without_a_compiler_python_goes_on(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, *, toolchain: Toolchain) -> None:
        raise CompileError("no compiler")

    monkeypatch.setattr(preparing, "build", refuse)
    results = executed(world, both(cpp("c"), case("a")))
    assert results["c", Metric.INSTRUCTIONS].reason == "no compiler"
    assert results["a", Metric.INSTRUCTIONS].status is Status.DONE


def test_many_statements_are_built_in_as_many_units_as_there_are_cores(
    world: FakeWorld, fake_builds: list[int]
) -> None:
    cores = Division(lanes=((HERE[0],),), others=HERE * 2, everything=HERE)
    executed(world, [plan(cpp(f"c{number}")) for number in range(60)], cores)
    assert sum(fake_builds) == 60
    assert len(fake_builds) == min(3, len(cores.others))


def test_a_skipped_case_says_why(world: FakeWorld) -> None:
    results = executed(world, both(case("old", skip="torch is too old")))
    assert results["old", Metric.TIME].status is Status.SKIPPED
    assert results["old", Metric.TIME].reason == "torch is too old"


def test_a_model_that_cannot_be_made_costs_its_own_cases(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchmark.engine.preparing._BUILD", "fail")
    model = ScriptedModel(source="jit_model = None")
    setup = f'm = torch.jit.load("{MODEL_PATH}")'
    scripted = [case("a", setup=setup, model=model), cpp("b", setup=setup, model=model)]
    results = executed(world, both(*scripted, case("c")))
    assert (
        results["a", Metric.TIME].reason == results["b", Metric.INSTRUCTIONS].reason == "it failed"
    )
    assert results["c", Metric.TIME].status is Status.DONE


def test_wide_cases_run_alone_on_all_cores(world: FakeWorld) -> None:
    threads = len(HERE) + 1
    narrow = both(*[case(f"n{number}") for number in range(5)])
    executed(world, [*narrow, plan(case("wide", num_threads=threads))])
    assert world.cores["wide"] == HERE
    assert world.cores["n0"] == HERE[:1]
    assert not [pair for pair in world.overlaps if "wide" in pair]


def test_cores_that_are_apart_work_at_the_same_time(world: FakeWorld) -> None:
    world.meeting_seconds = 900.0  # until the other comes, which nothing holds back
    executed(world, [plan(case("a"), Metric.TIME), plan(cpp("b"), Metric.INSTRUCTIONS)])
    assert world.overlaps == {frozenset({"a", "count b"})}


def test_a_zygote_that_dies_costs_no_case_that_works_again(world: FakeWorld) -> None:
    world.deaths = 1
    results = executed(world, [plan(case("a"), Metric.TIME)])
    assert results["a", Metric.TIME].status is Status.DONE
    world.deaths = 2
    results = executed(world, [plan(case("a"), Metric.TIME)])
    assert results["a", Metric.TIME].reason == "it died"


def test_models_are_made_anew_in_every_run_and_kept_beside_it(
    world: FakeWorld, tmp_path: Path
) -> None:
    model = ScriptedModel(source="jit_model = None")
    setup = f'm = torch.jit.load("{MODEL_PATH}")'
    for _ in range(2):
        world.cores.clear()
        execution = Execution(
            [plan(case("a", setup=setup, model=model), Metric.TIME)],
            effort=Effort(),
            division=TWO_CORES,
            workers=world.workers(),
            kept_models=tmp_path / "kept",
        )
        assert [type(news) for news in execution.results()] == [Began, Result]
        assert world.cores["model"] == TWO_CORES.others, "not where times are taken"
        assert (tmp_path / "kept" / f"{model.id}.pt").read_bytes() == b"model"
    (lasting,) = (tmp_path / "cache").rglob("*.pt")
    assert lasting.read_bytes() == b"model"


def test_on_one_core_nothing_runs_beside_anything(world: FakeWorld) -> None:
    executed(world, both(*[case(f"n{number}") for number in range(8)]), ONE_CORE)
    assert world.overlaps == set()


def test_a_zygote_that_cannot_start_is_not_tried_for_every_case(world: FakeWorld) -> None:
    world.start_failure = ZygoteError("no torch")
    many = Division(lanes=((HERE[0],),), others=HERE * 4, everything=HERE)
    results = executed(world, both(*[case(f"n{number}") for number in range(5)]), many)
    assert {result.reason for result in results.values()} == {"no torch"}
    assert len(world.starts) == 2, "once for times, once for counts"


def test_whoever_leaves_early_leaves_no_zygote_behind(world: FakeWorld) -> None:
    execution = Execution(
        both(*[case(f"n{number}") for number in range(20)]),
        effort=Effort(),
        division=TWO_CORES,
        workers=world.workers(),
    )
    with contextlib.closing(execution.results()) as results:
        next(results)
    assert world.closed >= 1
    assert os.sched_getaffinity(0) == set(HERE)


def test_what_begins_is_told_before_it_ends(world: FakeWorld) -> None:
    execution = Execution(
        both(case("a")),
        effort=Effort(),
        division=TWO_CORES,
        workers=world.workers(),
    )
    open_ones = set()
    stages = []
    for news in execution.results():
        if isinstance(news, Stage):
            stages.append((news.text.partition(":")[0], news.is_over))
        elif isinstance(news, Began):
            open_ones.add(news.metric)
        elif isinstance(news, Result):
            open_ones.remove(news.metric)
    assert not open_ones
    assert stages == [("starting the counter", False), ("starting the counter", True)]


def test_compiling_is_told(world: FakeWorld) -> None:
    execution = Execution(
        [plan(cpp("a"), Metric.TIME), plan(cpp("b"), Metric.TIME)],
        effort=Effort(),
        division=TWO_CORES,
        workers=world.workers(),
    )
    stages = [news for news in execution.results() if isinstance(news, Stage)]
    assert stages == [
        Stage(text="compiling 2 C++ statements"),
        Stage(text="compiling 2 C++ statements", is_over=True),
    ]


def test_our_own_mistakes_are_not_swallowed(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("torchmark.engine.execution.time_case", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        executed(world, both(case("a")))


def test_repeats_are_fresh_processes_merged_into_one(world: FakeWorld) -> None:
    results = executed(world, both(case("a")), repeats=3)
    measurement = results["a", Metric.TIME].measurement
    assert measurement is not None
    assert len(measurement.replicates) == 3
    assert results["a", Metric.INSTRUCTIONS].reason == ""


def test_counts_that_differ_between_repeats_are_told(world: FakeWorld) -> None:
    world.repeatable = False
    results = executed(world, [plan(cpp("a"), Metric.INSTRUCTIONS)], repeats=3)
    assert (
        results["a", Metric.INSTRUCTIONS].reason == "counts of 100 runs lie between 1000 and 1002"
    )


def test_what_is_compiled_at_run_time_is_not_counted_and_says_why(world: FakeWorld) -> None:
    results = executed(world, both(case("a", runtime=Runtime.COMPILED)))
    assert results["a", Metric.INSTRUCTIONS].status is Status.SKIPPED
    assert "callgrind" in results["a", Metric.INSTRUCTIONS].reason


def test_the_first_run_of_a_compiled_case_is_its_compile_time(world: FakeWorld) -> None:
    compiled = case("a", runtime=Runtime.COMPILED)
    results = executed(world, [plan(compiled), plan(case("b"), Metric.TIME)])
    assert results["a", Metric.TIME].facts.prepare_seconds == 3.0
    assert results["b", Metric.TIME].facts.prepare_seconds is None
