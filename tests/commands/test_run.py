"""Which cases a person gets, and what the plan of a run says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tests.engine.running.fakes import FakeWorld
from torchmark.analyse.processes import detectable_in
from torchmark.commands.ab import ab
from torchmark.commands.planning import select_cases
from torchmark.commands.run import PILOT_PROCESSES, most_processes, plan_results, run
from torchmark.commands.spine import effort_of
from torchmark.define.suites.loading import load_suite
from torchmark.errors import InvalidArgumentError, RunInterruptedError, TorchmarkError
from torchmark.model.case import Language
from torchmark.model.result import Metric, Timing
from torchmark.model.run import USUAL_LIMITS, Began, Note

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.define.suites.loading import LoadedSuite
    from torchmark.model.case import Case
    from torchmark.model.result import Result

STANDARD = load_suite("standard")


@pytest.fixture
def world(tmp_path: Path) -> FakeWorld:
    return FakeWorld(tmp_path)


def select(world: FakeWorld, *suites: LoadedSuite, **options: Any) -> tuple[Case, ...]:
    return select_cases(suites or [STANDARD], world.workers(), **options)


def test_the_standard_suite_is_all_of_it_unless_something_is_said(world: FakeWorld) -> None:
    everything, quick = ({case.title for case in select(world, quick=q)} for q in (False, True))
    assert len(everything) == 181
    assert 15 <= len(quick) <= 25
    assert quick < everything


def test_cpp_can_be_left_out_and_words_select(world: FakeWorld) -> None:
    assert not [case for case in select(world, cpp=False) if case.language is Language.CPP]
    assert all("LSTM" in case.title for case in select(world, pattern="LSTM"))


def test_one_number_of_threads_makes_cases_that_differ_in_it_alone_the_same(
    world: FakeWorld,
) -> None:
    every = select(world, threads=3)
    assert {case.num_threads for case in every} == {3}
    assert len({case.id for case in every}) == len(every) < 181


def test_quick_leaves_the_cases_of_other_suites_alone(world: FakeWorld, tmp_path: Path) -> None:
    (tmp_path / "bench_own.py").write_text(
        "from torchmark import TimerArgs\nSUITE = {'own': TimerArgs('1')}\n"
    )
    cases = select(world, STANDARD, load_suite(str(tmp_path)), quick=True)
    assert "own · Python" in [case.title for case in cases]
    assert len(cases) == len(select(world, quick=True)) + 1


def test_languages_of_the_quick_part_are_both(world: FakeWorld) -> None:
    assert {case.language for case in select(world, quick=True)} == set(Language)


def test_a_plan_has_every_metric_of_every_case(world: FakeWorld) -> None:
    cases = select(world, quick=True)
    plan = plan_results(cases, (Metric.TIME, Metric.INSTRUCTIONS))
    assert [(each.case, each.metric) for each in plan[:2]] == [
        (cases[0], Metric.TIME),
        (cases[0], Metric.INSTRUCTIONS),
    ]
    assert len(plan) == 2 * len(cases)


def test_no_cases_are_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="no case is left"):
        plan_results((), (Metric.TIME,))


def test_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="suites must be a list of names"):
        run("standard")
    with pytest.raises(InvalidArgumentError, match="unknown metric 'speed'; choose from: time"):
        run(metrics=["speed"])


def test_a_trace_that_is_none_is_told_before_a_worker_imports_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> NoReturn:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("torchmark.commands.run.Workers", start)
    (tmp_path / "bad.jsonl.gz").write_text("garbage")
    with pytest.raises(TorchmarkError, match="is not a trace"):
        run([str(tmp_path / "bad.jsonl.gz")])


def test_a_size_of_change_that_is_asked_for_decides_the_processes_of_each_case(
    tmp_path: Path,
) -> None:
    (tmp_path / "bench_own.py").write_text(
        "from torchmark import TimerArgs\nSUITE = {'own': TimerArgs('sum(range(500))')}\n"
    )
    heard: list[str] = []
    measured = run(
        [str(tmp_path)],
        metrics=["time"],
        detect=5.0,
        store=tmp_path / "store.db",
        progress=lambda news: heard.append(news.text) if isinstance(news, Note) else None,
    )
    (result,) = measured.results
    assert isinstance(result.payload, Timing)
    assert len(result.payload.processes) == PILOT_PROCESSES, "500 % need no more than the pilot"
    assert (detectable_in(result) or math.inf) <= 5.0
    assert heard[0].startswith("forecast: to detect 500 % takes about 0 s more")
    assert heard[0] in measured.notes


def test_what_the_pilot_does_not_suffice_for_gets_more_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchmark.commands.run.MOST_PROCESSES", PILOT_PROCESSES + 3)
    (tmp_path / "bench_own.py").write_text(
        "from torchmark import TimerArgs\nSUITE = {'own': TimerArgs('sum(range(500))')}\n"
    )
    (result,) = run(
        [str(tmp_path)], metrics=["time"], detect=1e-6, store=tmp_path / "store.db"
    ).results
    assert isinstance(result.payload, Timing)
    assert len(result.payload.processes) == PILOT_PROCESSES + 3


def own_suite(folder: Path) -> str:
    (folder / "bench_own.py").write_text(
        "from torchmark import TimerArgs\nSUITE = {'own': TimerArgs('sum(range(500))')}\n"
    )
    return str(folder)


def measured_seconds(result: Result) -> list[float]:
    """Of measured blocks, process by process."""
    assert isinstance(result.payload, Timing)
    return [sum(each.wall) for each in result.payload.processes]


def test_a_budget_bounds_the_measured_blocks_of_all_processes_of_a_case(tmp_path: Path) -> None:
    options: Any = {"metrics": ["time"], "repeats": 2, "store": tmp_path / "store.db"}
    (short,) = run([own_suite(tmp_path)], budget=0.02, **options).results
    (usual,) = run([own_suite(tmp_path)], **options).results
    # The last block may end beyond it, and one takes a fraction of a millisecond.
    assert len(measured_seconds(short)) == 2
    assert sum(measured_seconds(short)) < 0.1 < 0.4 <= sum(measured_seconds(usual))


def test_a_budget_is_kept_with_the_run_and_a_resumed_one_goes_on_with_it(tmp_path: Path) -> None:
    def interrupt(news: object) -> None:
        if isinstance(news, Began):
            raise KeyboardInterrupt

    store = tmp_path / "store.db"
    with pytest.raises(RunInterruptedError) as caught:
        run(
            [own_suite(tmp_path)], metrics=["time"], budget=0.01, store=store, progress=interrupt
        )  # fmt: skip
    resumed = run(resume=caught.value.run_id, store=store)
    assert resumed.settings["budget"] == 0.01
    assert effort_of(resumed).limits == USUAL_LIMITS._replace(min_run_time=0.01, max_run_time=0.01)
    (result,) = resumed.results
    assert sum(measured_seconds(result)) < 0.1


def test_a_budget_bounds_the_processes_that_make_a_change_detectable(tmp_path: Path) -> None:
    (result,) = run(
        [own_suite(tmp_path)], metrics=["time"], detect=1e-6, budget=2.0, store=tmp_path / "s.db"
    ).results
    assert len(measured_seconds(result)) == most_processes(2.0) == PILOT_PROCESSES + 2


@pytest.mark.parametrize("budget", [0, -1.0, math.inf, math.nan, True, "2"])
def test_a_budget_that_is_none_is_refused_as_that_of_a_comparison(budget: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="budget must be") as refused_by_ab:
        ab(A="", budget=budget)
    with pytest.raises(InvalidArgumentError) as refused_by_run:
        run(budget=budget)
    assert str(refused_by_run.value) == str(refused_by_ab.value)
