"""The database of a store: its location, connections to it, and readable errors.

Several runs can write at once. For SQLite this means a write-ahead log, so that readers and a
writer do not block each other. Writers take the lock when they begin (BEGIN IMMEDIATE) and wait for
it, so they do not fail in the middle. A commit returns after the data is on disk. PostgreSQL
needs none of these settings.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from torchmark.errors import (
    DamagedStoreError,
    InvalidArgumentError,
    StoreError,
    StoreUnavailableError,
)
from torchmark.files import PRIVATE, make_folder

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

_POSTGRES = {"postgres", "postgresql", "postgresql+psycopg"}
"""Names that URLs use for PostgreSQL; torchmark uses the psycopg driver."""

_WRITES = "torchmark_writes"
"""Execution option of connections whose transaction will write."""

_BUSY_SECONDS = 60
"""How long a writer waits for another; a transaction of torchmark takes milliseconds."""

_MOVE_AWAY = "or move the file away to start with a new store"
_DAMAGED_FILE = f"the file is damaged; restore it from a backup, {_MOVE_AWAY}"
_NO_SERVER = "the server cannot be reached or refuses this user; check the URL and the server"

# Remedies, by a part of the database's own text. Python 3.10 has no SQLite error codes, so the
# texts distinguish the causes. They have not changed for twenty years.
_DAMAGE = {
    "file is not a database": "the file is not a SQLite database; name another with --store, "
    + _MOVE_AWAY,
    "malformed": _DAMAGED_FILE,
}
_HINDRANCES = {
    "disk is full": "the disk is full; free some space, or remove runs with "
    "`torchmark rm RUN{store}`. What was stored before is safe",
    "readonly": "it is read-only; change the permissions of the file and its directory, "
    "or name another with --store",
    "unable to open": "it cannot be opened; it must be a file, not a directory, and this user must "
    "be able to write to it and to its directory. If you may only read it, copy the file (and the "
    "file that ends in -wal, if there is one) to your directory, and name the copy with --store",
    "disk i/o error": "the disk failed, or a quota is used up; free some space, or name another "
    "place with --store",
    "locked": f"another process has kept it locked for {_BUSY_SECONDS} s; end that process and try "
    "again",
    "permission denied": "this user does not have the permission; ask for it, or name another "
    "store with --store",
    "connect": _NO_SERVER,
    "resolve host": _NO_SERVER,
}


def default_path() -> Path:
    """Return the path of the user's own store, which is used if no other is named."""
    return Path(platformdirs.user_data_dir("torchmark", appauthor=False)) / "store.sqlite3"


def artifact_folder(where: str, run_id: str) -> Path:
    """Return the folder for a run's files, such as its models, next to the store."""
    path = Path(where)
    folder = path.parent if path.is_file() else default_path().parent
    return folder / "artifacts" / run_id


def url_of(place: str | os.PathLike[str] | None) -> URL:
    """Return the URL of a store given as a URL or a path; None means the user's own store.

    >>> url_of("results.db").drivername, url_of("postgresql://team@host/marks").drivername
    ('sqlite', 'postgresql+psycopg')
    """
    text = os.fspath(place if place is not None else default_path())
    if "://" not in text:
        return _file_url(text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise InvalidArgumentError(f"the store {text!r} is not a valid URL: {error}") from error
    if url.drivername in _POSTGRES:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in {"sqlite", "sqlite+pysqlite"}:
        return _file_url(url.database or "")
    raise InvalidArgumentError(
        f"a store of kind {url.drivername!r} is not supported; give the path of a file, or a URL "
        "such as sqlite:///results.db or postgresql+psycopg://user@host/name"
    )


def _file_url(text: str) -> URL:
    if text in {"", ":memory:"} or "\0" in text:
        raise InvalidArgumentError(
            f"the store {text!r} does not name a file; give a path such as results.db"
        )
    return URL.create("sqlite", database=str(Path(text).expanduser()))


def name_of(url: URL) -> str:
    """Return the store's name in messages: its path, or its URL without the password."""
    if url.drivername == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


def option_for(where: str) -> str:
    """Return the option that a suggested command needs to find this store; empty for the default.

    >>> option_for("my results.db"), option_for(str(default_path()))
    (" --store 'my results.db'", '')
    """
    return "" if where == str(default_path()) else f" --store {shlex.quote(where)}"


def make_engine(url: URL, *, read_only: bool = False, busy_seconds: int = _BUSY_SECONDS) -> Engine:
    """Create an engine without connecting; a SQLite file and its directory are created.

    `busy_seconds` is how long a writer to SQLite waits for another. `read_only` applies to SQLite
    only, and nothing is created then; for PostgreSQL, each transaction sets it.
    """
    if url.drivername == "sqlite":
        if not read_only:
            _make_file(Path(str(url.database)))
        return _make_sqlite_engine(url, read_only, busy_seconds)
    try:
        return create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreUnavailableError(
            f"a store in PostgreSQL needs {error.name}: pip install 'torchmark[postgres]'"
        ) from error


def _make_file(path: Path) -> None:
    """Create the file for this user only; SQLite gives its log and journal the same permissions."""
    try:
        make_folder(path.parent)
    except OSError as error:
        raise StoreUnavailableError(
            f"the directory {path.parent} of the store cannot be created ({error.strerror}); "
            "name another place with --store"
        ) from error
    with contextlib.suppress(OSError):  # it exists, or SQLite will say why it cannot be created
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))


def _make_sqlite_engine(url: URL, read_only: bool, busy_seconds: int) -> Engine:
    path = Path(str(url.database))

    def connect() -> sqlite3.Connection:
        how = _how_to_read(path) if read_only else "mode=rwc"
        place = f"file:{urllib.parse.quote(str(path))}?{how}"
        return sqlite3.connect(place, uri=True, timeout=busy_seconds, check_same_thread=False)

    # Fully durable commits (synchronous = FULL) are SQLite's default and are kept.
    engine = create_engine(url, creator=connect)
    event.listen(engine, "connect", _leave_transactions_to_us)
    if read_only:
        event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA query_only = ON"))
    event.listen(engine, "begin", _begin)
    return engine


def _how_to_read(path: Path) -> str:
    """Return the options of a connection that does not change the store or leave files behind.

    A write-ahead log needs files next to the store even for reading. If this user can create them,
    SQLite removes them afterwards. Otherwise the files of a writer are used. Without a writer there
    is no log, and the main file is complete.
    """
    if all(os.access(place, os.W_OK) for place in (path, path.parent)):
        return "mode=rw"
    return "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"


def _leave_transactions_to_us(dbapi_connection: Any, _record: Any) -> None:
    dbapi_connection.isolation_level = None


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextlib.contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one state of the store, even while others write."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with connection.begin():
            yield connection


@contextlib.contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that is committed at the end of the block, or rolled back on an error."""
    with engine.connect() as connection:
        marked = connection.execution_options(**{_WRITES: True})
        with marked.begin():
            yield marked


def prefer_write_ahead_log(engine: Engine) -> None:
    """Switch a SQLite file permanently to the write-ahead log.

    SQLite refuses this while another process uses the file; the next opening then tries again.
    """
    if engine.dialect.name != "sqlite":
        return
    with engine.connect() as connection, contextlib.suppress(sqlite3.OperationalError):
        # Not through SQLAlchemy, which would begin a transaction first.
        raw: Any = connection.connection.dbapi_connection
        raw.execute("PRAGMA journal_mode = WAL")


@contextlib.contextmanager
def as_store_error(where: str) -> Iterator[None]:
    """Turn database errors into a StoreError that names the store and says what to do."""
    try:
        yield
    except SQLAlchemyError as error:
        said = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
        for kind, remedies in ((DamagedStoreError, _DAMAGE), (StoreUnavailableError, _HINDRANCES)):
            for cause, remedy in remedies.items():
                if cause in said.lower():
                    todo = remedy.replace("{store}", option_for(where))
                    raise kind(f"the store {where} cannot be used: {todo} ({said})") from error
        raise StoreError(f"the store {where} cannot be used: {said}") from error
    except UnicodeDecodeError as error:
        # SQLite's text, or its message about a damaged name, was not valid text.
        raise DamagedStoreError(
            f"the store {where} cannot be used: {_DAMAGED_FILE} ({error})"
        ) from error
