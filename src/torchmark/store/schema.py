"""The tables, and the version that says which torchmark can read them.

A record stands in its row as compressed JSON of the versioned schema in `torchmark.model`; what is
searched for or listed has a column of its own beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    ForeignKey,
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

from torchmark.errors import DamagedStoreError, NewerStoreError
from torchmark.store.engine import prefer_write_ahead_log, reading, writing

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

VERSION = 1
"""Raised with every change of the tables, together with a step in `_bring_up_to_date`."""

_MAKING = 7_468_267
"""An arbitrary number for PostgreSQL's advisory lock: one process at a time makes the tables."""

metadata = MetaData()

version_table = Table(
    "torchmark_version", metadata, Column("version", Integer, nullable=False, primary_key=True)
)

runs = Table(
    "torchmark_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("started", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("planned", Integer, nullable=False),
    Column("environment", Text, nullable=False),
    Column("record", LargeBinary, nullable=False),
)

tags = Table(
    "torchmark_tags",
    metadata,
    Column("place", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.id), nullable=False),
    Column("tag", Text, nullable=False),
    UniqueConstraint("run_id", "tag"),
)

results = Table(
    "torchmark_results",
    metadata,
    Column("place", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.id), nullable=False),
    Column("case_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("record", LargeBinary, nullable=False),
    # A case is held once for each run and kind, whoever writes it.
    UniqueConstraint("run_id", "case_id", "kind"),
)


def prepare(engine: Engine, where: str) -> None:
    """Make the tables where there are none; refuse what this version cannot read."""
    with reading(engine) as connection:
        found = _version(connection, where)
    if found is None or found < VERSION:
        with writing(engine) as connection:
            _lock(connection)
            # Another process may have been quicker.
            _bring_up_to_date(connection, _version(connection, where))
    prefer_write_ahead_log(engine)


def _version(connection: Connection, where: str) -> int | None:
    """The version of the store; None if there is nothing yet."""
    names = inspect(connection).get_table_names()
    if version_table.name not in names:
        if names and connection.dialect.name == "sqlite":
            raise DamagedStoreError(
                f"{where} is a database of something else (it has the table {names[0]!r}); "
                "name another file with --store"
            )
        return None
    versions = connection.execute(select(version_table.c.version)).scalars().all()
    if len(versions) != 1 or not isinstance(versions[0], int):
        raise DamagedStoreError(
            f"the store {where} does not say of which version it is but {list(versions)}; "
            "bring it back from a backup, or move it away and a new one is made"
        )
    if versions[0] > VERSION:
        raise NewerStoreError(
            f"the store {where} has version {versions[0]}, made by a newer torchmark; this one "
            f"reads version {VERSION}. Update torchmark, or name another store with --store"
        )
    return versions[0]


def _bring_up_to_date(connection: Connection, found: int | None) -> None:
    """One step for each version; there is only the first."""
    if found is None:
        metadata.create_all(connection)
        connection.execute(insert(version_table).values(version=VERSION))


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MAKING})
