"""A run from its beginning to its end: every result stored before it is told, whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests import records
from torchmark.commands.spine import begin_run, carry_out, effort_of, find_run, reserve_cores
from torchmark.engine.files import own_run
from torchmark.engine.measuring import failed_result
from torchmark.errors import (
    InvalidArgumentError,
    RunInterruptedError,
    RunInUseError,
    StoreError,
)
from torchmark.model.result import Metric, PlannedResult, Result, Status
from torchmark.model.run import Effort, Environment, Run, RunKind, RunState
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from torchmark.store import Store

FACTS = {
    "torchmark": "0.1.0",
    "torch": {"version": "2.13.0", "git": "abc"},
    "python": "3.11.7",
    "machine": {"cpu": "fast"},
}
CASES = [records.case("g", name) for name in "abcd"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "marks.db") as opened:
        yield opened


def begin(store: Store, **options: Any) -> Run:
    return begin_run(
        store,
        RunKind.RUN,
        [PlannedResult(case=case, metric=Metric.TIME) for case in CASES],
        environments=[Environment(facts=FACTS)],
        settings={"suites": ["g"]},
        effort=Effort(repeats=2, timeout=7.0),
        **options,
    )


def measure_all(run: Run) -> Generator[Result, None, None]:
    for planned in run.missing():
        yield records.time_result(planned.case, 1e-6)


def test_a_result_is_in_the_store_before_anybody_hears_of_it(store: Store) -> None:
    run = begin(store)
    heard: list[int] = []

    def listen(news: object) -> None:
        if isinstance(news, Result):
            heard.append(len(store.run(run.id).results))

    done = carry_out(run, store, measure_all, listen)
    assert heard == [1, 2, 3, 4]
    assert done.state is RunState.FINISHED
    assert [result.case for result in done.results] == CASES


def test_an_interrupt_leaves_what_there_is_and_names_the_run(store: Store) -> None:
    run = begin(store)

    def interrupted(run: Run) -> Generator[Result, None, None]:
        yield from list(measure_all(run))[:2]
        raise KeyboardInterrupt

    with pytest.raises(RunInterruptedError) as raised:
        carry_out(run, store, interrupted)
    assert raised.value.run_id == run.id
    cut_short = find_run(store, run.id, RunKind.RUN)
    assert cut_short.state is RunState.INTERRUPTED
    assert [planned.case for planned in cut_short.missing()] == CASES[2:]
    assert len(carry_out(cut_short, store, measure_all).results) == 4


def test_an_error_names_the_run_that_it_cut_short(store: Store) -> None:
    run = begin(store)

    def full(_run: Run) -> Generator[Result, None, None]:
        yield records.time_result(CASES[0], 1e-6)
        raise StoreError("the disk is full")

    with pytest.raises(StoreError) as raised:
        carry_out(run, store, full)
    assert raised.value.run_id == run.id
    assert store.run(run.id).state is RunState.INTERRUPTED


def test_what_becomes_known_of_a_run_is_kept(store: Store) -> None:
    run = begin(store)

    def tell(run: Run) -> Generator[Run | Result, None, None]:
        yield msgspec.structs.replace(run, notes=("the same installation",))
        yield from measure_all(run)

    done = carry_out(run, store, tell)
    assert done.notes == ("the same installation",)
    assert len(done.results) == 4


def test_what_is_done_or_left_out_is_not_measured_again_and_failures_are(store: Store) -> None:
    run = begin(store)
    for result in (
        records.time_result(CASES[0], 1e-6),
        PlannedResult(case=CASES[1], metric=Metric.TIME).finish(Status.SKIPPED, reason="old"),
        failed_result(CASES[2], Metric.TIME, InvalidArgumentError("no")),
    ):
        store.add(run.id, result)
    assert [planned.case for planned in store.run(run.id).missing()] == CASES[2:]


def test_a_run_keeps_how_much_it_does_and_its_tags(store: Store) -> None:
    run = store.run(begin(store, tags=("t",)).id)
    assert effort_of(run) == Effort(repeats=2, timeout=7.0)
    assert run.tags == ("t",)


def test_a_run_that_does_not_say_how_it_measured_cannot_be_resumed() -> None:
    with pytest.raises(InvalidArgumentError, match="start a new run"):
        effort_of(records.run_of(records.case("g", "a")))


def test_a_run_is_resumed_by_the_command_that_made_it(store: Store) -> None:
    run = begin(store)
    with pytest.raises(InvalidArgumentError, match=f"torchmark run --resume {run.id}"):
        find_run(store, run.id, RunKind.AB)


def test_nobody_takes_up_a_run_that_is_being_measured(store: Store) -> None:
    run = begin(store)
    with own_run(run.id), pytest.raises(RunInUseError, match="is being measured"):
        find_run(store, run.id, RunKind.RUN)


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
    store: Store, change: dict[str, Any], named: str
) -> None:
    run = begin(store)
    run.check_same_environments((Environment(facts=FACTS),))
    with pytest.raises(InvalidArgumentError, match=named):
        run.check_same_environments((Environment(facts=FACTS | change),))


def test_lanes_are_as_wide_as_asked_and_two_runs_keep_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    monkeypatch.setattr("torchmark.engine.cores._cores_of_quota", lambda _: None)
    with reserve_cores(4) as wide:
        assert wide.lane_width == 4
        with reserve_cores(1) as narrow:
            assert narrow.lane_width == 1
            assert not set(narrow.lanes[0]) & set(wide.lanes[0]), "two runs keep apart"
    with reserve_cores(1) as again:
        assert again.lanes[0] == wide.lanes[0][:1], "what was reserved is free again"


@pytest.mark.parametrize("kind", [RunKind.TIME, RunKind.COUNT])
def test_who_resumes_a_run_of_statements_is_not_sent_to_an_option_that_there_is_not(
    store: Store, kind: RunKind
) -> None:
    run = records.run_of(records.case(), kind=kind)
    store.create(run)
    with pytest.raises(InvalidArgumentError) as refused:
        find_run(store, run.id, RunKind.RUN)
    assert str(refused.value) == (
        f"{run.id} is a run of `torchmark {kind.value}`, which cannot be resumed; "
        "run the command again"
    )
