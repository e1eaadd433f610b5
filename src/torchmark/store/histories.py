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
from torchmark.model.series import Origin, Point, Quantity, Series
from torchmark.store import schema

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_AT_ONCE = 400
"""Names in one query: SQLite before 3.32 allows 999 parameters."""

_MAIN = {
    Metric.TIME.value: Quantity.TIME,
    Metric.INSTRUCTIONS.value: Quantity.INSTRUCTIONS,
}
"""The main figure of the results of a metric."""


def read_origins(connection: Connection) -> list[Origin]:
    """All runs of one environment, in the order of the commits that they measured.

    A run whose row is damaged is left out; `Store.runs` says so.
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
    points: dict[tuple[str, str, str], list[tuple[int, Point]]] = {}
    names = {metric: quantity.value for metric, quantity in _MAIN.items() if quantity in wanted}
    has_memory = Quantity.MEMORY in wanted
    # A store has millions of rows: this loop looks at each of them once, and at no enum.
    for run_id, case_id, metric, value, low, high, memory in _rows(connection, [*ranks], case_ids):
        rank = ranks.get(run_id)
        if rank is None:
            continue
        origin = origins[rank]
        if value is not None and metric in names:
            point = Point(origin=origin, value=value, low=low, high=high)
            points.setdefault((case_id, names[metric], origin.machine), []).append((rank, point))
        if memory is not None and has_memory and metric == Metric.TIME.value:
            point = Point(origin=origin, value=memory)
            key = case_id, Quantity.MEMORY.value, origin.machine
            points.setdefault(key, []).append((rank, point))
    cases = read_cases(connection, {case_id for case_id, _, _ in points})
    found = [
        Series(
            case_id=case_id,
            case=cases[case_id],
            quantity=Quantity(quantity),
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


def _rows(
    connection: Connection, run_ids: Sequence[str], case_ids: Collection[str] | None
) -> Iterator[Any]:
    """The figures of results that are done; by case if cases are given, otherwise by run."""
    table = schema.results
    names = ("run_id", "case_id", "metric", "value", "low", "high", "memory")
    done: Select[Any] = select(*(table.c[name] for name in names)).where(
        table.c.status == Status.DONE.value,
        table.c.metric.in_([*_MAIN]),
    )
    column, keys = (
        (table.c.run_id, run_ids) if case_ids is None else (table.c.case_id, sorted(case_ids))
    )
    for some in _split(keys):
        yield from connection.execute(done.where(column.in_(some)))


def _split(keys: Sequence[str]) -> Iterable[Sequence[str]]:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))
