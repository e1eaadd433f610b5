"""Stores of torchmark 0.1 open, every figure is what it was, and nothing is lost on the way.

`tests/data/version_1` has what 0.1 wrote; `make.sh` there makes it again.
"""

from __future__ import annotations

import csv
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import (
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
    event,
    insert,
    text,
)

import torchmark
from tests import records
from torchmark.analyse.estimates import instructions_of
from torchmark.errors import DamagedStoreError, StoreUnavailableError
from torchmark.model.result import Counts, Metric, Result, TimeSummary
from torchmark.model.run import RunKind, RunState
from torchmark.store import Store, open_store, schema
from torchmark.store.database import make_engine, read_transaction, url_of, write_transaction
from torchmark_probe.loops.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Engine

GOLDEN = Path(__file__).parent.parent / "data" / "version_1"
TAGS = ("finished", "interrupted", "sweep", "from-csv")
METRICS = {"time": Metric.TIME, "count": Metric.INSTRUCTIONS}


@pytest.fixture
def old(sqlite_path: Path) -> Path:
    """A store of 0.1."""
    shutil.copy(GOLDEN / "store.sqlite3", sqlite_path)
    return sqlite_path


@pytest.fixture
def old_place(place: str, tmp_path: Path) -> str:
    """A store of 0.1 in SQLite or in PostgreSQL."""
    if "://" not in place:
        shutil.copy(GOLDEN / "store.sqlite3", place)
        return place
    engine = make_engine(url_of(place))
    make_tables_of_version_1(engine)
    rows = rows_of(GOLDEN / "store.sqlite3", tmp_path)
    tables = MetaData()
    tables.reflect(engine)
    with write_transaction(engine) as connection:
        for name in ("torchmark_runs", "torchmark_tags", "torchmark_results"):
            # The database numbers the rows, as it did when 0.1 wrote them.
            given = [{key: row[key] for key in row if key != "place"} for row in rows[name]]
            connection.execute(insert(tables.tables[name]), given)
    engine.dispose()
    return place


def make_tables_of_version_1(engine: Engine) -> None:
    with (
        write_transaction(engine) as connection,
        Operations.context(MigrationContext.configure(connection)),
    ):
        create_tables_of_version_1()


def create_tables_of_version_1() -> None:
    op.create_table(
        "torchmark_version", Column("version", Integer, nullable=False, primary_key=True)
    )
    op.create_table(
        "torchmark_runs",
        Column("id", Text, primary_key=True),
        Column("started", Text, nullable=False),
        Column("state", Text, nullable=False),
        Column("planned", Integer, nullable=False),
        Column("environment", Text, nullable=False),
        Column("record", LargeBinary, nullable=False),
    )
    op.create_table(
        "torchmark_tags",
        Column("place", Integer, primary_key=True),
        Column("run_id", Text, ForeignKey("torchmark_runs.id"), nullable=False),
        Column("tag", Text, nullable=False),
        UniqueConstraint("run_id", "tag"),
    )
    op.create_table(
        "torchmark_results",
        Column("place", Integer, primary_key=True),
        Column("run_id", Text, ForeignKey("torchmark_runs.id"), nullable=False),
        Column("case_id", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("outcome", Text, nullable=False),
        Column("record", LargeBinary, nullable=False),
        UniqueConstraint("run_id", "case_id", "kind"),
    )
    op.execute(text("INSERT INTO torchmark_version VALUES (1)"))


def rows_of(path: Path, tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables, read from a copy: SQLite leaves files beside what it reads."""
    connection = sqlite3.connect(shutil.copy(path, tmp_path / "read.db"))
    connection.row_factory = sqlite3.Row
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'"
        )
    ]
    rows = {
        name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in tables
    }
    connection.close()
    return rows


@pytest.fixture
def converted(old_place: str) -> Iterator[Store]:
    with open_store(old_place) as store:
        yield store


def golden_rows(name: str) -> list[dict[str, str]]:
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def figures_of(result: Result) -> dict[str, Any]:
    """What 0.1 exported of a result: its interval was that of the samples alone."""
    measurement, payload = result.measurement, result.payload
    figures: dict[str, Any] = {}
    if measurement is not None:
        low, high = median_interval(measurement.times)
        figures = {
            "median": measurement.median,
            "interval_low": low,
            "interval_high": high,
            "iqr": measurement.iqr,
            "samples": len(measurement.raw_times),
        }
    if isinstance(payload, Counts):
        figures["instructions_per_run"] = float(instructions_of(payload))
        figures["counted_runs"] = payload.runs
    return {
        "case": result.case.id,
        "label": " / ".join(result.case.label),
        "language": result.case.language.name.lower(),
        "runtime": result.case.runtime.value,
        "autograd": result.case.autograd.value,
        "num_threads": result.case.num_threads,
        "params": " ".join(f"{name}={value}" for name, value in result.case.params),
        "outcome": result.status.value,
        "seconds": result.seconds,
        "finished": result.finished,
        "reason": result.reason.partition("\n")[0],
        **figures,
    }


@pytest.mark.parametrize("tag", TAGS)
def test_every_figure_is_what_0_1_exported(converted: Store, tag: str) -> None:
    run = converted.run(tag)
    results = {(each.case.id, each.metric): each for each in run.results}
    rows = golden_rows(tag)
    assert len(rows) == len(run.results) > 0
    for row in rows:
        assert row["run"] == run.id
        result = results[row["case"], METRICS[row["kind"]]]
        figures = figures_of(result)
        assert {name: row[name] for name in figures} == {
            name: str(value) for name, value in figures.items()
        }
        if run.kind is not RunKind.SWEEP:
            prepared = result.facts.prepare_seconds
            assert row["compile_seconds"] == ("" if prepared is None else str(prepared))


@pytest.mark.parametrize("tag", ["finished", "interrupted", "sweep"])
def test_intervals_of_today_hold_those_that_0_1_exported(converted: Store, tag: str) -> None:
    rows = {(row["case"], METRICS[row["kind"]]): row for row in golden_rows(tag)}
    measured = [
        (each.measurement, rows[each.case.id, each.metric])
        for each in converted.run(tag).results
        if each.measurement is not None
    ]
    assert measured
    for measurement, row in measured:
        low, high = float(row["interval_low"]), float(row["interval_high"])
        assert measurement.median_interval.low <= low < high <= measurement.median_interval.high


@pytest.mark.parametrize("tag", ["sweep", "from-csv"])
def test_every_fact_of_a_sweep_is_what_its_csv_had(converted: Store, tag: str) -> None:
    results = {each.case.id: each for each in converted.run(tag).results}
    rows = golden_rows("linear")
    assert len(rows) == len(results)
    for row in rows:
        facts = results[row["case_id"]].facts
        found = {
            "flops": facts.flops,
            "bytes": facts.bytes,
            "peak_memory_bytes": facts.peak_memory_bytes,
            "max_error": facts.max_error,
            "prepare_s": facts.prepare_seconds,
        }
        assert {name: row[name] for name in found} == {
            name: "" if value is None else str(value) for name, value in found.items()
        }


def test_a_row_that_had_no_samples_keeps_its_statistics(converted: Store) -> None:
    results = {each.case.id: each for each in converted.run("from-csv").results}
    for row in golden_rows("linear"):
        if row["status"] != "measured":
            continue
        payload = results[row["case_id"]].payload
        assert isinstance(payload, TimeSummary)
        found = {
            "samples": payload.samples,
            "median_s": payload.median,
            "low_s": payload.low,
            "high_s": payload.high,
            "mean_s": payload.mean,
            "min_s": payload.least,
            "p95_s": payload.p95,
            "std_s": payload.deviation,
        }
        assert {name: row[name] for name in found} == {n: str(v) for n, v in found.items()}


def test_runs_are_listed_with_kind_state_tags_and_environment(converted: Store) -> None:
    runs = converted.runs()
    assert [(run.kind, run.state, run.tags) for run in runs] == [
        (RunKind.RUN, RunState.FINISHED, ("finished", "other")),
        (RunKind.RUN, RunState.INTERRUPTED, ("interrupted",)),
        (RunKind.SWEEP, RunState.FINISHED, ("sweep",)),
        (RunKind.SWEEP, RunState.FINISHED, ("from-csv",)),
    ]
    assert [(run.planned, run.done, run.failed, run.skipped) for run in runs] == [
        (12, 7, 2, 3), (2, 1, 0, 0), (4, 3, 0, 1), (4, 3, 0, 1)
    ]  # fmt: skip
    for run in runs:
        (environment,) = run.environments
        assert environment.fact("torch", "version") == "2.13.0+cpu"
        assert converted.run(run.id).environments == run.environments
    # What a sweep finds its run by: the file, and the id of the environment.
    sweep = converted.run("sweep")
    assert sweep.settings["csv"].endswith("linear.csv")
    assert sweep.environment.id == golden_rows("linear")[0]["environment"]


def test_a_run_that_was_cut_short_can_be_resumed(converted: Store) -> None:
    run = converted.run("interrupted")
    (missing,) = run.missing()
    assert missing.case.label == ("Pointwise", "mul")
    assert missing.metric is Metric.TIME
    result = Result(
        case=missing.case, metric=missing.metric, status=run.results[0].status, finished="now"
    )
    assert converted.add(run.id, result)
    assert not converted.add(run.id, run.results[0]), "what was there is there still"
    assert converted.run(run.id).missing() == []
    failed = converted.run("finished").missing()
    assert {each.case.label[-1] for each in failed} == {"wrong"}


def test_what_a_case_printed_and_every_process_are_there(converted: Store) -> None:
    for result in converted.run("finished").results:
        if result.case.label[-1] == "add":
            assert result.stdout == "ready\n"
        if result.measurement is not None:
            assert len(result.measurement.replicates) == 2


def test_tables_are_those_of_a_new_store(old_place: str) -> None:
    with open_store(old_place) as store, read_transaction(store._engine) as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, schema.metadata) == []
        version = connection.exec_driver_sql("SELECT version FROM torchmark_version").scalars()
        assert version.all() == [schema.VERSION], "this is what torchmark 0.1 looks at, and refuses"


def test_the_tables_of_version_1_are_what_0_1_made(sqlite_path: Path, tmp_path: Path) -> None:
    engine = make_engine(url_of(sqlite_path))
    make_tables_of_version_1(engine)
    engine.dispose()
    assert statements_of(sqlite_path) == statements_of(
        Path(shutil.copy(GOLDEN / "store.sqlite3", tmp_path / "golden.db"))
    )


def statements_of(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    statements = [" ".join(sql.split()) for (sql,) in found]
    connection.close()
    return statements


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("SELECT version FROM torchmark_version").fetchone()
    connection.close()
    return int(version)


def test_a_copy_of_the_old_store_is_put_beside_it(
    old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old.chmod(0o600)
    open_store(old).close()
    copy = old.with_name("store.db.version-1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [old.name, copy.name]
    assert str(copy) in caplog.text
    assert copy.stat().st_mode & 0o777 == 0o600
    assert rows_of(copy, tmp_path) == rows_of(GOLDEN / "store.sqlite3", tmp_path)
    with open_store(old) as store, open_store(copy) as again:
        assert store.run("finished") == again.run("finished")


def test_the_copy_has_what_was_still_in_the_write_ahead_log(old: Path, tmp_path: Path) -> None:
    writer = sqlite3.connect(old, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE torchmark_tags SET tag = 'changed' WHERE tag = 'other'")
    assert old.with_name("store.db-wal").stat().st_size > 0
    with open_store(old) as store:
        assert store.run("changed").tags == ("finished", "changed")
    writer.close()
    tags = rows_of(old.with_name("store.db.version-1"), tmp_path)["torchmark_tags"]
    assert "changed" in {row["tag"] for row in tags}


def test_an_earlier_copy_is_never_overwritten(old: Path) -> None:
    precious = old.with_name("store.db.version-1")
    precious.write_text("precious")
    open_store(old).close()
    assert precious.read_text() == "precious"
    assert version_of(old.with_name("store.db.version-1.2")) == 1


def test_a_current_store_is_not_copied_again(old: Path, tmp_path: Path) -> None:
    for _ in range(2):
        open_store(old).close()
    assert len(list(tmp_path.glob("*version-1*"))) == 1


def test_without_a_copy_nothing_is_converted(old: Path) -> None:
    old.with_name("store.db.copying").mkdir()
    with pytest.raises(StoreUnavailableError, match=r"cannot be copied first.*make room"):
        open_store(old)
    assert version_of(old) == 1


@pytest.mark.parametrize("more_pages", [0, 20, 60])
def test_a_disk_that_is_full_half_way_leaves_the_old_store(
    old: Path, tmp_path: Path, more_pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(old, tmp_path)
    pages = old.stat().st_size // 4096 + more_pages

    def make_small_engine(*args: Any, **kwargs: Any) -> Engine:
        engine = make_engine(*args, **kwargs)
        limit = f"PRAGMA max_page_count = {pages}"
        event.listen(engine, "connect", lambda raw, _: raw.execute(limit))
        return engine

    monkeypatch.setattr(schema, "make_engine", make_small_engine)
    with pytest.raises(StoreUnavailableError, match="disk is full"):
        open_store(old)
    assert rows_of(old, tmp_path) == before
    assert not list(tmp_path.glob("*version-1*")), "a copy of what did not change is of no use"
    monkeypatch.undo()
    with open_store(old) as store:
        assert len(store.runs()) == 4


def test_a_failure_half_way_leaves_the_old_store(
    old_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In PostgreSQL too, where there is no copy."""
    monkeypatch.setattr(
        "torchmark.store.migrations.counts_of_stats", lambda _: pytest.fail("out of luck")
    )
    with pytest.raises(pytest.fail.Exception, match="out of luck"):
        open_store(old_place)
    monkeypatch.undo()
    with open_store(old_place) as store:
        assert len(store.run("finished").results) == 12


OPEN = """
import sys
from torchmark.store import open_store
with open_store(sys.argv[1]) as store:
    print(len(store.runs()), sum(len(store.run(run.id).results) for run in store.runs()))
"""


def opening(place: str) -> subprocess.Popen[str]:
    site = str(Path(torchmark.__file__).resolve().parent.parent)
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": site},
    )


def test_of_several_processes_one_converts_and_the_others_wait(
    old_place: str, tmp_path: Path
) -> None:
    processes = [opening(old_place) for _ in range(4)]
    for process, (said, complaints) in [(each, each.communicate()) for each in processes]:
        assert process.returncode == 0, complaints
        assert said == "4 21\n"
    if "://" not in old_place:
        assert len(list(tmp_path.glob("*version-1*"))) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_process_that_is_killed_while_it_converts_leaves_a_store_that_opens(
    old: Path, tmp_path: Path, seed: int
) -> None:
    process = opening(str(old))
    while not list(tmp_path.glob("*.copying*")) and process.poll() is None:
        pass
    for _ in range(random.Random(seed).randrange(4_000_000)):
        pass
    process.kill()
    process.communicate()
    with open_store(old) as store:
        assert sum(len(store.run(run.id).results) for run in store.runs()) == 21
    for copy in tmp_path.glob("*version-1*"):
        assert version_of(copy) == 1


@pytest.mark.parametrize("record", [b"", b"no zlib", zlib.compress(b"{}")])
@pytest.mark.parametrize("table", ["runs", "results"])
def test_a_damaged_record_costs_itself_alone(old: Path, table: str, record: bytes) -> None:
    connection = sqlite3.connect(old)
    key = "id" if table == "runs" else "run_id"
    tagged = "SELECT run_id FROM torchmark_tags WHERE tag = 'finished'"
    with connection:
        connection.execute(
            f"UPDATE torchmark_{table} SET record = ? WHERE {key} IN ({tagged})", (record,)
        )
    connection.close()
    with open_store(old) as store:
        assert len(store.runs()) == 4
        assert len(store.run("interrupted").results) == 1
        if table == "runs":
            with pytest.raises(DamagedStoreError, match="torchmark rm"):
                store.run("finished")
        else:
            assert len(store.run("finished").results) == len(store.damage) > 1
        store.remove(store.id_of("finished"))
        assert len(store.runs()) == 3


def test_a_current_store_opens_without_alembic(old: Path) -> None:
    look = "import sys; print(sorted({'alembic', 'mako', 'torch'} & set(sys.modules)))"
    loaded = []
    for _ in range(2):
        process = subprocess.run(
            [sys.executable, "-c", f"{OPEN}{look}", str(old)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(Path(torchmark.__file__).resolve().parent.parent)},
        )
        loaded.append(process.stdout.splitlines()[-1])
    assert loaded == ["['alembic', 'mako']", "[]"]


def test_a_new_store_is_made_without_alembic(sqlite_path: Path) -> None:
    look = "import sys; print(sorted({'alembic', 'mako', 'torch'} & set(sys.modules)))"
    process = subprocess.run(
        [sys.executable, "-c", f"{OPEN}{look}", str(sqlite_path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(torchmark.__file__).resolve().parent.parent)},
    )
    assert process.stdout.splitlines() == ["0 0", "[]"]


def make_version_3(store: Store) -> None:
    """Take away what version 4 added."""
    with write_transaction(store._engine) as connection:
        for name in ("of_case", "of_run"):
            connection.exec_driver_sql(f"DROP INDEX torchmark_results_{name}")
        for name in ("value", "low", "high", "memory"):
            connection.exec_driver_sql(f"ALTER TABLE torchmark_results DROP COLUMN {name}")
        connection.exec_driver_sql("DROP TABLE torchmark_cases")
        connection.exec_driver_sql("UPDATE torchmark_version SET version = 3")


def test_results_of_version_3_become_a_history(place: str) -> None:
    timed, counted = records.case("timed"), records.case("counted")
    results = records.time_result(timed, 2e-6), records.count_result(counted, 123_400)
    with open_store(place) as store:
        store.create(
            records.run_of(timed, counted, results=(*results, records.failed_result(counted)))
        )
        before = store.series()
        make_version_3(store)
    with open_store(place) as store:
        assert store.series() == before
        assert store.cases() == {timed.id: timed, counted.id: counted}


def test_a_damaged_result_of_version_3_only_has_no_figures(place: str) -> None:
    damaged, whole = records.case("damaged"), records.case("whole")
    results = records.time_result(damaged), records.time_result(whole)
    with open_store(place) as store:
        store.create(records.run_of(damaged, whole, results=results))
        with write_transaction(store._engine) as connection:
            table = schema.results
            broken = table.update().where(table.c.case_id == damaged.id).values(record=b"x")
            connection.execute(broken)
        make_version_3(store)
    with open_store(place) as store:
        assert [series.case for series in store.series()] == [whole]
        assert (
            store.run("latest").results[0].reason.startswith("its record in the store is damaged")
        )


def test_a_tag_of_several_runs_stays_with_the_newest(place: str) -> None:
    """As stores of version 2 could have it."""
    ids = [f"2026111{day}-000000-aaaaaa" for day in (5, 7, 6)]
    with open_store(place) as store:
        for run_id in ids:
            started = f"{run_id[:8]}T00:00:00Z"
            store.create(records.run_of(records.case(), id=run_id, started=started))
        make_version_3(store)
        with write_transaction(store._engine) as connection:
            connection.exec_driver_sql("DROP INDEX torchmark_tags_held_once")
            connection.exec_driver_sql("ALTER TABLE torchmark_runs DROP COLUMN suite")
            connection.exec_driver_sql("UPDATE torchmark_version SET version = 2")
            for run_id in ids:
                for tag in ("before", run_id[:8]):
                    row = {"run_id": run_id, "tag": tag}
                    connection.execute(schema.tags.insert().values(row))
    with open_store(place) as store:
        assert {run.id: run.tags for run in store.runs()} == {
            ids[0]: ("20261115",),
            ids[2]: ("20261116",),
            ids[1]: ("before", "20261117"),
        }
        assert store.run("before").id == ids[1]
        assert {run.suite for run in store.runs()} == {"Pointwise / add"}
