"""A run of suites: a table of the cases with their times and instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.estimates import instructions_of, time_of
from torchmark.model.result import Counts, Metric
from torchmark.report.figures import first_line
from torchmark.report.view import Cell, Column, ColumnKind, Detail, Row, Section, Table, View
from torchmark.report.views.common import (
    code_details,
    count_statuses,
    data_table,
    frame_view,
    group_of,
    instructions_cell,
    name_in_group,
    results_in_order,
    short_names,
    time_cell,
    time_values,
)
from torchmark.report.views.dots import chart_times

if TYPE_CHECKING:
    from torchmark.model.case import Case
    from torchmark.model.result import Result
    from torchmark.model.run import Run
    from torchmark.report.view import Value

_COLUMNS = {
    Metric.TIME: Column(
        name="time", kind=ColumnKind.SECONDS, hint="Median of one run, with its 95 % interval"
    ),
    Metric.INSTRUCTIONS: Column(
        name="instructions", kind=ColumnKind.INSTRUCTIONS, hint="Of one run, without the loop"
    ),
}
_COMPILED = Column(
    name="compiled in",
    kind=ColumnKind.SECONDS,
    hint="Compiling, the first run included",
    is_wide_only=True,
)


def make_view(run: Run) -> View:
    summary = f"{count_statuses(run)}."
    return frame_view(run, "Run", summary=summary, sections=[_cases(run)], data=_data(run))


def _cases(run: Run) -> Section:
    """The cases in the order of the plan, under the first of their labels."""
    found = {(result.case.id, result.metric): result for result in run.results}
    planned = {(each.case.id, each.metric) for each in run.plan} | set(found)
    metrics = [metric for metric in _COLUMNS if any(metric is each for _, each in planned)]
    has_compiled = any(result.facts.prepare_seconds is not None for result in run.results)
    cases: dict[str, dict[str, Case]] = {}
    for case in (*(each.case for each in run.plan), *(each.case for each in run.results)):
        cases.setdefault(group_of(case), {})[case.id] = case
    every = [case for members in cases.values() for case in members.values()]
    rows = []
    for group, members in cases.items():
        for case in members.values():
            of_case = {metric: found.get((case.id, metric)) for metric in metrics}
            cells = [
                _cell(metric, of_case[metric], is_planned=(case.id, metric) in planned)
                for metric in metrics
            ]
            cells += [_compile_cell(of_case.get(Metric.TIME))] if has_compiled else []
            rows.append(
                Row(
                    cells=(Cell(value=name_in_group(case)), *cells),
                    group=group,
                    details=(*code_details(case), *_warnings(of_case.get(Metric.TIME))),
                )
            )
    columns = (
        Column(name="case"),
        *(_COLUMNS[metric] for metric in metrics),
        *([_COMPILED] if has_compiled else []),
    )
    times = [
        (name, group_of(case), time)
        for case, name in zip(every, short_names(every), strict=True)
        if (time := time_of(found.get((case.id, Metric.TIME)))) is not None
    ]
    return Section(
        id="results",
        title="Results",
        charts=chart_times("Times", times),
        table=Table(columns=columns, rows=tuple(rows)),
    )


def _cell(metric: Metric, result: Result | None, *, is_planned: bool) -> Cell:
    make = time_cell if metric is Metric.TIME else instructions_cell
    return make(result, is_planned=is_planned)


def _compile_cell(result: Result | None) -> Cell:
    return Cell(value=None if result is None else result.facts.prepare_seconds)


def _warnings(result: Result | None) -> tuple[Detail, ...]:
    """For pages: the warnings about one case, in full."""
    time = time_of(result)
    lines = tuple(map(str, time.warnings)) if time else ()
    return (Detail(title="Warnings", lines=lines, is_page_only=True),) if lines else ()


_DATA = (
    "run", "case", "label", "language", "runtime", "autograd", "num_threads", "params", "metric",
    "status", "median", "interval_low", "interval_high", "iqr", "samples", "instructions_per_run",
    "counted_runs", "compile_seconds", "seconds", "finished", "warnings", "reason",
)  # fmt: skip
"""Stable: new columns are added at the end."""


def _data(run: Run) -> Table:
    """A row for each result, times in seconds."""
    return data_table(
        _DATA,
        (
            {"run": run.id, **_facts(result), **_time(result), **_counts(result)}
            for result in results_in_order(run)
        ),
    )


def _facts(result: Result) -> dict[str, Value]:
    case = result.case
    return {
        "case": case.id,
        "label": " / ".join(case.label),
        "language": case.language.name.lower(),
        "runtime": case.runtime.value,
        "autograd": case.autograd.value,
        "num_threads": case.num_threads,
        "params": " ".join(f"{name}={value}" for name, value in case.params),
        "metric": result.metric.value,
        "status": result.status.value,
        "compile_seconds": result.facts.prepare_seconds,
        "seconds": result.seconds,
        "finished": result.finished,
        "reason": first_line(result.reason),
    }


def _time(result: Result) -> dict[str, Value]:
    time, measurement = time_of(result), result.measurement
    iqr = measurement.iqr if time is not None and measurement is not None else None
    return {**time_values(time, "median", "interval"), "iqr": iqr}


def _counts(result: Result) -> dict[str, Value]:
    if not isinstance(result.payload, Counts):
        return {}
    return {
        "instructions_per_run": float(instructions_of(result.payload)),
        "counted_runs": result.payload.runs,
    }
