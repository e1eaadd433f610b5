"""Steps from the tables of one version to those of the next, with Alembic's operations.

This module is imported only where a store is of an older version: Alembic takes longer to load than
a store takes to open. The version of a store stands in `torchmark_version`, which every torchmark
reads before anything else, so Alembic keeps no table of its own.

A record that cannot be read stays as it is: the store then names its run as damaged, as 0.1 did,
and all others open.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, Text, text

from torchmark.model.codec import encode_result, encode_run
from torchmark.store.version_1 import METRICS, read_result, read_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, zlib.error)
"""What reading a damaged record may raise."""


def migrate(connection: Connection, found: int) -> None:
    """Bring the tables from version `found` to the newest, in the transaction that is open."""
    with Operations.context(MigrationContext.configure(connection)):
        for step in _STEPS[found - 1 :]:
            step()


def _upgrade_to_2() -> None:
    """Every kind of run, several environments, and the records of the second design."""
    _change_columns_of_runs()
    _change_columns_of_results()
    _convert_runs()
    _convert_results()
    op.execute(text("UPDATE torchmark_version SET version = 2"))


_STEPS = (_upgrade_to_2,)
"""The step to version 2, and those after it."""


def _change_columns_of_runs() -> None:
    op.add_column("torchmark_runs", Column("kind", Text, nullable=False, server_default="run"))
    op.add_column("torchmark_runs", Column("git_commit", Text))
    op.add_column("torchmark_runs", Column("git_branch", Text))
    _rename_column("torchmark_runs", "environment", "environments")


def _change_columns_of_results() -> None:
    # SQLite has no name for the constraint, so the convention gives it the one of PostgreSQL.
    names = {"uq": "%(table_name)s_%(column_0_N_name)s_key"}
    with op.batch_alter_table("torchmark_results", naming_convention=names) as table:
        table.drop_constraint("torchmark_results_run_id_case_id_kind_key", type_="unique")
        table.add_column(Column("environments", Text, nullable=False, server_default='[""]'))
    _rename_column("torchmark_results", "kind", "metric")
    _rename_column("torchmark_results", "outcome", "status")
    key = ["run_id", "case_id", "metric", "environments"]
    op.create_index("torchmark_results_held_once", "torchmark_results", key, unique=True)


def _rename_column(table: str, old: str, new: str) -> None:
    """Alembic would copy the whole table in SQLite, which has long known how to do it in place."""
    op.execute(text(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}"))


def _convert_runs() -> None:
    # One after the other: a run whose record is damaged is still listed.
    _convert_each("torchmark_runs", "id", _environments_of_run)
    _convert_each("torchmark_runs", "id", _columns_of_run)


def _environments_of_run(row: Any) -> dict[str, Any]:
    return {"environments": json.dumps([{"facts": json.loads(row.environments)}])}


def _columns_of_run(row: Any) -> dict[str, Any]:
    run = read_run(zlib.decompress(row.record))
    return {
        "kind": run.kind.value,
        "git_commit": run.environment.fact("git", "commit"),
        "git_branch": run.environment.fact("git", "branch"),
        "record": zlib.compress(encode_run(run).encode()),
    }


def _convert_results() -> None:
    for old, metric in METRICS.items():
        op.execute(
            text("UPDATE torchmark_results SET metric = :new WHERE metric = :old").bindparams(
                new=metric.value, old=old
            )
        )
    _convert_each("torchmark_results", "place", _columns_of_result)


def _columns_of_result(row: Any) -> dict[str, Any]:
    result = read_result(zlib.decompress(row.record))
    return {"record": zlib.compress(encode_result(result).encode())}


def _convert_each(table: str, key: str, convert: Callable[[Any], dict[str, Any]]) -> None:
    """Row by row, since the records of a large store do not fit into memory."""
    connection = op.get_bind()
    keys = connection.execute(text(f"SELECT {key} FROM {table}")).scalars().all()  # noqa: S608
    chosen = text(f"SELECT * FROM {table} WHERE {key} = :key")  # noqa: S608 - names of our own
    for each in keys:
        row = connection.execute(chosen, {"key": each}).one()
        try:
            columns = convert(row)
        except _UNREADABLE:
            continue
        given = ", ".join(f"{name} = :{name}" for name in columns)
        changed = text(f"UPDATE {table} SET {given} WHERE {key} = :key")  # noqa: S608
        connection.execute(changed, {**columns, "key": each})
