"""What the store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import ab_records, records
from torchmark.errors import (
    AmbiguousRunError,
    InvalidArgumentError,
    StoreError,
    TorchmarkError,
    UnknownRunError,
)
from torchmark.model.result import Metric, PlannedResult, Result, Status
from torchmark.model.run import Environment, MachineSpeeds, Run, RunKind, RunState, RunSummary
from torchmark.store import Store, open_store
from torchmark.store.database import as_store_error, read_transaction

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
RUN = records.run_of(ADD, MUL, tags=("nightly",), settings={"quick": True})


@pytest.fixture
def run(store: Store) -> Run:
    store.create(RUN)
    return RUN


def test_a_new_store_has_no_runs(store: Store) -> None:
    assert store.runs() == []
    with pytest.raises(UnknownRunError, match="no runs yet"):
        store.run("latest")


def test_a_run_comes_back_as_it_was_created(store: Store, run: Run) -> None:
    assert store.run(run.id) == run
    assert store.run(run.id).results == ()


def test_results_come_back_as_they_were_in_the_order_they_came(store: Store, run: Run) -> None:
    kept = [
        records.time_result(MUL),
        records.count_result(ADD),
        records.failed_result(
            MUL, Metric.INSTRUCTIONS, stdout="nul \0 and \x1b[31mred", reason="é × µ"
        ),
        records.time_result(ADD),
    ]
    assert [store.add(run.id, result) for result in kept] == [True] * 4
    assert store.run(run.id).results == tuple(kept)


def test_another_process_would_see_all_of_it(place: str, store: Store, run: Run) -> None:
    store.add(run.id, records.time_result(ADD))
    store.finish(run.id, RunState.FINISHED)
    with open_store(place) as other:
        assert other.run(run.id) == replace(
            run, state=RunState.FINISHED, results=(records.time_result(ADD),)
        )


def test_a_finished_case_is_held_once(store: Store, run: Run) -> None:
    first = records.time_result(ADD)
    assert store.add(run.id, first)
    assert not store.add(run.id, records.time_result(ADD, 5e-6))
    assert not store.add(run.id, records.failed_result(ADD))
    assert store.run(run.id).results == (first,)


@pytest.mark.parametrize("status", [Status.FAILED, Status.SKIPPED])
def test_a_result_that_is_not_done_is_replaced(store: Store, run: Run, status: Status) -> None:
    assert store.add(run.id, replace(records.failed_result(ADD), status=status))
    assert store.add(run.id, records.failed_result(ADD, reason="again"))
    assert store.run(run.id).results == (records.failed_result(ADD, reason="again"),)
    assert store.add(run.id, records.time_result(ADD))
    assert store.run(run.id).results == (records.time_result(ADD),)


def test_several_threads_may_use_one_store(store: Store) -> None:
    cases = [records.case("many", str(number)) for number in range(60)]
    store.create(records.run_of(*cases, id="run"))
    with ThreadPoolExecutor(6) as pool:
        added = list(pool.map(lambda case: store.add("run", records.time_result(case)), cases))
    assert all(added)
    assert {result.case for result in store.run("run").results} == set(cases)


def test_a_run_id_is_given_once(store: Store, run: Run) -> None:
    with pytest.raises(StoreError, match="already"):
        store.create(run)


def test_the_list_of_runs_counts_outcomes(store: Store, run: Run) -> None:
    store.create(records.run_of(ADD, id="20261116-000000-ffffff", started="2026-11-16T00:00:00Z"))
    store.add(run.id, records.time_result(ADD))
    store.add(run.id, records.failed_result(MUL))
    store.add(run.id, replace(records.count_result(ADD), status=Status.SKIPPED, payload=None))
    store.add(run.id, ab_records.controlled(ADD))  # which nobody planned
    store.finish(run.id, RunState.INTERRUPTED)
    first, second = store.runs()
    assert first == RunSummary(
        id=run.id,
        kind=RunKind.RUN,
        started=run.started,
        state=RunState.INTERRUPTED,
        tags=("nightly",),
        planned=4,
        done=1,
        failed=1,
        skipped=1,
        partial=0,
        environments=run.environments,
        suite="Pointwise / add",
    )
    assert (second.done, second.planned, second.state) == (0, 2, RunState.RUNNING)


def test_a_run_answers_to_its_id_a_prefix_a_tag_and_latest(store: Store, run: Run) -> None:
    later = records.run_of(id="20261116-000000-ffffff", started="2026-11-16T00:00:00Z")
    store.create(later)
    store.tag(later.id, "main")
    names = {
        run.id: run.id,
        "20261115": run.id,
        "nightly": run.id,
        "main": later.id,
        "latest": later.id,
    }
    assert {name: store.run(name).id for name in names} == names
    assert {name: store.id_of(name) for name in names} == names


def test_a_name_that_several_runs_have_is_told_with_all_of_them(store: Store, run: Run) -> None:
    later = records.run_of(id="20261116-000000-ffffff")
    store.create(later)
    with pytest.raises(AmbiguousRunError, match=f"{run.id}.*{later.id}"):
        store.run("2026")


def test_a_tag_is_of_one_run_and_moves_to_the_next(
    store: Store, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    later = records.run_of(id="20261116-000000-ffffff", tags=("nightly",))
    store.create(later)
    assert store.run("nightly").id == later.id
    assert store.run(run.id).tags == ()
    assert f"moved the tag nightly from {run.id} to" in caplog.text
    caplog.clear()
    store.tag(later.id, "nightly")
    assert caplog.text == "", "the same again changes nothing"
    store.tag(run.id, "nightly")
    assert (store.run("nightly").id, store.run(later.id).tags) == (run.id, ())
    assert f"moved the tag nightly from {later.id} to" in caplog.text


def test_a_tag_can_be_taken_away(store: Store, run: Run) -> None:
    assert store.untag("nightly") == run.id
    assert store.run(run.id).tags == ()
    with pytest.raises(UnknownRunError, match="'nightly'"):
        store.untag("nightly")


def test_the_id_of_a_run_cannot_be_a_tag(store: Store, run: Run) -> None:
    other = records.run_of(id="20261116-000000-ffffff")
    store.create(other)
    with pytest.raises(InvalidArgumentError, match="is the id of a run"):
        store.tag(other.id, run.id)
    with pytest.raises(InvalidArgumentError, match="is the id of a run"):
        store.create(records.run_of(id="20261117-000000-ffffff", tags=(run.id,)))
    assert len(store.runs()) == 2


def test_a_store_that_is_only_read_takes_nothing(store: Store, run: Run, place: str) -> None:
    with open_store(place, read_only=True) as reading:
        assert reading.run("nightly").id == run.id
        with (
            pytest.raises(StoreError),
            as_store_error(place),
            read_transaction(reading._engine) as connection,
        ):
            connection.exec_driver_sql("DELETE FROM torchmark_tags")
    assert store.run(run.id).tags == ("nightly",)


@pytest.mark.parametrize("name", ["", "nothing", "9", "%", "2026_"])
def test_an_unknown_name_is_told_with_what_there_is(store: Store, run: Run, name: str) -> None:
    with pytest.raises(UnknownRunError, match=run.id):
        store.run(name)


def test_an_exact_tag_comes_before_the_beginning_of_an_id(store: Store, run: Run) -> None:
    tagged = records.run_of(id="20270101-000000-aaaaaa", tags=("2026",))
    store.create(tagged)
    assert store.run("2026").id == tagged.id


def test_tags_are_kept_once_and_in_order(store: Store, run: Run) -> None:
    for tag in ("b", "a", "b"):
        store.tag(run.id, tag)
    assert store.run(run.id).tags == ("nightly", "b", "a")


@pytest.mark.parametrize("tag", ["", "latest", "-x", "two words", "line\n", "nul\0"])
def test_a_tag_that_could_not_be_typed_is_refused(store: Store, run: Run, tag: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be a tag"):
        store.tag(run.id, tag)


def test_a_removed_run_is_gone_and_the_others_stay(store: Store, run: Run) -> None:
    other = records.run_of(ADD, id="20261116-000000-ffffff", tags=("nightly",))
    store.create(other)
    for run_id in (run.id, other.id):
        store.add(run_id, records.time_result(ADD))
    store.remove(run.id)
    assert [summary.id for summary in store.runs()] == [other.id]
    assert store.run(other.id).results == (records.time_result(ADD),)
    assert store.run("nightly").id == other.id


def test_a_run_that_is_not_there_is_told_by_every_method(store: Store) -> None:
    for call in (
        lambda: store.add("gone", records.time_result(ADD)),
        lambda: store.finish("gone", RunState.FINISHED),
        lambda: store.tag("gone", "x"),
        lambda: store.remove("gone"),
        lambda: store.update(records.run_of(id="gone")),
    ):
        with pytest.raises(UnknownRunError, match="gone"):
            call()


MANY = [ADD, MUL, records.case("c"), records.case("d")]
ENVIRONMENTS = [("",), ("A", "B"), ("A", "C"), ('A", "B',)]
keys = st.tuples(st.sampled_from(MANY), st.sampled_from(Metric), st.sampled_from(ENVIRONMENTS))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    added=st.lists(st.tuples(keys, st.sampled_from(Status), st.text(max_size=3)), max_size=12),
    number=st.integers(0, 10**9),
)
def test_whatever_is_added_the_first_that_is_done_or_else_the_last_is_held(
    store: Store, added: list[tuple[Any, Status, str]], number: int
) -> None:
    run_id = f"run-{number}"
    expected: dict[Any, Result] = {}
    store.create(records.run_of(*MANY, id=run_id))
    try:
        for (case, metric, environments), status, reason in added:
            result = replace(
                records.failed_result(case, metric, reason=reason),
                status=status,
                environments=environments,
            )
            held = expected.get(result.key)
            is_new = held is None or held.status is not Status.DONE
            if is_new:
                expected[result.key] = result
            assert store.add(run_id, result) is is_new
        results = store.run(run_id).results
        assert {each.key: each for each in results} == expected
        assert len(results) == len(expected)
    finally:
        store.remove(run_id)


def test_an_update_changes_the_record_and_nothing_else(store: Store, run: Run) -> None:
    store.add(run.id, records.time_result(ADD))
    store.tag(run.id, "kept")
    store.finish(run.id, RunState.INTERRUPTED)
    speeds = MachineSpeeds(small_call_seconds=1e-6, bytes_per_second={64: 1e9}, flops_per_second={})
    environments = (Environment(name="A"), Environment(name="B", facts={"git": {"commit": "f00"}}))
    changed = replace(run, notes=("slow",), speeds=speeds, environments=environments)
    store.update(replace(changed, tags=(), results=(), state=RunState.FINISHED))
    assert store.run(run.id) == replace(
        changed,
        state=RunState.INTERRUPTED,
        tags=("nightly", "kept"),
        results=(records.time_result(ADD),),
    )
    (summary,) = store.runs()
    assert summary.environments == environments


@pytest.mark.parametrize("kind", RunKind)
def test_every_kind_of_run_is_kept_and_listed(store: Store, kind: RunKind) -> None:
    paired = replace(records.time_result(ADD), environments=("A", "B"), other=MUL)
    plan = PlannedResult(case=ADD, metric=Metric.TIME, environments=("A", "B"), other=MUL)
    run = records.run_of(kind=kind, plan=(plan,))
    store.create(run)
    assert store.run(run.id).missing() == [plan]
    store.add(run.id, paired)
    assert store.run(run.id) == replace(run, results=(paired,))
    assert store.run(run.id).missing() == []
    assert [(each.kind, each.planned, each.done) for each in store.runs()] == [(kind, 1, 1)]


def test_a_run_may_be_created_with_its_results(store: Store) -> None:
    run = records.run_of(ADD, results=(records.time_result(ADD), records.failed_result(MUL)))
    store.create(run)
    assert store.run(run.id) == run


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(result=records.results, number=st.integers(0, 10**9))
def test_every_payload_comes_back_as_it_was(store: Store, result: Result, number: int) -> None:
    run_id = f"run-{number}"
    store.create(records.run_of(id=run_id))
    try:
        assert store.add(run_id, result)
        assert store.run(run_id).results == (result,)
    finally:
        store.remove(run_id)


@pytest.mark.parametrize(
    "place", ["mysql://host/x", "sqlite://", ":memory:", "", "postgresql://host:port/x"]
)
def test_a_place_that_cannot_be_a_store_is_wrong_usage(place: str) -> None:
    with pytest.raises(InvalidArgumentError):
        open_store(place)


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(TorchmarkError, match="server cannot be reached") as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/marks")
    assert "secret" not in str(caught.value)
