"""The view of a run of suites: a table of the cases with their times and instructions."""

from __future__ import annotations

from torchmark.analyse.estimates import instructions_of, time_of
from torchmark.analyse.processes import detectable_in
from torchmark.model.case import Case
from torchmark.model.result import Counts, Metric, Result
from torchmark.model.run import Run, RunState
from torchmark.model.units import collect, first_line
from torchmark.report.names import group_of, name_in_group, short_names
from torchmark.report.view import (
    Cell,
    Column,
    Detail,
    Field,
    Kind,
    Row,
    Section,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.charts import chart_times
from torchmark.report.views.common import (
    code_details,
    count_statuses,
    frame_view,
    instructions_cell,
    results_in_order,
    time_cell,
    time_values,
)

_TIME = Column("time", Kind.SECONDS, "Median of one run, with its 95 % interval")
_COUNT = Column("instructions", Kind.INSTRUCTIONS, "Instructions of one run, without the loop")
_COMPILED = Column(
    "compiled in", Kind.SECONDS, "Time to compile, including the first run", is_wide_only=True
)


_DETECTABLE = Column(
    "detectable", Kind.SHARE, "Smallest change between two such runs found with 80 % power"
)


def make_view(run: Run) -> View:
    """The view of a run; its data have a row for each result, times in seconds."""
    values = ({"run": run.id, **_values(each)} for each in results_in_order(run))
    return frame_view(
        run,
        "Run",
        summary=f"{count_statuses(run)}.",
        sections=[_cases(run)],
        data=data_table(_DATA, values),
    )


def _cases(run: Run) -> Section:
    """The cases in the order of the plan, grouped by their first label."""
    found = {(result.case.id, result.metric): result for result in run.results}
    planned = {(each.case.id, each.metric) for each in run.plan} | set(found)
    known = [*(each.case for each in run.plan), *(each.case for each in run.results)]
    if run.state is not RunState.FINISHED:  # the summary counts missing results
        known = [each.case for each in results_in_order(run)]
    groups = collect((group_of(case), case) for case in {each.id: each for each in known}.values())
    cases = [case for members in groups.values() for case in members]

    def time_result(case: Case) -> Result | None:
        return found.get((case.id, Metric.TIME))

    def show_time(case: Case) -> Cell:
        return time_cell(time_result(case), is_planned=(case.id, Metric.TIME) in planned)

    def show_count(case: Case) -> Cell:
        key = case.id, Metric.INSTRUCTIONS
        return instructions_cell(found.get(key), is_planned=key in planned)

    def show_detectable(case: Case) -> Value:
        result = time_result(case)
        return None if result is None else detectable_in(result)

    def show_compile_time(case: Case) -> Value:
        result = time_result(case)
        return None if result is None else result.facts.prepare_seconds

    metrics = {metric for _, metric in planned}
    fields: list[Field[Case]] = [field("case", name_in_group)]
    fields += [(_TIME, show_time)] if Metric.TIME in metrics else []
    fields += [(_COUNT, show_count)] if Metric.INSTRUCTIONS in metrics else []
    if any(detectable_in(result) is not None for result in run.results):
        fields.append((_DETECTABLE, show_detectable))
    if any(result.facts.prepare_seconds is not None for result in run.results):
        fields.append((_COMPILED, show_compile_time))
    times = [
        (name, group_of(case), time)
        for case, name in zip(cases, short_names(cases), strict=True)
        if (time := time_of(time_result(case))) is not None
    ]
    return Section(
        "results",
        "Results",
        chart=chart_times(times),
        table=make_table(
            cases,
            fields,
            lambda case: Row(
                group=group_of(case), details=(*code_details(case), *_warnings(time_result(case)))
            ),
        ),
    )


def _warnings(result: Result | None) -> tuple[Detail, ...]:
    """For pages: all warnings about one case."""
    time = time_of(result)
    lines = tuple(map(str, time.warnings)) if time else ()
    return (Detail(title="Warnings", lines=lines, is_page_only=True),) if lines else ()


_DATA = (
    "run", "case", "label", "language", "runtime", "autograd", "num_threads", "params", "metric",
    "status", "median", "interval_low", "interval_high", "iqr", "samples", "instructions_per_run",
    "counted_runs", "compile_seconds", "seconds", "finished", "warnings", "reason", "detectable",
)  # fmt: skip
"""Columns of the data. The order is stable; new columns are added at the end."""


def _values(result: Result) -> dict[str, Value]:
    case, time, measurement = result.case, time_of(result), result.measurement
    counts = result.payload if isinstance(result.payload, Counts) else None
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
        **time_values(time, "median", "interval"),
        "iqr": measurement.iqr if time is not None and measurement is not None else None,
        "instructions_per_run": float(instructions_of(counts)) if counts else None,
        "counted_runs": counts.runs if counts else None,
        "compile_seconds": result.facts.prepare_seconds,
        "seconds": result.seconds,
        "finished": result.finished,
        "reason": first_line(result.reason),
        "detectable": detectable_in(result),
    }
