"""Reads series of figures from the columns of a store, without decoding records.

Two indexes hold all columns that are needed here, one by case and one by run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Select, select

from torchmark.model.case import Case
from torchmark.model.result import Metric, Status
from torchmark.model.run import Environment, RunKind
from torchmark.model.series import Origin, Point, Quantity, Series, repeated_run
from torchmark.store import schema

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_AT_ONCE = 400
"""Names in one query: SQLite before 3.32 allows 999 parameters."""

_METRICS = {Quantity.TIME: Metric.TIME, Quantity.INSTRUCTIONS: Metric.INSTRUCTIONS}
"""The metric whose results have the quantity as their main figure."""


def read_origins(connection: Connection) -> list[Origin]:
    """All runs of one environment, in the order of the commits that they measured.

    A run whose row is damaged is left out; `Store.runs` says so. So is a run that repeats cases of
    another one.
    """
    table = schema.runs
    names = ("id", "kind", "started", "suite", "environments")
    rows = connection.execute(select(*(table.c[name] for name in names)))
    return sorted(filter(None, map(_origin, rows)), key=lambda each: each.place)


def _origin(row: Any) -> Origin | None:
    try:
        environments = msgspec.json.decode(row.environments, type=list[Environment])
        kind = RunKind(row.kind)
    except (ValueError, TypeError):  # msgspec's errors are ValueErrors
        return None
    if len(environments) != 1 or not isinstance(row.started, str):
        return None
    (environment,) = environments
    if repeated_run(environment):
        return None
    return Origin(
        run=row.id, started=row.started, kind=kind, suite=row.suite, environment=environment
    )


def read_cases(connection: Connection, ids: Collection[str] | None = None) -> dict[str, Case]:
    """The readable cases that have figures."""
    cases, results = schema.cases, schema.results
    has_figures = (
        select(results.c.case_id)
        .where(results.c.case_id == cases.c.id, results.c.value.is_not(None))
        .exists()
    )
    chosen = select(cases.c.id, cases.c.record)
    queries = [chosen.where(has_figures)]
    if ids is not None:
        queries = [chosen.where(cases.c.id.in_(some)) for some in _split(sorted(ids))]
    found = {}
    for query in queries:
        for case_id, record in connection.execute(query):
            try:
                found[case_id] = msgspec.json.decode(record, type=Case)
            except (ValueError, TypeError):
                continue
    return found


def read_series(
    connection: Connection,
    origins: Sequence[Origin],
    case_ids: Collection[str] | None,
    quantities: Collection[Quantity] | None,
) -> list[Series]:
    """The series of these cases in these runs, by name; None means all cases or quantities."""
    wanted = set(Quantity) if quantities is None else set(quantities)
    ranks = {origin.run: rank for rank, origin in enumerate(origins)}
    points: dict[tuple[str, Quantity, str], list[tuple[int, Point]]] = {}
    for row in _rows(connection, list(ranks), case_ids):
        rank = ranks.get(row.run_id)
        if rank is None:
            continue
        origin = origins[rank]
        for quantity, point in _points(row, origin, wanted):
            points.setdefault((row.case_id, quantity, origin.machine), []).append((rank, point))
    cases = read_cases(connection, {case_id for case_id, _, _ in points})
    found = [
        Series(
            case_id=case_id,
            case=cases[case_id],
            quantity=quantity,
            machine=machine,
            points=tuple(point for _, point in sorted(ranked, key=lambda each: each[0])),
        )
        for (case_id, quantity, machine), ranked in points.items()
        if case_id in cases
    ]
    order = list(Quantity)
    return sorted(
        found, key=lambda one: (one.case.name, one.case_id, order.index(one.quantity), one.machine)
    )


def _points(row: Any, origin: Origin, wanted: set[Quantity]) -> Iterator[tuple[Quantity, Point]]:
    for quantity, metric in _METRICS.items():
        if quantity in wanted and row.metric == metric.value and row.value is not None:
            yield quantity, Point(origin=origin, value=row.value, low=row.low, high=row.high)
    is_time = row.metric == Metric.TIME.value
    if Quantity.MEMORY in wanted and is_time and row.memory is not None:
        yield Quantity.MEMORY, Point(origin=origin, value=row.memory)


def _rows(
    connection: Connection, run_ids: Sequence[str], case_ids: Collection[str] | None
) -> Iterator[Any]:
    """The figures of results that are done; by case if cases are given, otherwise by run."""
    table = schema.results
    names = ("run_id", "case_id", "metric", "value", "low", "high", "memory")
    done: Select[Any] = select(*(table.c[name] for name in names)).where(
        table.c.status == Status.DONE.value,
        table.c.metric.in_([metric.value for metric in _METRICS.values()]),
    )
    column, keys = (
        (table.c.run_id, run_ids) if case_ids is None else (table.c.case_id, sorted(case_ids))
    )
    for some in _split(keys):
        yield from connection.execute(done.where(column.in_(some)))


def _split(keys: Sequence[str]) -> Iterable[Sequence[str]]:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))
