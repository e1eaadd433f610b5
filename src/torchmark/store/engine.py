"""The connection to the database, set up so that several runs can write at once.

SQLite: a write-ahead log, so that readers and a writer do not wait for each other; writers ask for
the lock when they begin (BEGIN IMMEDIATE) and wait for it, instead of failing in the middle; a
commit is on the disk before it returns. PostgreSQL does all this by itself.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event

from torchmark.errors import StoreUnavailableError
from torchmark.store.failures import BUSY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL, Connection, Engine

_WRITES = "torchmark_writes"
"""The execution option of a connection whose transaction is going to write."""


def make_engine(url: URL, *, busy_seconds: int = BUSY_SECONDS) -> Engine:
    """An engine; nothing is connected yet, but the directory of a file is made.

    `busy_seconds` is how long a writer to SQLite waits for another.
    """
    if url.drivername == "sqlite":
        return _make_sqlite_engine(url, busy_seconds)
    try:
        return create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreUnavailableError(
            f"a store in PostgreSQL needs {error.name}: pip install 'torchmark[postgres]'"
        ) from error


@contextlib.contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one state of the store, whatever is written meanwhile."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextlib.contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that is committed when the block ends, or not at all."""
    with engine.connect() as connection:
        marked = connection.execution_options(**{_WRITES: True})
        with marked.begin():
            yield marked


def prefer_write_ahead_log(engine: Engine) -> None:
    """Switch a SQLite file to the write-ahead log, which it then keeps.

    While another process is at work in it the switch is refused; the next opening makes it then.
    """
    if engine.dialect.name != "sqlite":
        return
    with engine.connect() as connection, contextlib.suppress(sqlite3.OperationalError):
        # Not through SQLAlchemy, which would begin a transaction first.
        raw: Any = connection.connection.dbapi_connection
        raw.execute("PRAGMA journal_mode = WAL")


def _make_sqlite_engine(url: URL, busy_seconds: int) -> Engine:
    _make_directory(Path(str(url.database)).parent)
    # Fully durable commits (synchronous = FULL) are SQLite's default and are kept.
    engine = create_engine(url, connect_args={"timeout": busy_seconds})
    event.listen(engine, "connect", _leave_transactions_to_us)
    event.listen(engine, "begin", _begin)
    return engine


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailableError(
            f"the directory {directory} of the store cannot be made ({error.strerror}); "
            "name another place with --store"
        ) from error


def _leave_transactions_to_us(dbapi_connection: Any, _record: Any) -> None:
    dbapi_connection.isolation_level = None


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
