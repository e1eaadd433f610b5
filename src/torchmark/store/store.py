"""The store: runs and the results of their cases.

Every method is one transaction. When it returns, what it wrote is on the disk; when the process
dies in the middle, it is as if it had not been called. Several processes and threads may use one
store at the same time.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from torchmark.errors import DamagedStoreError, StoreError, UnknownRunError, UnknownStoreError
from torchmark.model.codec import decode_result, decode_run, encode_result, encode_run
from torchmark.model.result import Result, Status
from torchmark.model.run import Environment, Run, RunKind, RunState
from torchmark.store import schema
from torchmark.store.engine import make_engine, read_transaction, write_transaction
from torchmark.store.failures import as_store_error
from torchmark.store.location import name_of, url_of
from torchmark.store.run_names import check_tag, resolve_name

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from sqlalchemy.engine import Connection, Engine

    T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run as a list shows it."""

    id: str
    """Sorts by the time at which the run began."""

    kind: RunKind
    """The command that made it."""

    started: str
    """When, in UTC, as ISO 8601 with seconds."""

    state: RunState
    """How far it has come."""

    tags: tuple[str, ...]
    """Names that people gave it, oldest first."""

    planned: int
    """Results that were to be."""

    done: int
    """Results that there are."""

    failed: int
    """Results that could not be had."""

    skipped: int
    """Results that the definitions left out."""

    environments: tuple[Environment, ...]
    """Where it ran."""


def open_store(place: str | os.PathLike[str] | None = None, *, create: bool = True) -> Store:
    """The store at a path or URL, or the user's own; made where there is none yet.

    Without `create` a file that is not there is an error, so that a misspelt name is not a new
    and empty store. A store of an older torchmark is converted, after a copy of its file was made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/marks.db") as store:
    ...     store.runs()
    []
    """
    url = url_of(place)
    where = name_of(url)
    if not create and url.drivername == "sqlite" and not Path(where).exists():
        raise UnknownStoreError(
            f"there is no store {where}; `torchmark run` makes one, or name another with --store"
        )
    with as_store_error(where):
        engine = make_engine(url)
        try:
            schema.prepare(engine, where)
        except BaseException:
            engine.dispose()
            raise
    return Store(engine, where)


class Store:
    """Runs and results in one database; `open_store` makes it, and it closes as a context."""

    def __init__(self, engine: Engine, where: str) -> None:
        self._engine = engine
        self.where = where
        """Its path, or its URL without the password."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def create(self, run: Run) -> None:
        """Keep a new run with its tags, and the results that it has; `new_run_id` gives its id."""
        for tag in run.tags:
            check_tag(tag)
        row = {"id": run.id, "state": run.state.value, **_columns_of(run)}
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            try:
                connection.execute(insert(schema.runs).values(row))
            except IntegrityError as error:
                raise StoreError(
                    f"there is a run {run.id!r} in {self.where} already; take a new id"
                ) from error
            for tag in run.tags:
                _add_tag(connection, run.id, tag)
            for result in run.results:
                _add_result(connection, run.id, result)

    def update(self, run: Run) -> None:
        """Keep the run as it is now; its state, its tags and its results stay what they are."""
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            self._check_known(connection, run.id)
            chosen = update(schema.runs).where(schema.runs.c.id == run.id)
            connection.execute(chosen.values(_columns_of(run)))

    def add(self, run_id: str, result: Result) -> bool:
        """Keep a result; False if the run has it already and it is done.

        Two results are the same if their case, metric and environments are. One that failed or was
        skipped is replaced, so that a resumed run can try again; one that is done is held once,
        even if two processes go on with the same run.
        """
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            self._check_known(connection, run_id)
            return _add_result(connection, run_id, result)

    def finish(self, run_id: str, state: RunState) -> None:
        """Say how far a run has come."""
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            self._check_known(connection, run_id)
            chosen = update(schema.runs).where(schema.runs.c.id == run_id)
            connection.execute(chosen.values(state=state.value))

    def tag(self, run_id: str, tag: str) -> None:
        """Give a run a name; the same name again changes nothing."""
        check_tag(tag)
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            self._check_known(connection, run_id)
            _add_tag(connection, run_id, tag)

    def remove(self, run_id: str) -> None:
        """Forget a run and its results."""
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            self._check_known(connection, run_id)
            for table in (schema.results, schema.tags):
                connection.execute(delete(table).where(table.c.run_id == run_id))
            connection.execute(delete(schema.runs).where(schema.runs.c.id == run_id))

    def runs(self) -> list[RunSummary]:
        """All runs, the oldest first."""
        table = schema.runs
        columns = [column for column in table.c if column is not table.c.record]
        listed = select(*columns).order_by(table.c.started, table.c.id)
        with as_store_error(self.where), read_transaction(self._engine) as connection:
            rows = connection.execute(listed).all()
            tags, counts = _tags_by_run(connection), _counts_by_status(connection)
        return [
            RunSummary(
                id=self._read(_text, row.id, row.id),
                kind=self._read(RunKind, row.kind, row.id),
                started=self._read(_text, row.started, row.id),
                state=self._read(RunState, row.state, row.id),
                tags=tuple(tags.get(row.id, ())),
                planned=self._read(_whole_number, row.planned, row.id),
                done=counts.get((row.id, Status.DONE.value), 0),
                failed=counts.get((row.id, Status.FAILED.value), 0),
                skipped=counts.get((row.id, Status.SKIPPED.value), 0),
                environments=self._read(_environments, row.environments, row.id),
            )
            for row in rows
        ]

    def id_of(self, name: str) -> str:
        """The run that an id, the beginning of one, a tag or "latest" names."""
        with as_store_error(self.where), read_transaction(self._engine) as connection:
            return resolve_name(name, self._tags_of_runs(connection), self.where)

    def run(self, name: str) -> Run:
        """The run that an id, the beginning of one, a tag or "latest" names, with its results."""
        runs, results = schema.runs, schema.results
        with as_store_error(self.where), read_transaction(self._engine) as connection:
            tags_of = self._tags_of_runs(connection)
            run_id = resolve_name(name, tags_of, self.where)
            chosen = select(runs.c.state, runs.c.record).where(runs.c.id == run_id)
            row = connection.execute(chosen).one()
            held = select(results.c.record).where(results.c.run_id == run_id)
            records = connection.execute(held.order_by(results.c.place)).scalars().all()
        return msgspec.structs.replace(
            self._read(_run, row.record, run_id),
            state=self._read(RunState, row.state, run_id),
            tags=tuple(tags_of[run_id]),
            results=tuple(self._read(_result, record, run_id) for record in records),
        )

    def _tags_of_runs(self, connection: Connection) -> dict[str, list[str]]:
        """Every run, the oldest first, with its tags."""
        table, tags = schema.runs, _tags_by_run(connection)
        ids = connection.execute(select(table.c.id).order_by(table.c.started, table.c.id)).scalars()
        return {self._read(_text, run_id, run_id): tags.get(run_id, []) for run_id in ids}

    def _check_known(self, connection: Connection, run_id: str) -> None:
        found = select(schema.runs.c.id).where(schema.runs.c.id == run_id)
        if connection.execute(found).first() is None:
            raise UnknownRunError(
                f"there is no run {run_id!r} in {self.where}; it was removed, or never made"
            )

    def _read(self, decode: Callable[[Any], T], content: Any, run_id: str) -> T:
        try:
            return decode(content)
        except (ValueError, TypeError, zlib.error) as error:
            raise DamagedStoreError(
                f"a record of run {run_id!r} in {self.where} cannot be read: {error}; "
                f"bring the store back from a backup, or remove the run: torchmark rm {run_id}"
            ) from error


def _columns_of(run: Run) -> dict[str, Any]:
    """All that `create` and `update` write of a run."""
    bare = msgspec.structs.replace(run, state=RunState.RUNNING, tags=(), results=())
    return {
        "kind": run.kind.value,
        "started": run.started,
        "planned": len(run.plan),
        "environments": msgspec.json.encode(run.environments).decode(),
        "git_commit": run.environment.fact("git", "commit"),
        "git_branch": run.environment.fact("git", "branch"),
        "record": _compress(encode_run(bare)),
    }


def _add_result(connection: Connection, run_id: str, result: Result) -> bool:
    key = {
        "run_id": run_id,
        "case_id": result.case.id,
        "metric": result.metric.value,
        "environments": json.dumps(result.environments),
    }
    same = delete(schema.results).filter_by(**key)
    connection.execute(same.where(schema.results.c.status != Status.DONE.value))
    row = {**key, "status": result.status.value, "record": _compress(encode_result(result))}
    return _insert_once(connection, schema.results, row, key)


def _add_tag(connection: Connection, run_id: str, tag: str) -> None:
    row = {"run_id": run_id, "tag": tag}
    _insert_once(connection, schema.tags, row, row)


def _insert_once(
    connection: Connection, table: Any, row: Mapping[str, Any], key: Iterable[str]
) -> bool:
    """Whether the row is new; one that is the same in the columns of the key is left as it is."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = (
        dialect.insert(table).values(dict(row)).on_conflict_do_nothing(index_elements=[*key])
    )
    # Without the option SQLAlchemy forgets how many rows an INSERT made.
    done = connection.execute(statement, execution_options={"preserve_rowcount": True})
    return done.rowcount == 1


def _tags_by_run(connection: Connection) -> dict[str, list[str]]:
    table = schema.tags
    found: dict[str, list[str]] = {}
    for run_id, tag in connection.execute(
        select(table.c.run_id, table.c.tag).order_by(table.c.place)
    ):
        found.setdefault(run_id, []).append(tag)
    return found


def _counts_by_status(connection: Connection) -> dict[tuple[str, str], int]:
    table = schema.results
    grouped = select(table.c.run_id, table.c.status, func.count()).group_by(
        table.c.run_id, table.c.status
    )
    return {(run_id, status): count for run_id, status, count in connection.execute(grouped)}


def _compress(text: str) -> bytes:
    """Names of functions repeat so much that counts shrink to a tenth."""
    return zlib.compress(text.encode())


def _run(record: bytes) -> Run:
    return decode_run(zlib.decompress(record))


def _result(record: bytes) -> Result:
    return decode_result(zlib.decompress(record))


def _environments(text: str) -> tuple[Environment, ...]:
    return msgspec.json.decode(text, type=tuple[Environment, ...])


def _text(value: Any) -> str:
    """SQLite's columns hold what they are given; a damaged page may give them anything."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} should be text")
    return value


def _whole_number(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} should be a whole number")
    return value
