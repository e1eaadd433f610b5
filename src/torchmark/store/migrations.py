"""Converts the tables of each version to the next, with Alembic's operations.

This module is imported only for a store of an older version, because importing Alembic takes longer
than opening a store. The version of a store is in `torchmark_version`, which every torchmark reads
first, so Alembic does not keep its own table.

A record that cannot be read is left unchanged: the store then reports its run as damaged, as 0.1
did, and all other runs can be opened.

Version 1 belongs to torchmark 0.1, which had times and instructions, one environment per run, and a
row of figures for each case of a sweep. Its records are `_Run` and `_Result`; they are only read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, Double, Text, text

from torchmark.model.case import Case, Language
from torchmark.model.codec import (
    decode_measurement,
    decode_result,
    decode_run,
    decode_stats,
    encode_result,
)
from torchmark.model.measurement import Measurement
from torchmark.model.result import (
    Counts,
    Facts,
    Metric,
    PlannedResult,
    Result,
    Status,
    TimeSummary,
    Timing,
    counts_of_stats,
)
from torchmark.model.run import Environment, Run, RunKind, RunState
from torchmark.store.figures import figures_of
from torchmark.store.store import (
    columns_of,
    compress_record,
    decompress_record,
    keep_case,
    suite_of,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, zlib.error)
"""Exceptions that reading a damaged record may raise."""


def migrate(connection: Connection, found: int) -> None:
    """Convert the tables from version `found` to the newest, in the open transaction."""
    with Operations.context(MigrationContext.configure(connection)):
        for step in _STEPS[found - 1 :]:
            step()


def _upgrade_to_2() -> None:
    """Add all kinds of runs, several environments, and the records of the second design."""
    _change_columns_of_runs()
    _change_columns_of_results()
    _convert_runs()
    _convert_results()
    op.execute(text("UPDATE torchmark_version SET version = 2"))


def _upgrade_to_3() -> None:
    """Let a tag belong to one run, the newest that has it; add a column for what was measured."""
    op.add_column("torchmark_runs", Column("suite", Text, nullable=False, server_default=""))
    _convert_each("torchmark_runs", "id", _suite_of_run)
    tags = "SELECT tag, run_id FROM torchmark_tags JOIN torchmark_runs ON run_id = id"
    in_order = text(f"{tags} ORDER BY started, id")
    newest_of = {row.tag: row.run_id for row in op.get_bind().execute(in_order)}
    for tag, newest in newest_of.items():
        others = text("DELETE FROM torchmark_tags WHERE tag = :tag AND run_id != :newest")
        op.execute(others.bindparams(tag=tag, newest=newest))
    op.create_index("torchmark_tags_held_once", "torchmark_tags", ["tag"], unique=True)
    op.execute(text("UPDATE torchmark_version SET version = 3"))


def _suite_of_run(row: Any) -> dict[str, Any]:
    return {"suite": suite_of(decode_run(decompress_record(row.record)))}


def _upgrade_to_4() -> None:
    """Add the figures that a history reads, and the table of cases."""
    figures = ("value", "low", "high", "memory")
    for name in figures:
        op.add_column("torchmark_results", Column(name, Double))
    for name, first in (
        ("torchmark_results_of_case", ("case_id", "metric", "status", "run_id")),
        ("torchmark_results_of_run", ("run_id", "status", "metric", "case_id")),
    ):
        op.create_index(name, "torchmark_results", [*first, "environments", *figures])
    columns = (Column("id", Text, primary_key=True), Column("record", Text, nullable=False))
    op.create_table("torchmark_cases", *columns)
    _convert_each("torchmark_results", "place", _figures_of_result)
    op.execute(text("UPDATE torchmark_version SET version = 4"))


def _figures_of_result(row: Any) -> dict[str, Any]:
    result = decode_result(decompress_record(row.record))
    keep_case(op.get_bind(), result.case)
    return msgspec.structs.asdict(figures_of(result))


_STEPS = (_upgrade_to_2, _upgrade_to_3, _upgrade_to_4)
"""The step to version 2, and the later steps."""


def _change_columns_of_runs() -> None:
    op.add_column("torchmark_runs", Column("kind", Text, nullable=False, server_default="run"))
    op.add_column("torchmark_runs", Column("git_commit", Text))
    op.add_column("torchmark_runs", Column("git_branch", Text))
    _rename_column("torchmark_runs", "environment", "environments")


def _change_columns_of_results() -> None:
    # SQLite does not name the constraint, so the convention gives it the name that PostgreSQL uses.
    names = {"uq": "%(table_name)s_%(column_0_N_name)s_key"}
    with op.batch_alter_table("torchmark_results", naming_convention=names) as table:
        table.drop_constraint("torchmark_results_run_id_case_id_kind_key", type_="unique")
        table.add_column(Column("environments", Text, nullable=False, server_default='[""]'))
    _rename_column("torchmark_results", "kind", "metric")
    _rename_column("torchmark_results", "outcome", "status")
    key = ["run_id", "case_id", "metric", "environments"]
    op.create_index("torchmark_results_held_once", "torchmark_results", key, unique=True)


def _rename_column(table: str, old: str, new: str) -> None:
    """Rename the column in place; for SQLite, Alembic would copy the whole table."""
    op.execute(text(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}"))


def _convert_runs() -> None:
    # In two passes, so that a run whose record is damaged is still listed.
    _convert_each("torchmark_runs", "id", _environments_of_run)
    _convert_each("torchmark_runs", "id", _columns_of_run)


def _environments_of_run(row: Any) -> dict[str, Any]:
    return {"environments": json.dumps([{"facts": json.loads(row.environments)}])}


def _columns_of_run(row: Any) -> dict[str, Any]:
    columns = columns_of(_read_run(decompress_record(row.record)))
    del columns["suite"]  # added by version 3
    return columns


def _convert_results() -> None:
    for old, metric in _METRICS.items():
        op.execute(
            text("UPDATE torchmark_results SET metric = :new WHERE metric = :old").bindparams(
                new=metric.value, old=old
            )
        )
    _convert_each("torchmark_results", "place", _columns_of_result)


def _columns_of_result(row: Any) -> dict[str, Any]:
    result = _read_result(decompress_record(row.record))
    return {"record": compress_record(encode_result(result))}


def _convert_each(table: str, key: str, convert: Callable[[Any], dict[str, Any]]) -> None:
    """Convert row by row, because the records of a large store do not fit into memory."""
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


_METRICS = {"time": Metric.TIME, "count": Metric.INSTRUCTIONS}
"""By their names in 0.1."""

_NOTHING = msgspec.Raw(b"null")

_SUMMARY = {
    "samples": "samples",
    "median": "median_s",
    "low": "low_s",
    "high": "high_s",
    "mean": "mean_s",
    "least": "min_s",
    "p95": "p95_s",
    "deviation": "std_s",
}
"""Fields of a TimeSummary, with their columns in a sweep's row."""

_FACTS = {
    "flops": "flops",
    "bytes": "bytes",
    "peak_memory_bytes": "peak_memory_bytes",
    "max_error": "max_error",
    "prepare_seconds": "prepare_s",
}
"""Fields of Facts, with their columns in a sweep's row."""


class _Run(msgspec.Struct, tag_field="torchmark", tag="run"):
    id: str
    started: str
    cases: list[dict[str, Any]]
    plan: list[tuple[Annotated[int, msgspec.Meta(ge=0)], Literal["time", "count"]]]
    """Indices into the cases, and what was measured of each."""

    settings: dict[str, Any]
    environment: dict[str, Any]


class _Result(msgspec.Struct, tag_field="torchmark", tag="case result"):
    case: dict[str, Any]
    kind: Literal["time", "count"]
    outcome: Status
    finished: str
    seconds: float
    reason: str
    stdout: str
    stderr: str
    measurement: msgspec.Raw = _NOTHING
    counts: msgspec.Raw = _NOTHING
    compile_seconds: float | None = None
    sweep: dict[str, Any] | None = None
    """What a sweep recorded for a case in addition to its samples, by column."""


def _read_run(text: bytes) -> Run:
    """Return the run without its state and tags, which have their own columns."""
    record = msgspec.json.decode(text, type=_Run)
    cases = [_case_of(case) for case in record.cases]
    return Run(
        id=record.id,
        kind=RunKind.SWEEP if "sweep" in record.settings else RunKind.RUN,
        started=record.started,
        state=RunState.RUNNING,
        plan=tuple(
            PlannedResult(case=cases[index], metric=_METRICS[kind]) for index, kind in record.plan
        ),
        environments=(Environment(facts=record.environment),),
        settings=_settings_of(record, cases),
    )


def _settings_of(record: _Run, cases: Sequence[Case]) -> dict[str, Any]:
    """Return the settings; for a sweep, with the sizes of every case.

    0.1 had the sizes only in the rows and in the labels of cases.
    """
    if "sweep" not in record.settings:
        return record.settings
    sizes = {case.id: dict(pair.split("=") for pair in case.label[1].split()) for case in cases}
    return {
        "csv": record.settings["sweep"].get("csv"),
        "dims": list(next(iter(sizes.values()), {})),
        "sizes": {case_id: [int(size) for size in of.values()] for case_id, of in sizes.items()},
    }


def _read_result(text: bytes) -> Result:
    record = msgspec.json.decode(text, type=_Result)
    return Result(
        case=_case_of(record.case),
        metric=_METRICS[record.kind],
        status=record.outcome,
        finished=record.finished,
        seconds=record.seconds,
        reason=record.reason,
        stdout=record.stdout,
        stderr=record.stderr,
        payload=_payload_of(record),
        facts=_facts_of(record),
    )


def _case_of(record: dict[str, Any]) -> Case:
    language, model = Language[record["language"]].value, record["model"]
    model = None if model is None else {"source": model}
    return msgspec.convert({**record, "language": language, "model": model}, Case)


def _payload_of(record: _Result) -> Timing | TimeSummary | Counts | None:
    if record.counts != _NOTHING:
        return counts_of_stats(decode_stats(bytes(record.counts)))
    if record.measurement != _NOTHING:
        return _times_of(decode_measurement(bytes(record.measurement)))
    row = record.sweep or {}
    figures = {name: row.get(column) for name, column in _SUMMARY.items()}
    if None in (figures["median"], figures["low"], figures["high"]):
        return None
    return msgspec.convert(figures, TimeSummary)


def _times_of(measurement: Measurement) -> Timing | TimeSummary | None:
    """Return the samples if they were kept, otherwise a summary of the times."""
    parts = measurement.replicates or (measurement,)
    samplings = tuple(each.sampling for each in parts if each.sampling is not None)
    if len(samplings) == len(parts):
        return Timing(processes=samplings)
    return TimeSummary.of_samples(measurement) if measurement.raw_times else None


def _facts_of(record: _Result) -> Facts:
    row = record.sweep
    if row is None:
        return Facts(prepare_seconds=record.compile_seconds)
    facts = {name: row.get(column) for name, column in _FACTS.items()}
    # The reason of a case that was measured says how its output differs from eager's.
    is_remark = record.outcome is Status.DONE and row.get("reason")
    return msgspec.convert({**facts, "remarks": [row["reason"]] if is_remark else []}, Facts)
