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

_MAIN = {
    Metric.TIME.value: Quantity.TIME,
    Metric.INSTRUCTIONS.value: Quantity.INSTRUCTIONS,
}
"""The main figure of the results of a metric."""

_TIME = Metric.TIME.value


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
    points: dict[tuple[str, str, str], list[tuple[int, Point]]] = {}
    names = {metric: quantity.value for metric, quantity in _MAIN.items() if quantity in wanted}
    has_memory = Quantity.MEMORY in wanted
    # A store has millions of rows: this loop looks at each of them once, and at no enum.
    for run_id, case_id, metric, value, low, high, memory in _rows(connection, [*ranks], case_ids):
        rank = ranks.get(run_id)
        if rank is None or not isinstance(case_id, str):
            continue
        is_time = metric == _TIME
        is_zero = is_time and 0 in (value, high)  # a time is never zero
        if is_zero or not _are_figures(value, low, high, memory):
            tell_once(
                damage,
                f"the {metric} of case {case_id!r} in run {run_id} is not in the history: its "
                "figures are not numbers; `torchmark show` reads what was measured",
            )
            continue
        origin = origins[rank]
        if value is not None and metric in names:
            point = Point(origin=origin, value=value, low=low, high=high)
            points.setdefault((case_id, names[metric], origin.machine), []).append((rank, point))
        if memory is not None and has_memory and is_time:
            point = Point(origin=origin, value=memory)
            key = case_id, Quantity.MEMORY.value, origin.machine
            points.setdefault(key, []).append((rank, point))
    cases = read_cases(connection, damage, {case_id for case_id, _, _ in points})
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


def _are_figures(*columns: Any) -> bool:
    """Whether these columns can be figures; SQLite stores anything in a column."""
    for each in columns:
        if each is None or each == 0:
            continue
        if not isinstance(each, float | int) or not _SMALLEST <= each <= _LARGEST:
            return False
    return True


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
