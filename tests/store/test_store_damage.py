"""No store, a damaged one, a full disk, a closed directory: each says what to do."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

import torchmark
from tests import records
from torchmark.errors import (
    DamagedStoreError,
    InvalidArgumentError,
    NewerStoreError,
    StoreUnavailableError,
    TorchmarkError,
)
from torchmark.model.codec import encode_result
from torchmark.model.result import Metric, Status
from torchmark.model.run import RunKind
from torchmark.store import default_path, open_store
from torchmark.store.store import LARGEST_RECORD

ADD = records.case("Pointwise", "add")
RUN = records.run_of(ADD)
OTHER = records.run_of(ADD, id="20261120-000000-ffffff", started="2026-11-20T00:00:00Z")


def filled(path: Path) -> Path:
    with open_store(path) as store:
        store.create(RUN)
        store.add(RUN.id, records.time_result(ADD))
        store.add(RUN.id, records.count_result(ADD))
    return path


def execute(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_the_users_own_store_lies_under_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "torchmark" / "store.sqlite3"
    with open_store() as store:
        store.create(RUN)
    assert default_path().is_file()


def test_a_store_may_be_given_as_a_path_or_a_url(tmp_path: Path) -> None:
    path = filled(tmp_path / "new" / "directory" / "a b#%.db")
    for place in (path, str(path)):
        with open_store(place) as store:
            assert store.run("latest").id == RUN.id
    with open_store(f"sqlite:///{tmp_path}/plain.db"):
        assert (tmp_path / "plain.db").is_file()


def test_an_empty_file_becomes_a_store(sqlite_path: Path) -> None:
    sqlite_path.touch()
    assert filled(sqlite_path).stat().st_size > 0


def test_commits_are_durable_and_readers_do_not_wait(sqlite_path: Path) -> None:
    filled(sqlite_path)
    with open_store(sqlite_path) as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_a_file_that_is_no_database_is_left_alone(sqlite_path: Path) -> None:
    content = b"these are my notes, " * 100
    sqlite_path.write_bytes(content)
    with pytest.raises(DamagedStoreError, match=f"(?s){sqlite_path}.*--store"):
        open_store(sqlite_path)
    assert sqlite_path.read_bytes() == content


def test_a_database_of_something_else_is_left_alone(sqlite_path: Path) -> None:
    execute(sqlite_path, "CREATE TABLE songs (name TEXT)")
    with pytest.raises(DamagedStoreError, match=r"not a torchmark store.*songs"):
        open_store(sqlite_path)


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        open_store(tmp_path)


def test_a_store_of_a_newer_torchmark_says_so(sqlite_path: Path) -> None:
    execute(filled(sqlite_path), "UPDATE torchmark_version SET version = 5")
    with pytest.raises(NewerStoreError, match=r"version 5.*Update torchmark"):
        open_store(sqlite_path)


def test_a_store_without_its_version_is_damaged(sqlite_path: Path) -> None:
    execute(filled(sqlite_path), "DELETE FROM torchmark_version")
    with pytest.raises(DamagedStoreError, match=r"should be one number but is \[\]"):
        open_store(sqlite_path)


@pytest.mark.parametrize(
    "record", [b"", b"no zlib", zlib.compress(b"{}"), zlib.compress(b'{"torchmark": "run"')]
)
def test_a_damaged_run_is_told_and_can_be_removed(sqlite_path: Path, record: bytes) -> None:
    execute(filled(sqlite_path), "UPDATE torchmark_runs SET record = ?", record)
    with open_store(sqlite_path) as store:
        assert len(store.runs()) == 1
        remedy = f"torchmark rm {RUN.id} --store {sqlite_path}"
        with pytest.raises(DamagedStoreError, match=f"{RUN.id}.*{remedy}"):
            store.run("latest")
        store.remove(store.id_of("latest"))
        assert store.runs() == []


BOMB = zlib.compress(encode_result(records.time_result(ADD)).encode() + b" " * LARGEST_RECORD)
"""A record that could be read if it were not for its size."""


@pytest.mark.parametrize(
    "record",
    [b"", b"no zlib", zlib.compress(b"{}"), zlib.compress(b"{}" * 99)[:9], BOMB],
    ids=["empty", "no zlib", "no result", "cut off", "bomb"],
)
def test_a_damaged_result_costs_itself_alone_and_can_be_measured_again(
    sqlite_path: Path, record: bytes
) -> None:
    damage = "UPDATE torchmark_results SET record = ? WHERE metric = 'time'"
    execute(filled(sqlite_path), damage, record)
    with open_store(sqlite_path) as store:
        run = store.run("latest")
        assert [(each.metric, each.status) for each in run.results] == [
            (Metric.TIME, Status.FAILED),
            (Metric.INSTRUCTIONS, Status.DONE),
        ]
        (told,) = store.damage
        assert f"the time of case {ADD.id} ({ADD.title}) in run {RUN.id}" in told
        assert f"torchmark run --resume {RUN.id} --store {sqlite_path}" in told
        assert "damaged" in run.results[0].reason
        assert [each.metric for each in run.missing()] == [Metric.TIME]
        assert store.add(RUN.id, records.time_result(ADD, 3e-6))
        assert store.run("latest").results == (
            records.time_result(ADD, 3e-6),
            records.count_result(ADD),
        )
        assert not store.add(RUN.id, records.time_result(ADD, 9e-6)), "what is done is held once"


def test_a_run_that_cannot_be_resumed_is_not_told_to_be(sqlite_path: Path) -> None:
    damage = "UPDATE torchmark_results SET record = 'x'"
    with open_store(sqlite_path) as store:
        run = records.run_of(ADD, kind=RunKind.TIME, results=(records.time_result(ADD),))
        store.create(run)
        execute(sqlite_path, damage)
        assert "--resume" not in store.run("latest").results[0].reason
        assert f"torchmark rm {run.id} --store {sqlite_path}" in store.damage[0]


def test_a_damaged_result_that_nobody_planned_is_told(sqlite_path: Path) -> None:
    change = "UPDATE torchmark_results SET record = ?, metric = x'ff' WHERE metric = 'time'"
    execute(filled(sqlite_path), change, b"")
    with open_store(sqlite_path) as store:
        assert [each.metric for each in store.run("latest").results] == [Metric.INSTRUCTIONS]
        assert len(store.damage) == 1


def test_a_record_that_no_reader_would_take_is_not_written(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchmark.store.store.LARGEST_RECORD", 10_000)
    with open_store(filled(sqlite_path)) as store:
        big = records.failed_result(records.case("big"), stdout="x" * 10_000)
        with pytest.raises(InvalidArgumentError, match=r"the limit of a store \(10,000\)"):
            store.add(RUN.id, big)


@pytest.mark.parametrize(
    "change",
    [
        "started = x'05'",
        "planned = 'many'",
        "state = 'asleep'",
        "environments = '[1]'",
        "environments = '{'",
        "kind = 'party'",
        "state = x'00ff'",
    ],
)
def test_a_damaged_row_is_told_and_the_others_are_listed(sqlite_path: Path, change: str) -> None:
    damage = f"UPDATE torchmark_runs SET {change} WHERE id = ?"
    execute(filled(sqlite_path), damage, RUN.id)
    with open_store(sqlite_path) as store:
        store.create(OTHER)
        assert [each.id for each in store.runs()] == [OTHER.id]
        assert RUN.id in store.damage[0]
        store.remove(RUN.id)


def test_a_damaged_id_is_told_and_the_others_are_found(sqlite_path: Path) -> None:
    execute(filled(sqlite_path), "UPDATE torchmark_runs SET id = x'00ff'")
    with open_store(sqlite_path) as store:
        store.create(OTHER)
        assert [each.id for each in store.runs()] == [OTHER.id]
        assert "Expected `str`" in store.damage[0]
        assert store.id_of("2026") == store.run("latest").id == OTHER.id


def test_a_complaint_of_sqlite_that_is_no_text_is_told(sqlite_path: Path) -> None:
    """SQLite puts the damaged name of a table into its message, byte by byte."""
    filled(sqlite_path)
    content = sqlite_path.read_bytes()
    sqlite_path.write_bytes(content.replace(b"CREATE TABLE torchmark_tags", b"CREATE \xff\xfe" * 3))
    with pytest.raises(DamagedStoreError, match="damaged"):
        open_store(sqlite_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_whatever_is_wrong_with_the_file_the_error_is_ours(
    tmp_path: Path, data: st.DataObject
) -> None:
    intact = tmp_path / "intact.db"
    if not intact.exists():
        filled(intact)
    content = bytearray(intact.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.sampled_from([1, 16, 4096]))
    content[start : start + length] = data.draw(st.binary(min_size=length, max_size=length))
    damaged = tmp_path / "damaged.db"
    for leftover in tmp_path.glob("damaged.db*"):
        leftover.unlink()
    damaged.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    said = str(damaged)
    try:
        with open_store(damaged) as store:
            for summary in store.runs():
                store.run(summary.id)
    except TorchmarkError as error:
        said = str(error)
    assert str(damaged) in said


def test_a_full_disk_says_so_and_loses_nothing(sqlite_path: Path) -> None:
    with open_store(filled(sqlite_path)) as store:
        event.listen(store._engine, "connect", _allow_no_more_pages)
        store._engine.dispose()
        big = records.failed_result(records.case("big"), stdout=os.urandom(500_000).hex())
        with pytest.raises(StoreUnavailableError, match=r"disk is full.*rm"):
            store.add(RUN.id, big)
        assert len(store.run(RUN.id).results) == 2


def _allow_no_more_pages(dbapi_connection: sqlite3.Connection, _: object) -> None:
    dbapi_connection.execute("PRAGMA max_page_count = 1")


def test_a_lock_that_is_never_released_says_so(sqlite_path: Path) -> None:
    filled(sqlite_path)
    other = sqlite3.connect(sqlite_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with open_store(sqlite_path) as store:
        event.listen(store._engine, "connect", lambda raw, _: raw.execute("PRAGMA busy_timeout=0"))
        store._engine.dispose()
        assert len(store.run(RUN.id).results) == 2, "readers do not wait for a writer"
        with pytest.raises(StoreUnavailableError, match="locked"):
            store.tag(RUN.id, "x")
    other.close()


@pytest.mark.parametrize("place", ["/proc/torchmark/store.db", "/dev/null/store.db"])
def test_a_directory_that_cannot_be_made_says_so(place: str) -> None:
    with pytest.raises(StoreUnavailableError, match=f"{Path(place).parent}.*--store"):
        open_store(place)


OPEN = """
import sys
from torchmark.errors import StoreUnavailableError
from torchmark.store import open_store
try:
    with open_store(sys.argv[1], read_only=len(sys.argv) > 2) as store:
        if len(sys.argv) > 2:
            print(len(store.runs()), len(store.run("latest").results))
        else:
            store.tag("latest" and store.runs()[0].id, "x")
except StoreUnavailableError as error:
    print(error)
"""


def open_without_rights(place: Path, *arguments: str) -> str:
    """What a process says that has not root's right to write everywhere, whoever runs the tests."""
    command = [sys.executable, "-c", OPEN, str(place), *arguments]
    if os.getuid() == 0:
        setpriv = shutil.which("setpriv")
        assert setpriv is not None, "root can write everywhere: apt-get install util-linux"
        command = [setpriv, "--bounding-set=-all", "--inh-caps=-all", *command]
    site = str(Path(torchmark.__file__).resolve().parent.parent)
    place.parent.chmod(0o555)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": site}
    )
    place.parent.chmod(0o755)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A place in a folder that can be closed."""
    (tmp_path / "closed").mkdir()
    return tmp_path / "closed" / "store.db"


@pytest.mark.parametrize("exists", [True, False])
def test_a_read_only_directory_says_so(closed: Path, exists: bool) -> None:
    if exists:
        filled(closed).chmod(0o444)
    said = open_without_rights(closed)
    assert re.search(rf"{closed}.*(be able to write|read-only)", said)


def test_a_read_only_store_can_be_read_and_nothing_is_left_beside_it(closed: Path) -> None:
    filled(closed).chmod(0o444)
    before = closed.read_bytes()
    assert open_without_rights(closed, "read") == "1 2\n"
    assert [*closed.parent.iterdir()] == [closed]
    assert closed.read_bytes() == before


def test_a_read_only_store_can_be_read_while_somebody_writes(closed: Path) -> None:
    filled(closed).chmod(0o644)
    with open_store(closed) as writing:
        writing.create(OTHER)
        assert open_without_rights(closed, "read") == "2 0\n", "what is in the log is there"


def test_a_store_of_an_older_version_that_cannot_be_written_says_what_to_do(closed: Path) -> None:
    execute(filled(closed), "UPDATE torchmark_version SET version = 2")
    closed.chmod(0o444)
    said = open_without_rights(closed, "read")
    assert re.search(rf"{closed}.*version 2.*copy", said)


def test_reading_leaves_nothing_beside_a_store(sqlite_path: Path) -> None:
    filled(sqlite_path)
    facts = sqlite_path.stat()
    with open_store(sqlite_path, read_only=True) as store:
        assert len(store.run("latest").results) == 2
    assert [*sqlite_path.parent.iterdir()] == [sqlite_path]
    assert sqlite_path.stat().st_mtime_ns == facts.st_mtime_ns


def test_a_new_store_is_for_its_user_alone_and_another_is_left_as_it_is(tmp_path: Path) -> None:
    shared = filled(tmp_path / "shared.db")
    shared.chmod(0o664)
    before = os.umask(0)
    try:
        new = filled(tmp_path / "new" / "store.db")
        with open_store(new) as store, open_store(shared):
            store.tag(RUN.id, "x")
            beside = {each.name: each.stat().st_mode & 0o777 for each in new.parent.iterdir()}
    finally:
        os.umask(before)
    assert new.parent.stat().st_mode & 0o777 == 0o700
    assert beside == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm"], 0o600)
    assert shared.stat().st_mode & 0o777 == 0o664
