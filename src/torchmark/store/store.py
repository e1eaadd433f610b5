"""The store: runs and the results of their cases.

Every method is one transaction. When it returns, what it wrote is on the disk; when the process
dies in the middle, it is as if it had not been called. Several processes and threads may use one
store at the same time.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from torchmark.errors import (
    AmbiguousRunError,
    DamagedStoreError,
    InvalidArgumentError,
    StoreError,
    UnknownRunError,
    UnknownStoreError,
)
from torchmark.model.codec import decode_result, decode_run, encode_result, encode_run
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Environment, Run, RunKind, RunState
from torchmark.store import schema
from torchmark.store.database import (
    as_store_error,
    make_engine,
    name_of,
    read_transaction,
    url_of,
    write_transaction,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

    T = TypeVar("T")


LATEST = "latest"
"""What stands for the run that began last."""

_LISTED = 8
"""Candidates that an error names; more are counted."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a list shows it."""

    id: str
    kind: RunKind
    started: str
    """When, in UTC, as ISO 8601 with seconds."""

    state: RunState
    tags: tuple[str, ...]
    """Names that people gave it, oldest first."""

    planned: int
    """Results that were to be; the next four are those that there are, by status."""

    done: int
    failed: int
    skipped: int
    partial: int
    environments: tuple[Environment, ...]


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
            _check_tag(tag)
        row = {"id": run.id, "state": run.state.value, **columns_of(run)}
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
        with self._changing(run.id) as connection:
            chosen = update(schema.runs).where(schema.runs.c.id == run.id)
            connection.execute(chosen.values(columns_of(run)))

    def add(self, run_id: str, result: Result) -> bool:
        """Keep a result; False if the run has it already and it is done.

        Two results are the same if their case, metric and environments are. One that failed, was
        skipped or is partial is replaced, so that a resumed run can try again; one that is done is
        held once, even if two processes go on with the same run.
        """
        with self._changing(run_id) as connection:
            return _add_result(connection, run_id, result)

    def finish(self, run_id: str, state: RunState) -> None:
        """Say how far a run has come."""
        with self._changing(run_id) as connection:
            chosen = update(schema.runs).where(schema.runs.c.id == run_id)
            connection.execute(chosen.values(state=state.value))

    def tag(self, run_id: str, tag: str) -> None:
        """Give a run a name; the same name again changes nothing."""
        _check_tag(tag)
        with self._changing(run_id) as connection:
            _add_tag(connection, run_id, tag)

    def remove(self, run_id: str) -> None:
        """Forget a run and its results."""
        with self._changing(run_id) as connection:
            for table in (schema.results, schema.tags):
                connection.execute(delete(table).where(table.c.run_id == run_id))
            connection.execute(delete(schema.runs).where(schema.runs.c.id == run_id))

    def runs(self) -> list[RunSummary]:
        """All runs, the oldest first."""
        table = schema.runs
        names = ("id", "kind", "started", "state", "planned", "environments")
        columns = [table.c[name] for name in names]
        listed = select(*columns).order_by(table.c.started, table.c.id)
        with self._reading() as connection:
            rows = connection.execute(listed).all()
            tags, counts = _tags_by_run(connection), _counts_by_status(connection)

        def summarise(row: Any) -> RunSummary:
            fields = dict(zip(names, row, strict=True))
            fields["environments"] = msgspec.json.decode(row.environments)
            fields["tags"] = tags.get(row.id, [])
            for status in Status:
                fields[status.value] = counts.get((row.id, status.value), 0)
            return msgspec.convert(fields, RunSummary)

        return [self._read(summarise, row, row.id) for row in rows]

    def id_of(self, name: str) -> str:
        """The run that an id, the beginning of one, a tag or "latest" names."""
        with self._reading() as connection:
            return _resolve_name(name, self._tags_of_runs(connection), self.where)

    def run(self, name: str) -> Run:
        """The run that an id, the beginning of one, a tag or "latest" names, with its results."""
        runs, results = schema.runs, schema.results
        with self._reading() as connection:
            tags_of = self._tags_of_runs(connection)
            run_id = _resolve_name(name, tags_of, self.where)
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

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with as_store_error(self.where), read_transaction(self._engine) as connection:
            yield connection

    @contextlib.contextmanager
    def _changing(self, run_id: str) -> Iterator[Connection]:
        """A transaction that writes to a run, which must be there."""
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            found = select(schema.runs.c.id).where(schema.runs.c.id == run_id)
            if connection.execute(found).first() is None:
                raise UnknownRunError(
                    f"there is no run {run_id!r} in {self.where}; it was removed, or never made"
                )
            yield connection

    def _read(self, decode: Callable[[Any], T], content: Any, run_id: str) -> T:
        try:
            return decode(content)
        except (ValueError, TypeError, zlib.error) as error:
            raise DamagedStoreError(
                f"a record of run {run_id!r} in {self.where} cannot be read: {error}; "
                f"bring the store back from a backup, or remove the run: torchmark rm {run_id}"
            ) from error


def columns_of(run: Run) -> dict[str, Any]:
    """All that `create` and `update` write of a run."""
    bare = msgspec.structs.replace(run, state=RunState.RUNNING, tags=(), results=())
    return {
        "kind": run.kind.value,
        "started": run.started,
        "planned": len(run.plan),
        "environments": msgspec.json.encode(run.environments).decode(),
        "git_commit": run.environment.fact("git", "commit"),
        "git_branch": run.environment.fact("git", "branch"),
        "record": compress_record(encode_run(bare)),
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
    row = {**key, "status": result.status.value, "record": compress_record(encode_result(result))}
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
    """Of results that were planned, which a control is not."""
    table = schema.results
    grouped = (
        select(table.c.run_id, table.c.status, func.count())
        .where(table.c.metric != Metric.CONTROL.value)
        .group_by(table.c.run_id, table.c.status)
    )
    return {(run_id, status): count for run_id, status, count in connection.execute(grouped)}


def compress_record(text: str) -> bytes:
    """Names of functions repeat so much that counts shrink to a tenth."""
    return zlib.compress(text.encode())


def _run(record: bytes) -> Run:
    return decode_run(zlib.decompress(record))


def _result(record: bytes) -> Result:
    return decode_result(zlib.decompress(record))


def _text(value: Any) -> str:
    """SQLite's columns hold what they are given; a damaged page may give them anything."""
    return msgspec.convert(value, str)


def new_run_id(now: datetime.datetime | None = None, token: str | None = None) -> str:
    """An id that sorts by time; six random digits keep runs of one second apart.

    >>> new_run_id(datetime.datetime(2026, 11, 15, 22, 15, 30), "a1b2c3")
    '20261115-221530-a1b2c3'
    """
    now = now if now is not None else datetime.datetime.now(datetime.timezone.utc)
    return f"{now:%Y%m%d-%H%M%S}-{token if token is not None else secrets.token_hex(3)}"


def _resolve_name(text: str, tags_of: Mapping[str, Sequence[str]], where: str) -> str:
    """The id that `text` means among the runs, given by id with their tags, oldest first.

    An id comes before a tag, and a tag before the beginning of an id.
    """
    if text in tags_of:
        return text
    if text == LATEST and tags_of:
        return list(tags_of)[-1]
    tagged = [run_id for run_id, tags in tags_of.items() if text in tags]
    found = tagged or [run_id for run_id in tags_of if text and run_id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        how = "are tagged" if tagged else "begin with"
        raise AmbiguousRunError(
            f"{len(found)} runs in {where} {how} {text!r}: {_list_some(found)}; name one of them"
        )
    raise UnknownRunError(_unknown(text, list(tags_of), where))


def _check_tag(tag: str) -> None:
    """An InvalidArgumentError unless it can be told from ids and be typed in a shell."""
    if not tag or tag == LATEST or tag.startswith("-") or not tag.isprintable() or " " in tag:
        raise InvalidArgumentError(
            f"{tag!r} cannot be a tag: it must not be empty, {LATEST!r}, begin with '-' "
            "or have blanks in it"
        )


def _unknown(text: str, known: list[str], where: str) -> str:
    if not known:
        return f"there is no run {text!r}: {where} has none yet; `torchmark run` makes one"
    return (
        f"there is no run {text!r} in {where}; give an id, the beginning of one, a tag or "
        f"{LATEST!r}. The newest are {_list_some(known[::-1])}"
    )


def _list_some(ids: list[str]) -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more
