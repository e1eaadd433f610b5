"""Reads series of figures from the columns of a store, without decoding records.

Two indexes hold all columns that are needed here, one by case and one by run.

A row that cannot be read is left out. A message about it is added to the list `damage` of the
caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Select, select

from torchmark.model.case import Case
from torchmark.model.result import Metric, Status
from torchmark.model.run import Environment, RunKind
from torchmark.model.series import Origin, Point, Quantity, Series, comparable_time, repeated_run
from torchmark.store import schema

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_AT_ONCE = 400
"""Names in one query: SQLite before 3.32 allows 999 parameters."""

_SMALLEST, _LARGEST = 1e-30, 1e30
"""No time, count or size is beyond these, so sums and logarithms of them are finite."""

_METRICS = {Quantity.TIME: Metric.TIME, Quantity.INSTRUCTIONS: Metric.INSTRUCTIONS}
"""The metric whose results have the quantity as their main figure."""


UNREADABLE = (ValueError, TypeError, RecursionError)
"""What reading a damaged row may raise; errors of msgspec are ValueErrors."""


def origin_rows(connection: Connection) -> Iterable[Any]:
    """The rows of all runs, for `origin_of`."""
    table = schema.runs
    names = ("id", "kind", "started", "suite", "environments")
    return connection.execute(select(*(table.c[name] for name in names)))


def origin_of(row: Any) -> Origin | None:
    """The run of a row; raise if it is damaged.

    None if it has several environments or none, or repeats cases of another run.
    """
    environments = msgspec.json.decode(row.environments, type=list[Environment])
    kind = RunKind(row.kind)
    if not all(isinstance(each, str) for each in (row.id, row.started, row.suite)):
        raise ValueError("a column should be text")
    if not comparable_time(row.started):
        raise ValueError(f"its start, {row.started!r}, is not a time")
    if len(environments) != 1:
        return None
    (environment,) = environments
    if repeated_run(environment):
        return None
    return Origin(
        run=row.id, started=row.started, kind=kind, suite=row.suite, environment=environment
    )


def read_cases(
    connection: Connection, damage: list[str], ids: Collection[str] | None = None
) -> dict[str, Case]:
    """The cases with these ids, or all that have figures."""
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
                found[case_id] = _case(case_id, record)
            except UNREADABLE as error:
                tell_once(
                    damage,
                    f"case {case_id!r} is not in the history: its record cannot be read ({error}); "
                    "the next run of the case repairs it",
                )
    return found


def _case(case_id: Any, record: Any) -> Case:
    case = msgspec.json.decode(record, type=Case)
    if case.id != case_id:
        raise ValueError("it is the record of another case")
    return case


def tell_once(damage: list[str], message: str) -> None:
    """Add a message, unless another query has found the same damage."""
    if message not in damage:
        damage.append(message)


def read_series(
    connection: Connection,
    origins: Sequence[Origin],
    case_ids: Collection[str] | None,
    quantities: Collection[Quantity] | None,
    damage: list[str],
) -> list[Series]:
    """The series of these cases in these runs, by name; None means all cases or quantities."""
    wanted = set(Quantity) if quantities is None else set(quantities)
    ranks = {origin.run: rank for rank, origin in enumerate(origins)}
    points: dict[tuple[str, Quantity, str], list[tuple[int, Point]]] = {}
    for row in _rows(connection, list(ranks), case_ids):
        rank = ranks.get(row.run_id)
        if rank is None or not isinstance(row.case_id, str):
            continue
        if not _are_figures(row):
            tell_once(
                damage,
                f"the {row.metric} of case {row.case_id!r} in run {row.run_id} is not in the "
                "history: its figures are not numbers; `torchmark show` reads what was measured",
            )
            continue
        origin = origins[rank]
        for quantity, point in _points(row, origin, wanted):
            points.setdefault((row.case_id, quantity, origin.machine), []).append((rank, point))
    cases = read_cases(connection, damage, {case_id for case_id, _, _ in points})
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
            ends = (row.low, row.high) if quantity is Quantity.TIME else (None, None)
            yield quantity, Point(origin=origin, value=row.value, low=ends[0], high=ends[1])
    is_time = row.metric == Metric.TIME.value
    if Quantity.MEMORY in wanted and is_time and row.memory is not None:
        yield Quantity.MEMORY, Point(origin=origin, value=row.memory)


def _are_figures(row: Any) -> bool:
    """Whether a row has numbers that figures can be; SQLite stores anything in a column."""
    columns = [each for each in (row.value, row.low, row.high, row.memory) if each is not None]
    if not all(isinstance(each, float | int) for each in columns):
        return False
    # A time is never zero.
    is_time = row.metric == Metric.TIME.value
    return not (is_time and 0 in (row.value, row.high)) and all(
        each == 0 or _SMALLEST <= each <= _LARGEST for each in columns
    )


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
