"""The store of runs and the results of their cases.

Each method is one transaction. When it returns, the data is on disk. If the process dies before,
nothing has changed. Several processes and threads may use a store at the same time.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import importlib
import json
import logging
import os
import secrets
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from torchmark.errors import (
    AmbiguousRunError,
    DamagedStoreError,
    InvalidArgumentError,
    StoreError,
    StoreUnavailableError,
    UnknownRunError,
    UnknownStoreError,
)
from torchmark.model.case import Case
from torchmark.model.codec import decode_result, decode_run, encode_result, encode_run
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Run, RunKind, RunState, RunSummary
from torchmark.model.series import Origin, Quantity, Series
from torchmark.printable import printable
from torchmark.store import schema
from torchmark.store.database import (
    as_store_error,
    make_engine,
    name_of,
    option_for,
    read_transaction,
    url_of,
    write_transaction,
)
from torchmark.store.figures import figures_of
from torchmark.store.histories import (
    origin_of,
    origin_rows,
    read_cases,
    read_series,
    tell_once,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

    T = TypeVar("T")


LATEST = "latest"
"""The name of the run that started last."""

LARGEST_RECORD = 128 * 2**20
"""Maximum size of a record in bytes, unpacked; enough for five million samples."""

_LOG = logging.getLogger(__name__)

_LISTED = 8
"""Number of candidates that an error lists before it only counts them."""


def open_store(
    place: str | os.PathLike[str] | None = None, *, create: bool = True, read_only: bool = False
) -> Store:
    """Open the store at a path or URL, or the user's own; create it if it does not exist.

    With `create=False`, a missing file is an error, so that a misspelt name does not create an
    empty store. The same holds for `read_only`, which needs no permission to write the file or its
    folder. A store of an older torchmark is converted, after its file was copied.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/marks.db") as store:
    ...     store.runs()
    []
    """
    url = url_of(place)
    where = name_of(url)
    is_file = url.drivername == "sqlite"
    if is_file and not (create and not read_only) and not Path(where).exists():
        raise UnknownStoreError(
            f"there is no store {where}; create it with `torchmark run{option_for(where)}`, or "
            "name another with --store"
        )
    with as_store_error(where):
        engine = make_engine(url, read_only=read_only)
        try:
            if not read_only:
                schema.prepare(engine, where)
            elif (found := schema.find_version(engine, where)) != schema.VERSION:
                engine.dispose()
                return _convert_to_read(place, found)
        except BaseException:
            engine.dispose()
            raise
    return Store(engine, where)


def _convert_to_read(place: str | os.PathLike[str] | None, found: int | None) -> Store:
    try:
        return open_store(place)
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}. The store has version {found or 'none'} and must be converted before it can "
            "be read; copy it to your own directory, and name the copy with --store"
        ) from error


class Store:
    """Runs and results in a database; made by `open_store`, closed by `close` or a `with` block."""

    def __init__(self, engine: Engine, where: str) -> None:
        self._engine = engine
        self.where = where
        """Its path, or its URL without the password."""

        self.damage: list[str] = []
        """Messages about data that could not be read so far; each says what to do."""

    @property
    def place(self) -> str:
        """What opens it in another process. Do not show it: a URL may have a password."""
        if self._engine.dialect.name == "sqlite":
            return self.where
        return self._engine.url.render_as_string(hide_password=False)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def create(self, run: Run) -> None:
        """Store a new run with its tags and existing results; `new_run_id` makes its id.

        A tag that another run has is moved to this run.
        """
        for tag in run.tags:
            _check_tag(tag)
        row = {"id": run.id, "state": run.state.value, **columns_of(run)}
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            try:
                connection.execute(insert(schema.runs).values(row))
            except IntegrityError as error:
                raise StoreError(
                    f"run {run.id!r} already exists in {self.where}; use a new id"
                ) from error
            for tag in run.tags:
                self._move_tag(connection, run.id, tag)
            for result in run.results:
                _add_result(connection, run.id, result)

    def update(self, run: Run) -> None:
        """Store changes of a run; its state, tags and results are not changed."""
        with self._changing(run.id) as connection:
            chosen = update(schema.runs).where(schema.runs.c.id == run.id)
            connection.execute(chosen.values(columns_of(run)))

    def add(self, run_id: str, result: Result) -> bool:
        """Store a result; return False if the run already has it with status done.

        Two results are the same if their case, metric and environments are equal. A result that
        failed, was skipped or is partial is replaced, so that a resumed run can try again. A result
        that is done is stored once, even if two processes continue the same run.
        """
        with self._changing(run_id) as connection:
            return _add_result(connection, run_id, result)

    def finish(self, run_id: str, state: RunState) -> None:
        """Set the state of a run."""
        with self._changing(run_id) as connection:
            chosen = update(schema.runs).where(schema.runs.c.id == run_id)
            connection.execute(chosen.values(state=state.value))

    def tag(self, run_id: str, tag: str) -> None:
        """Give a run a tag; a tag that another run has is moved."""
        _check_tag(tag)
        with self._changing(run_id) as connection:
            self._move_tag(connection, run_id, tag)

    def untag(self, tag: str) -> str:
        """Remove a tag and return the id of the run that had it."""
        table = schema.tags
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            run_id = connection.execute(select(table.c.run_id).filter_by(tag=tag)).scalar()
            if run_id is None:
                raise UnknownRunError(f"no run in {self.where} has the tag {tag!r}")
            connection.execute(delete(table).filter_by(tag=tag))
        return str(run_id)

    def remove(self, run_id: str) -> None:
        """Remove a run and its results."""
        with self._changing(run_id) as connection:
            for table in (schema.results, schema.tags):
                connection.execute(delete(table).where(table.c.run_id == run_id))
            connection.execute(delete(schema.runs).where(schema.runs.c.id == run_id))

    def runs(self) -> list[RunSummary]:
        """Return all readable runs, the oldest first; `damage` lists the others."""
        table = schema.runs
        names = ("id", "kind", "started", "state", "planned", "environments", "suite")
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

        found = (self._read_row(summarise, row) for row in rows)
        return [each for each in found if each is not None]

    def id_of(self, name: str) -> str:
        """Return the id of the run with this id, beginning of an id, tag or "latest"."""
        with self._reading() as connection:
            return _resolve_name(name, self._tags_of_runs(connection), self.where)

    def run(self, name: str) -> Run:
        """Return the run with this id, beginning of an id, tag or "latest", with its results.

        A result that cannot be read is returned as failed, and `damage` describes it.
        """
        runs, results = schema.runs, schema.results
        columns = [results.c[name] for name in ("case_id", "metric", "environments", "record")]
        with self._reading() as connection:
            tags_of = self._tags_of_runs(connection)
            run_id = _resolve_name(name, tags_of, self.where)
            chosen = select(runs.c.state, runs.c.record).where(runs.c.id == run_id)
            row = connection.execute(chosen).one()
            held = select(*columns).where(results.c.run_id == run_id)
            rows = connection.execute(held.order_by(results.c.place)).all()
        run = msgspec.structs.replace(
            self._read(_run, row.record, run_id),
            state=self._read(RunState, row.state, run_id),
            tags=tuple(tags_of[run_id]),
        )
        with _without_garbage_collection():
            found = [self._read_result(each, run) for each in rows]
        return msgspec.structs.replace(run, results=tuple(filter(None, found)))

    def cases(self) -> dict[str, Case]:
        """Return all cases that have figures, by their ids."""
        with self._reading() as connection:
            return read_cases(connection, self.damage)

    def origins(self) -> list[Origin]:
        """Return the runs, in the order of the commits that they measured."""
        with self._reading() as connection:
            return self._read_origins(connection)

    def series(
        self,
        case_ids: Collection[str] | None = None,
        quantities: Collection[Quantity] | None = None,
        *,
        origins: Sequence[Origin] | None = None,
    ) -> list[Series]:
        """Return the series of cases: one for each quantity and class of machines.

        None means all cases, quantities or runs. Damaged records do not matter here; damaged rows
        do, and `damage` lists them.
        """
        with self._reading() as connection:
            runs = self._read_origins(connection) if origins is None else origins
            return read_series(connection, runs, case_ids, quantities, self.damage)

    def result(self, run_id: str, case_id: str, metric: Metric) -> Result | None:
        """Return a result of one environment; None if it is missing or its record is damaged.

        `damage` describes a damaged record.
        """
        table = schema.results
        key = {"run_id": run_id, "case_id": case_id, "metric": metric.value}
        with self._reading() as connection:
            found = connection.execute(select(table.c.record).filter_by(**key)).scalars().first()
        try:
            return None if found is None else _result(found)
        except _UNREADABLE as error:
            what = f"the {metric.value} of case {case_id} in run {run_id}"
            tell_once(self.damage, f"{what}: its record in the store is damaged ({error})")
            return None

    def _read_origins(self, connection: Connection) -> list[Origin]:
        found = (self._read_row(origin_of, row) for row in origin_rows(connection))
        return sorted(filter(None, found), key=lambda each: each.place)

    def _read_row(self, decode: Callable[[Any], T], row: Any) -> T | None:
        """Return what the row of a run says; if it is damaged, say so and return None."""
        try:
            return self._read(decode, row, row.id)
        except DamagedStoreError as error:
            tell_once(self.damage, str(error))
            return None

    def _read_result(self, row: Any, run: Run) -> Result | None:
        """Return the result; if its record is damaged, return the planned one as failed."""
        try:
            return _result(row.record)
        except _UNREADABLE as error:
            store = option_for(self.where)
            remedy = f"measure it again: torchmark {run.kind.value} --resume {run.id}{store}"
            if run.kind in (RunKind.TIME, RunKind.COUNT):  # these cannot be resumed
                remedy = f"remove the run: torchmark rm {run.id}{store}"
            reason = f"its record in the store is damaged ({error}); {remedy}"
            planned = [
                each
                for each in run.plan
                if (each.case.id, each.metric.value) == (row.case_id, row.metric)
                and json.dumps(each.environments) == row.environments
            ]
            title = planned[0].case.title if planned else "which was not planned"
            self.damage.append(
                f"the {row.metric} of case {row.case_id} ({title}) in run {run.id}: {reason}"
            )
            return planned[0].finish(Status.FAILED, reason=reason) if planned else None

    def _tags_of_runs(self, connection: Connection) -> dict[str, list[str]]:
        """Return the ids of all runs, the oldest first, each with its tags."""
        table, tags = schema.runs, _tags_by_run(connection)
        ids = connection.execute(select(table.c.id).order_by(table.c.started, table.c.id)).scalars()
        return {run_id: tags.get(run_id, []) for run_id in ids if isinstance(run_id, str)}

    def _move_tag(self, connection: Connection, run_id: str, tag: str) -> None:
        table = schema.tags
        if connection.execute(select(schema.runs.c.id).filter_by(id=tag)).first() is not None:
            raise InvalidArgumentError(f"{tag!r} cannot be a tag, because it is the id of a run")
        before = connection.execute(select(table.c.run_id).filter_by(tag=tag)).scalar()
        if before == run_id:
            return
        if before is not None:
            connection.execute(delete(table).filter_by(tag=tag))
            _LOG.warning("moved the tag %s from %s to %s", tag, before, run_id)
        connection.execute(insert(table).values(run_id=run_id, tag=tag))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with as_store_error(self.where), read_transaction(self._engine) as connection:
            yield connection

    @contextlib.contextmanager
    def _changing(self, run_id: str) -> Iterator[Connection]:
        """A transaction that writes to an existing run."""
        with as_store_error(self.where), write_transaction(self._engine) as connection:
            found = select(schema.runs.c.id).where(schema.runs.c.id == run_id)
            if connection.execute(found).first() is None:
                raise UnknownRunError(
                    f"there is no run {run_id!r} in {self.where}; it may have been removed"
                )
            yield connection

    def _read(self, decode: Callable[[Any], T], content: Any, run_id: str) -> T:
        try:
            return decode(content)
        except _UNREADABLE as error:
            raise DamagedStoreError(
                f"a record of run {run_id!r} in {self.where} cannot be read: {error}; restore the "
                "store from a backup, or remove the run: "
                f"torchmark rm {run_id}{option_for(self.where)}"
            ) from error


_UNREADABLE = (ValueError, TypeError, RecursionError, zlib.error)
"""Exceptions that reading a damaged record may raise."""


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Turn it off: records have no cycles, and looking for them takes longer than reading them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def columns_of(run: Run) -> dict[str, Any]:
    """Return the columns of a run that `create` and `update` write."""
    bare = msgspec.structs.replace(run, state=RunState.RUNNING, tags=(), results=())
    return {
        "kind": run.kind.value,
        "started": run.started,
        "planned": len(run.plan),
        "environments": msgspec.json.encode(run.environments).decode(),
        "git_commit": run.environment.fact("git", "commit"),
        "git_branch": run.environment.fact("git", "branch"),
        "suite": suite_of(run),
        "record": compress_record(encode_run(bare)),
    }


def suite_of(run: Run) -> str:
    """Return what a list shows as measured by the run; files are named without their folders."""
    replay = run.settings.get("replay")
    trace = replay.get("trace") if isinstance(replay, Mapping) else None
    named = run.settings.get("suites") or [trace or run.settings.get("spec")]
    names = [Path(name).name or name for name in named if isinstance(name, str)]
    # PostgreSQL stores no NUL characters.
    return printable(", ".join(names) or (run.plan[0].case.name if run.plan else ""))


def _add_result(connection: Connection, run_id: str, result: Result) -> bool:
    key = {
        "run_id": run_id,
        "case_id": result.case.id,
        "metric": result.metric.value,
        "environments": json.dumps(result.environments),
    }
    same = delete(schema.results).filter_by(**key)
    connection.execute(same.where(schema.results.c.status != Status.DONE.value))
    row = {
        **key,
        "status": result.status.value,
        "record": compress_record(encode_result(result)),
        **msgspec.structs.asdict(figures_of(result)),
    }
    keep_case(connection, result.case)
    if _insert_once(connection, schema.results, row, key):
        return True
    held = connection.execute(select(schema.results.c.record).filter_by(**key)).scalar_one()
    try:
        _result(held)
    except _UNREADABLE:  # the stored result is damaged: replace it with the new one
        connection.execute(update(schema.results).filter_by(**key).values(row))
        return True
    return False


def keep_case(connection: Connection, case: Case) -> None:
    """Store the case, so that a history can name it without reading records."""
    row = {"id": case.id, "record": msgspec.json.encode(case).decode()}
    if not _insert_once(connection, schema.cases, row, ["id"]):
        same = update(schema.cases).filter_by(id=case.id)  # repairs a damaged record
        connection.execute(same.where(schema.cases.c.record != row["record"]).values(row))


def _insert_once(
    connection: Connection, table: Any, row: Mapping[str, Any], key: Iterable[str]
) -> bool:
    """Insert the row unless one with the same key exists; return whether it was inserted."""
    # Importing both dialects takes 0.1 s, and the one that is needed is already imported.
    dialect = importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    statement = (
        dialect.insert(table).values(dict(row)).on_conflict_do_nothing(index_elements=[*key])
    )
    # Without the option, SQLAlchemy does not report the row count of an INSERT.
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
    """Count the planned results; a control is not planned."""
    table = schema.results
    grouped = (
        select(table.c.run_id, table.c.status, func.count())
        .where(table.c.metric != Metric.CONTROL.value)
        .group_by(table.c.run_id, table.c.status)
    )
    return {(run_id, status): count for run_id, status, count in connection.execute(grouped)}


def compress_record(text: str) -> bytes:
    """Compress a record; function names repeat so often that counts shrink to a tenth."""
    content = text.encode()
    if len(content) > LARGEST_RECORD:
        raise InvalidArgumentError(
            f"a record of {len(content):,} bytes is more than the limit of a store "
            f"({LARGEST_RECORD:,}); keep fewer samples, or let the case print less"
        )
    return zlib.compress(content)


def decompress_record(record: bytes) -> bytes:
    """Decompress a record; raise ValueError if it is truncated or larger than any record."""
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(record, LARGEST_RECORD)
    if not unpacker.eof:
        raise ValueError(f"it is truncated, or unpacks to more than {LARGEST_RECORD:,} bytes")
    return content


def _run(record: bytes) -> Run:
    return decode_run(decompress_record(record))


def _result(record: bytes) -> Result:
    return decode_result(decompress_record(record))


def new_run_id(now: datetime.datetime | None = None, token: str | None = None) -> str:
    """Return an id that sorts by time; six random digits distinguish runs of the same second.

    >>> new_run_id(datetime.datetime(2026, 11, 15, 22, 15, 30), "a1b2c3")
    '20261115-221530-a1b2c3'
    """
    now = now if now is not None else datetime.datetime.now(datetime.timezone.utc)
    return f"{now:%Y%m%d-%H%M%S}-{token if token is not None else secrets.token_hex(3)}"


def _resolve_name(text: str, tags_of: Mapping[str, Sequence[str]], where: str) -> str:
    """Return the id that `text` means among these runs, which are ordered oldest first.

    An id takes precedence over a tag, and a tag over the beginning of an id.
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
    """Raise InvalidArgumentError if the tag looks like an id or is hard to type in a shell."""
    if not tag or tag == LATEST or tag.startswith("-") or not tag.isprintable() or " " in tag:
        raise InvalidArgumentError(
            f"{tag!r} cannot be a tag: a tag must not be empty, must not be {LATEST!r}, "
            "and must not begin with '-' or contain spaces; give another name"
        )


def _unknown(text: str, known: list[str], where: str) -> str:
    if not known:
        return (
            f"there is no run {text!r}: {where} has no runs yet; create one with `torchmark "
            f"run{option_for(where)}`"
        )
    newest = "The newest are" if len(known) > 1 else "The only run is"
    return (
        f"there is no run {text!r} in {where}; give an id, the beginning of an id, a tag or "
        f"{LATEST!r}. {newest} {_list_some(known[::-1])}"
    )


def _list_some(ids: list[str]) -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more
