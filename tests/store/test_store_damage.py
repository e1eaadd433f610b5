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
    NewerStoreError,
    StoreUnavailableError,
    TorchmarkError,
)
from torchmark.store import default_path, open_store

ADD = records.case("Pointwise", "add")
RUN = records.run_of(ADD)


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
    with pytest.raises(DamagedStoreError, match=r"something else.*songs"):
        open_store(sqlite_path)


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        open_store(tmp_path)


def test_a_store_of_a_newer_torchmark_says_so(sqlite_path: Path) -> None:
    execute(filled(sqlite_path), "UPDATE torchmark_version SET version = 3")
    with pytest.raises(NewerStoreError, match=r"version 3.*Update torchmark"):
        open_store(sqlite_path)


def test_a_store_without_its_version_is_damaged(sqlite_path: Path) -> None:
    execute(filled(sqlite_path), "DELETE FROM torchmark_version")
    with pytest.raises(DamagedStoreError, match=r"which version it has but \[\]"):
        open_store(sqlite_path)


@pytest.mark.parametrize(
    "record", [b"", b"no zlib", zlib.compress(b"{}"), zlib.compress(b'{"torchmark": "run"')]
)
@pytest.mark.parametrize("table", ["torchmark_runs", "torchmark_results"])
def test_a_damaged_record_is_told_with_its_run_and_can_be_removed(
    sqlite_path: Path, record: bytes, table: str
) -> None:
    filled(sqlite_path)
    execute(sqlite_path, f"UPDATE {table} SET record = ?", record)
    with open_store(sqlite_path) as store:
        assert len(store.runs()) == 1
        with pytest.raises(DamagedStoreError, match=f"{RUN.id}.*torchmark rm"):
            store.run("latest")
        store.remove(store.id_of("latest"))
        assert store.runs() == []


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
def test_a_damaged_column_is_told_with_its_run(sqlite_path: Path, change: str) -> None:
    execute(filled(sqlite_path), f"UPDATE torchmark_runs SET {change}")
    with open_store(sqlite_path) as store, pytest.raises(DamagedStoreError, match=RUN.id):
        store.runs()


def test_a_damaged_id_is_told(sqlite_path: Path) -> None:
    execute(filled(sqlite_path), "UPDATE torchmark_runs SET id = x'00ff'")
    with open_store(sqlite_path) as store:
        for call in (store.runs, lambda: store.id_of("2026"), lambda: store.run("latest")):
            with pytest.raises(DamagedStoreError, match="Expected `str`"):
                call()


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
    with open_store(sys.argv[1]) as store:
        store.tag("latest" and store.runs()[0].id, "x")
except StoreUnavailableError as error:
    print(error)
"""


@pytest.mark.parametrize("exists", [True, False])
def test_a_read_only_directory_says_so(tmp_path: Path, exists: bool) -> None:
    """In a process without root's right to write everywhere, whoever runs the tests."""
    place = tmp_path / "closed" / "store.db"
    place.parent.mkdir()
    if exists:
        filled(place).chmod(0o444)
    place.parent.chmod(0o555)
    command = [sys.executable, "-c", OPEN, str(place)]
    if os.getuid() == 0:
        setpriv = shutil.which("setpriv")
        assert setpriv is not None, "root can write everywhere: apt-get install util-linux"
        command = [setpriv, "--bounding-set=-all", "--inh-caps=-all", *command]
    site = str(Path(torchmark.__file__).resolve().parent.parent)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": site}
    )
    place.parent.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"{place}.*(writable|cannot be written)", done.stdout)
