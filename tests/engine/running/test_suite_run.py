"""Which cases a person gets, and how a run that was cut short goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests import records
from torchmark.commands.suite_run import (
    Wanted,
    checked_to_go_on,
    cores_for,
    effort_in,
    effort_of,
    failures_of,
    missing_of,
    new_run,
    wanted_cases,
)
from torchmark.define.skips import NOTHING_KNOWN
from torchmark.define.suites.loading import load_suite
from torchmark.engine.measuring import Effort, failed, skipped
from torchmark.errors import InvalidArgumentError
from torchmark.model.language import Language
from torchmark.model.result import Metric, Status
from torchmark.model.run import Run

from .fakes import FakeWorld

if TYPE_CHECKING:
    from pathlib import Path

STANDARD = load_suite("standard")
ENVIRONMENT = {
    "torchmark": "0.1.0",
    "torch": {"version": "2.13.0", "git": "abc"},
    "python": "3.11.7",
    "machine": {"cpu": "fast"},
}


def cases(**options: Any) -> list[str]:
    return [case.title for case in wanted_cases([STANDARD], Wanted(**options), NOTHING_KNOWN)]


def run_of(tmp_path: Path, *, quick: bool = True, **options: Any) -> Run:
    workers = FakeWorld(tmp_path).workers()
    effort = effort_of(quick=quick, repeats=2, timeout=7.0)
    return new_run([STANDARD], Wanted(quick=quick, **options), effort, workers, ENVIRONMENT, ["t"])


def test_the_standard_suite_is_all_of_it_unless_something_is_said() -> None:
    assert len(cases()) == 181
    assert 15 <= len(cases(quick=True)) <= 25
    assert set(cases(quick=True)) < set(cases())


def test_cpp_can_be_left_out_and_words_select() -> None:
    assert not [title for title in cases(cpp=False) if "C++" in title]
    assert all("LSTM" in title for title in cases(pattern="LSTM"))


def test_one_number_of_threads_makes_cases_that_differ_in_it_alone_the_same() -> None:
    every = wanted_cases([STANDARD], Wanted(threads=3), NOTHING_KNOWN)
    assert {case.num_threads for case in every} == {3}
    assert len({case.id for case in every}) == len(every) < 181


def test_quick_leaves_the_cases_of_other_suites_alone(tmp_path: Path) -> None:
    (tmp_path / "bench_own.py").write_text(
        "from torchmark import TimerArgs\nSUITE = {'own': TimerArgs('1')}\n"
    )
    own = load_suite(str(tmp_path))
    titles = [
        case.title for case in wanted_cases([STANDARD, own], Wanted(quick=True), NOTHING_KNOWN)
    ]
    assert "own · Python" in titles
    assert len(titles) == len(cases(quick=True)) + 1


def test_a_run_says_what_is_measured_and_how(tmp_path: Path) -> None:
    run = run_of(tmp_path, kinds=(Metric.INSTRUCTIONS,))
    assert {kind for _, kind in run.plan} == {Metric.INSTRUCTIONS}
    assert effort_in(run) == effort_of(quick=True, repeats=2, timeout=7.0)
    assert effort_in(run) != Effort()
    assert run.tags == ("t",)
    assert run.environment == ENVIRONMENT


def test_no_cases_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no case is left"):
        run_of(tmp_path, pattern="nothing of that name")


def test_a_file_that_cannot_be_loaded_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "bench_bad.py").write_text("1 +\n")
    (row,) = failures_of([load_suite(str(tmp_path))], Metric.TIME)
    assert row.status is Status.FAILED
    assert "bench_bad.py, line 1: SyntaxError" in row.reason


def test_what_is_done_or_left_out_is_not_measured_again_and_failures_are() -> None:
    done, left_out, broken, missing = (records.case("g", name) for name in "abcd")
    run = records.run_of(done, left_out, broken, missing)
    results = [
        records.time_result(done, 1e-6),
        skipped(left_out, Metric.TIME, "old"),
        failed(broken, Metric.TIME, InvalidArgumentError("no")),
    ]
    left = [case for case, kind in missing_of(run, results) if kind is Metric.TIME]
    assert left == [broken, missing]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"torchmark": "0.2.0"}, "torchmark 0.1.0"),
        ({"torch": {"version": "2.14.0", "git": "abc"}}, "torch 2.13.0"),
        ({"torch": {"version": "2.13.0", "git": "def"}}, "torch's commit abc"),
        ({"python": "3.12.0"}, "Python 3.11.7"),
        ({"machine": {"cpu": "slow"}}, "the processor fast"),
    ],
)
def test_a_run_goes_on_where_it_began_and_nowhere_else(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    run = run_of(tmp_path)
    checked_to_go_on(run, ENVIRONMENT)
    with pytest.raises(InvalidArgumentError, match=named):
        checked_to_go_on(run, ENVIRONMENT | change)


def test_a_run_that_does_not_say_how_it_measured_cannot_go_on() -> None:
    with pytest.raises(InvalidArgumentError, match="start a new run"):
        effort_in(records.run_of(records.case("g", "a")))


def test_lanes_are_as_wide_as_the_plan_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr("torchmark.engine.cores._cores_of_quota", lambda _: None)
    with cores_for(run_of(tmp_path, threads=4)) as wide:
        assert wide.lane_width == 4
        with cores_for(run_of(tmp_path, threads=1)) as narrow:
            assert narrow.lane_width == 1
            assert not set(narrow.lanes[0]) & set(wide.lanes[0]), "two runs keep apart"
    with cores_for(run_of(tmp_path, threads=1)) as again:
        assert again.lanes[0] == wide.lanes[0][:1], "what was reserved is free again"


def test_languages_of_the_quick_part_are_both() -> None:
    quick = wanted_cases([STANDARD], Wanted(quick=True), NOTHING_KNOWN)
    assert {case.language for case in quick} == set(Language)
