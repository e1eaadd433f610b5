"""Series are read from the columns of a store, in the order of the commits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from tests import records
from torchmark.model.result import Facts, Metric, Result, Status
from torchmark.model.run import Environment, Run
from torchmark.model.series import Quantity, Series, choose_origins
from torchmark.store import Store, schema
from torchmark.store.database import write_transaction

ADD, MUL = records.case("add"), records.case("mul")
MACHINE = {"cpu": "Fast One", "cores": 2, "system": "Linux 6.1 x86_64"}


def run_on(day: int, *results: Result, machine: Any = MACHINE, **git: Any) -> Run:
    """A run that started on a day of November, with what its commit is."""
    facts = {"machine": machine, "git": git} if git else {"machine": machine}
    return records.run_of(
        *(each.case for each in results),
        id=f"202611{day:02}-120000-000000",
        started=f"2026-11-{day:02}T12:00:00+00:00",
        environments=(Environment(facts=facts),),
        results=results,
    )


def only(found: list[Series]) -> Series:
    (series,) = found
    return series


def test_a_series_has_a_point_for_each_run_in_the_order_of_time(store: Store) -> None:
    for day, seconds in ((3, 3e-6), (1, 1e-6), (2, 2e-6)):
        store.create(run_on(day, records.time_result(ADD, seconds)))
    series = only(store.series())
    assert (series.case, series.quantity) == (ADD, Quantity.TIME)
    assert series.machine == "Fast One, 2 cores, x86_64"
    assert series.values == pytest.approx((1e-6, 2e-6, 3e-6))
    assert [point.origin.run[:8] for point in series.points] == ["20261101", "20261102", "20261103"]
    for point in series.points:
        assert point.low is not None
        assert point.high is not None
        assert point.low <= point.value <= point.high


def test_a_commit_measured_late_is_placed_at_its_own_date(store: Store) -> None:
    new = {"commit": "b", "committed": "2026-10-02T00:00:00+00:00"}
    old = {"commit": "a", "committed": "2026-10-01T00:00:00+00:00"}
    store.create(run_on(1, records.time_result(ADD, 2e-6), **new))
    store.create(run_on(2, records.time_result(ADD, 1e-6), **old))
    assert [point.origin.commit for point in only(store.series()).points] == ["a", "b"]


def test_commits_with_one_date_keep_the_order_of_their_runs(store: Store) -> None:
    same = "2026-10-01T00:00:00+00:00"
    for day, commit in ((2, "second"), (1, "first")):
        store.create(run_on(day, records.time_result(ADD), commit=commit, committed=same))
    assert [each.commit for each in store.origins()] == ["first", "second"]


def commits(store: Store) -> list[str | None]:
    return [each.commit for each in store.origins()]


def test_dates_of_commits_with_other_offsets_are_in_order(store: Store) -> None:
    dates = {
        "second": "2026-10-01T22:00:00Z",
        "third": "2026-10-01T18:30:00-04:00",
        "first": "2026-10-01T23:30:00.5+02:00",
    }
    for day, (commit, date) in enumerate(dates.items(), 1):
        store.create(run_on(day, records.time_result(ADD), commit=commit, committed=date))
    assert commits(store) == ["first", "second", "third"]
    assert store.origins()[0].when == "2026-10-01T21:30:00.500000+00:00"
    since = choose_origins(store.origins(), since="2026-10-02T00:15:00+02:00")
    assert [each.commit for each in since] == ["third"]


@pytest.mark.parametrize("date", ["yesterday", "", "0001-01-01T00:00:00+09:00", 7, {"a": "b"}])
def test_a_commit_without_a_readable_date_is_placed_by_its_run(store: Store, date: Any) -> None:
    store.create(run_on(2, records.time_result(ADD), commit="b", committed=date))
    for day in (1, 3):
        store.create(run_on(day, records.time_result(ADD), commit="a"))
    assert commits(store) == ["a", "b", "a"]


def test_a_clock_that_was_wrong_does_not_move_a_commit(store: Store) -> None:
    """The second run began, by its clock, before its commit was made."""
    for day, start in ((1, "2026-11-01T12:00:00Z"), (2, "1970-01-01T00:00:00Z")):
        run = run_on(day, records.time_result(ADD), commit=str(day), committed=f"2026-10-0{day}")
        store.create(msgspec.structs.replace(run, started=start))
    assert commits(store) == ["1", "2"]


def test_versions_of_torch_within_a_commit_are_in_their_order(store: Store) -> None:
    git = {"commit": "a", "committed": "2026-10-01T00:00:00Z"}
    for day, version in ((1, "2.13.0+cpu"), (2, "1.13.1"), (3, None), (4, "2.9.1"), (5, "2.9.1")):
        run = run_on(day, records.time_result(ADD), **git)
        facts = {**run.environment.facts, "torch": {"version": version}}
        store.create(msgspec.structs.replace(run, environments=(Environment(facts=facts),)))
    versions = [(each.torch, each.run[6:8]) for each in store.origins()]
    assert versions == [
        (None, "03"), ("1.13.1", "02"), ("2.9.1", "04"), ("2.9.1", "05"), ("2.13.0+cpu", "01"),
    ]  # fmt: skip


def test_times_counts_and_memory_are_series_of_their_own(store: Store) -> None:
    timed = msgspec.structs.replace(records.time_result(ADD), facts=Facts(peak_memory_bytes=4096))
    store.create(run_on(1, timed, records.count_result(ADD, 123_400)))
    found = {each.quantity: each.values for each in store.series()}
    assert found[Quantity.INSTRUCTIONS] == (1234.0,)
    assert found[Quantity.MEMORY] == (4096.0,)
    assert set(found) == set(Quantity)
    assert only(store.series(quantities=[Quantity.MEMORY])).quantity is Quantity.MEMORY


def test_classes_of_machines_are_never_mixed(store: Store) -> None:
    other = {**MACHINE, "cpu": "Slow One"}
    store.create(run_on(1, records.time_result(ADD)))
    store.create(run_on(2, records.time_result(ADD), machine=other))
    store.create(run_on(3, records.time_result(ADD), machine={**MACHINE, "host": "another"}))
    assert sorted(len(each.points) for each in store.series()) == [1, 2]


def test_series_can_be_chosen_by_case_branch_date_and_number_of_runs(store: Store) -> None:
    for day, branch in ((1, "main"), (2, "main"), (3, "topic")):
        results = (records.time_result(ADD, day * 1e-6), records.time_result(MUL))
        store.create(run_on(day, *results, branch=branch))

    def days(**chosen: Any) -> list[str]:
        origins = choose_origins(store.origins(), **chosen)
        found = only(store.series([ADD.id], origins=origins))
        return [point.origin.run[6:8] for point in found.points]

    assert days() == ["01", "02", "03"]
    assert days(branch="main") == ["01", "02"]
    assert days(since="2026-11-02") == ["02", "03"]
    assert days(newest=1) == ["03"]
    assert days(machine="Fast One, 2 cores, x86_64", newest=9) == ["01", "02", "03"]
    assert store.series(["no such case"]) == []


def test_results_without_figures_are_not_points(store: Store) -> None:
    partial = msgspec.structs.replace(records.time_result(ADD), status=Status.PARTIAL)
    store.create(run_on(1, records.failed_result(MUL), partial))
    assert store.series() == []
    assert store.cases() == {}


def test_a_case_is_read_back_whole(store: Store) -> None:
    odd = records.case("<b>bold</b>", "\x1b[31mred\0", num_threads=3, params=(("n", "8"),))
    store.create(run_on(1, records.time_result(odd)))
    assert store.cases() == {odd.id: odd}


def test_more_runs_than_a_query_may_name_are_read(store: Store) -> None:
    for number in range(450):
        run = run_on(1, records.time_result(ADD))
        store.create(msgspec.structs.replace(run, id=f"20261101-120000-{number:06}"))
    assert len(only(store.series()).points) == 450


def damage(store: Store, change: str, **values: Any) -> None:
    with write_transaction(store._engine) as connection:
        connection.execute(text(change), values)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("environments", "x"),
        ("environments", '[{"facts": {"a": ' + "[" * 5_000),
        ("environments", '[{"facts": []}]'),
        ("kind", "party"),
        ("started", "yesterday"),
    ],
)
def test_a_damaged_row_costs_only_its_run_and_is_told(
    store: Store, column: str, value: str
) -> None:
    for day in (1, 2):
        store.create(run_on(day, records.time_result(ADD)))
    change = f"UPDATE torchmark_runs SET {column} = :value WHERE id LIKE '20261101%'"
    damage(store, change, value=value)
    assert len(only(store.series()).points) == 1
    assert len(store.origins()) == 1
    (told,) = store.damage
    assert "20261101-120000-000000" in told
    assert "torchmark rm 20261101-120000-000000" in told


@pytest.mark.parametrize("column", ["value", "low", "high", "memory"])
@pytest.mark.parametrize("figure", ["NaN", "Infinity", "-Infinity", "-1", "1e31"])
def test_figures_that_are_no_numbers_are_told(store: Store, column: str, figure: str) -> None:
    """SQLite stores NaN and infinity as text; PostgreSQL as numbers."""
    for day in (1, 2):
        store.create(run_on(day, records.time_result(ADD), records.count_result(ADD)))
    damage(
        store,
        f"UPDATE torchmark_results SET {column} = '{figure}' "
        "WHERE run_id LIKE '20261102%' AND metric = 'time'",
    )
    found = {each.quantity: len(each.points) for each in store.series([ADD.id])}
    assert found == {Quantity.TIME: 1, Quantity.INSTRUCTIONS: 2}
    (told,) = store.damage
    assert told.startswith(f"the time of case {ADD.id!r} in run 20261102-120000-000000 is not in")
    assert len(store.run("20261102").results) == 2


def test_a_removed_run_leaves_its_series(store: Store) -> None:
    first, second = (run_on(day, records.time_result(ADD)) for day in (1, 2))
    for each in (first, second):
        store.create(each)
    store.remove(first.id)
    assert [point.origin.run for point in only(store.series()).points] == [second.id]


def test_a_result_measured_again_has_its_new_figure(store: Store) -> None:
    store.create(run_on(1, records.failed_result(ADD)))
    store.add("20261101-120000-000000", records.time_result(ADD, 5e-6))
    assert only(store.series()).values == pytest.approx((5e-6,))


@pytest.mark.parametrize("record", ["{", "[]", '{"label":["mul"],"stmt":"x"}', "[" * 5_000])
def test_a_case_without_a_readable_record_is_told_until_it_is_measured_again(
    store: Store, record: str
) -> None:
    store.create(run_on(1, records.time_result(ADD), records.time_result(MUL)))
    damage(
        store,
        "UPDATE torchmark_cases SET record = :record WHERE id = :id",
        record=record,
        id=ADD.id,
    )
    assert only(store.series()).case == MUL
    assert [*store.cases()] == [MUL.id]
    (told,) = store.damage
    assert told.startswith(f"case {ADD.id!r} is not in the history")
    store.create(run_on(2, records.time_result(ADD)))
    assert len(only(store.series([ADD.id])).points) == 2


def test_a_damaged_result_is_told_when_it_is_read(store: Store) -> None:
    store.create(run := run_on(1, records.time_result(ADD)))
    assert store.result(run.id, ADD.id, Metric.TIME) == records.time_result(ADD)
    assert store.result(run.id, ADD.id, Metric.INSTRUCTIONS) is None
    assert store.damage == []
    with write_transaction(store._engine) as connection:
        connection.execute(schema.results.update().values(record=b"x"))
    assert store.result(run.id, ADD.id, Metric.TIME) is None
    assert f"the time of case {ADD.id} in run {run.id}" in store.damage[0]


def test_a_time_is_never_zero_but_a_count_may_be(store: Store) -> None:
    store.create(run_on(1, records.time_result(ADD), records.count_result(ADD)))
    damage(store, "UPDATE torchmark_results SET value = 0")
    assert only(store.series()).values == (0.0,)
    assert only(store.series()).quantity is Quantity.INSTRUCTIONS
    assert store.damage[0].startswith(f"the time of case {ADD.id!r}")
