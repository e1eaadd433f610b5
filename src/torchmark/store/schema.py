"""The tables, and the version that says which torchmark can read them.

A row contains its record as compressed JSON (see `torchmark.model.codec`), plus a column for
everything that is searched or listed. Opening a store converts the tables of an older version. A
SQLite file is copied first; the copy stays next to it.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)

from torchmark.errors import DamagedStoreError, NewerStoreError, StoreUnavailableError
from torchmark.files import PRIVATE
from torchmark.store.database import (
    make_engine,
    prefer_write_ahead_log,
    read_transaction,
    write_transaction,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

VERSION = 4
"""Increased with every change of the tables, together with a step in `migrations`."""

_MIGRATION_SECONDS = 3600
"""How long a process waits while another converts the store."""

_MAKING = 7_468_267
"""Arbitrary key of a PostgreSQL advisory lock, so that one process at a time makes the tables."""

_LOG = logging.getLogger(__name__)

metadata = MetaData()

version_table = Table(
    "torchmark_version", metadata, Column("version", Integer, nullable=False, primary_key=True)
)

runs = Table(
    "torchmark_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("started", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("planned", Integer, nullable=False),
    Column("environments", Text, nullable=False),  # as JSON
    Column("git_commit", Text),
    Column("git_branch", Text),
    Column("suite", Text, nullable=False, server_default=""),
    Column("record", LargeBinary, nullable=False),  # without state, tags and results
)

tags = Table(
    "torchmark_tags",
    metadata,
    Column("place", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.id), nullable=False),
    Column("tag", Text, nullable=False),
    UniqueConstraint("run_id", "tag"),
)

# A tag belongs to one run.
Index("torchmark_tags_held_once", tags.c.tag, unique=True)

results = Table(
    "torchmark_results",
    metadata,
    Column("place", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.id), nullable=False),
    Column("case_id", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("environments", Text, nullable=False),  # their names, as JSON
    Column("status", Text, nullable=False),
    Column("record", LargeBinary, nullable=False),
    # The figures of `torchmark.model.series.Figures`.
    Column("value", Double),
    Column("low", Double),
    Column("high", Double),
    Column("memory", Double),
)

# A result is stored once, even if several processes write it.
Index(
    "torchmark_results_held_once",
    results.c.run_id,
    results.c.case_id,
    results.c.metric,
    results.c.environments,
    unique=True,
)

# A history reads these two indexes only: records would be a hundred times as much to read.
_FIGURES = tuple(results.c[name] for name in ("environments", "value", "low", "high", "memory"))
Index(
    "torchmark_results_of_case",
    results.c.case_id,
    results.c.metric,
    results.c.status,
    results.c.run_id,
    *_FIGURES,
)
Index(
    "torchmark_results_of_run",
    results.c.run_id,
    results.c.status,
    results.c.metric,
    results.c.case_id,
    *_FIGURES,
)

cases = Table(
    "torchmark_cases",
    metadata,
    Column("id", Text, primary_key=True),
    Column("record", Text, nullable=False),  # the case as JSON
)


def find_version(engine: Engine, where: str) -> int | None:
    """Return the version of the tables; None if there are none; raise for a newer version."""
    with read_transaction(engine) as connection:
        return _version(connection, where)


def prepare(engine: Engine, where: str) -> None:
    """Create the tables, or convert those of an older version; refuse a newer version."""
    if find_version(engine, where) != VERSION:
        patient = make_engine(engine.url, busy_seconds=_MIGRATION_SECONDS)
        try:
            with write_transaction(patient) as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MAKING})
                _bring_up_to_date(connection, where)
        finally:
            patient.dispose()
    prefer_write_ahead_log(engine)


def _version(connection: Connection, where: str) -> int | None:
    """Return the version of the store; None if it is empty."""
    names = inspect(connection).get_table_names()
    if version_table.name not in names:
        if names and connection.dialect.name == "sqlite":
            raise DamagedStoreError(
                f"{where} is not a torchmark store (it has the table {names[0]!r}); "
                "name another file with --store"
            )
        return None
    versions = connection.execute(select(version_table.c.version)).scalars().all()
    if len(versions) != 1 or not isinstance(versions[0], int) or versions[0] < 1:
        raise DamagedStoreError(
            f"the version of the store {where} should be one number but is {list(versions)}; "
            "restore it from a backup, or name another store with --store"
        )
    if versions[0] > VERSION:
        raise NewerStoreError(
            f"the store {where} has version {versions[0]}, made by a newer torchmark; this one "
            f"reads up to version {VERSION}. Update torchmark, or name another store with --store"
        )
    return versions[0]


def _bring_up_to_date(connection: Connection, where: str) -> None:
    """Check again with the lock of writers, because another process may have been faster."""
    found = _version(connection, where)
    if found is None:
        metadata.create_all(connection)
        connection.execute(insert(version_table).values(version=VERSION))
    elif found < VERSION:
        _convert(connection, found, where)


def _convert(connection: Connection, found: int, where: str) -> None:
    from torchmark.store.migrations import migrate  # noqa: PLC0415 - Alembic is slow to import

    copy = _keep_copy(Path(where), found) if connection.dialect.name == "sqlite" else None
    kept = f"; a copy is kept in {copy}" if copy else ""
    _LOG.warning("converting the store %s from version %d to %d%s", where, found, VERSION, kept)
    try:
        migrate(connection, found)
    except BaseException:
        if copy:  # the transaction is rolled back, so the store still equals the copy
            copy.unlink()
        raise


def _keep_copy(path: Path, version: int) -> Path:
    """Copy the file to a new path, `store.sqlite3.version-1`; earlier copies are not replaced.

    The caller holds the lock of writers, so the copy includes the write-ahead log, and no other
    process makes one at the same time. An incomplete copy never has the final name.
    """
    part = path.with_name(f"{path.name}.copying")
    try:
        _discard(part)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL, PRIVATE))
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(part)) as target,
        ):
            source.backup(target)
        return part.rename(_free_name(path, version))
    except (sqlite3.Error, OSError) as error:
        with contextlib.suppress(OSError):
            _discard(part)
        raise StoreUnavailableError(
            f"the store {path} has version {version} and cannot be converted, because it cannot be "
            f"copied first ({error}); make room next to it, and let this user write there"
        ) from error


def _discard(part: Path) -> None:
    """Remove the file and its journal, which SQLite would apply to the next file of that name."""
    for name in (part.name, f"{part.name}-journal"):
        part.with_name(name).unlink(missing_ok=True)


def _free_name(path: Path, version: int) -> Path:
    first = path.with_name(f"{path.name}.version-{version}")
    others = (first.with_name(f"{first.name}.{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([first], others) if not name.exists())
