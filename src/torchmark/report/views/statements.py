"""The views of `torchmark time` and `torchmark count`: a row for each statement.

All statements are compared with the first: times round by round, instructions also by function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from torchmark.analyse.estimates import instructions_of, time_of_measurement
from torchmark.analyse.ratios import Ratio, ratio_of
from torchmark.errors import InvalidArgumentError
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.model.measurement import Measurement
from torchmark.model.result import Counts, Result
from torchmark.model.run import Run
from torchmark.report.figures import instructions_text, number_text, seconds_text
from torchmark.report.view import (
    Cell,
    Chart,
    Column,
    Detail,
    Field,
    Kind,
    Row,
    Section,
    Table,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.charts import Dot, chart_times, draw_rows
from torchmark.report.views.common import (
    code_details,
    frame_view,
    function_cell,
    interval_values,
    results_in_order,
    signed_cell,
    time_cell,
    time_values,
    verdict_cell,
)
from torchmark_probe.loops.intervals import median

_CPU_TIME = "CPU time of the thread that runs the statement"

_FUNCTIONS = 10
"""How many functions of each statement text shows, unless the run has a number."""

_WHERE_ALL = "see --html or --json of torchmark show"
_WHERE_ALL_UNSTORED = "see --json, or --save and torchmark show latest --html FILE"
"""Where a reader of text finds the functions that are not shown. A run without an id is not stored,
and `torchmark count` has no --html."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """A statement with its time."""

    result: Result
    measurement: Measurement
    ratio: Ratio | None
    """The ratio to the first statement; None for the first, and if all rounds take 0 s."""

    @property
    def name(self) -> str:
        return self.result.case.name

    @property
    def cpu_seconds(self) -> float:
        return median(self.measurement.cpu_times or [0.0])


def view_times(run: Run) -> View:
    timed: list[_Timed] = []
    for result in results_in_order(run):
        if (each := result.measurement) is not None:
            ratio = _find_ratio(each, timed[0].measurement) if timed else None
            timed.append(_Timed(result=result, measurement=each, ratio=ratio))
    return frame_view(
        run,
        "Times, run",
        summary=_summarise_times(timed),
        sections=[_times(run, timed)],
        data=data_table(_TIME_DATA, map(_time_data, timed)),
    )


def _frame(each: _Timed | _Counted) -> Row:
    return Row(details=code_details(each.result.case))


def _find_ratio(measurement: Measurement, first: Measurement) -> Ratio | None:
    try:
        return ratio_of(measurement, first)
    except InvalidArgumentError:
        return None


def _times(run: Run, timed: Sequence[_Timed]) -> Section:
    name = str(run.settings.get("description") or "time")
    hint = "Median of one run, with its 95 % interval"
    fields: list[Field[_Timed]] = [
        field("statement", lambda each: each.name, Kind.CODE),
        field(name, lambda each: time_cell(each.result), Kind.SECONDS, hint),
        field("CPU time", lambda each: each.cpu_seconds, Kind.SECONDS, _CPU_TIME),
    ]
    threads = {each.measurement.num_threads for each in timed} - {1}
    notes = [f"With {number} threads." for number in threads]
    if len(timed) > 1:
        hint = "Ratio to the first statement, with its 95 % interval"
        fields += [
            field("ratio", _ratio_cell, Kind.RATIO, hint),
            field(
                "verdict",
                lambda each: verdict_cell(each.ratio.verdict) if each.ratio else None,
                Kind.VERDICT,
            ),
        ]
        notes.append(f"Ratio to {timed[0].name}, round by round, with its 95 % interval.")
    times = [(each.name, "", time_of_measurement(each.measurement)) for each in timed]
    return Section(
        "times",
        "Time of one run",
        chart=chart_times(times),
        table=make_table(timed, fields, _frame),
        footnotes=tuple(notes),
    )


def _ratio_cell(timed: _Timed) -> Cell:
    return Cell(timed.ratio.value, interval=timed.ratio.interval) if timed.ratio else Cell()


def _summarise_times(timed: Sequence[_Timed]) -> str:
    if not timed:
        return "No times were measured."
    if len(timed) > 1:
        verdicts = Counter(each.ratio.verdict.value for each in timed if each.ratio is not None)
        counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        return f"Compared with {timed[0].name}: {counted or 'no ratio, because a time is 0 s'}."
    alone = timed[0].measurement
    samples = number_text(len(alone.raw_times), "sample")
    runs = number_text(alone.number_per_run, "run")
    interval = time_of_measurement(alone).interval
    told = "too few samples for an interval"
    if interval is not None:
        low, high = (seconds_text(max(end, 0.0)) for end in interval)
        told = f"95 % interval {low} to {high}"
    return f"Median {seconds_text(alone.median)}, {told}; {samples} of {runs}."


_TIME_DATA = (
    "statement", "case", "median", "interval_low", "interval_high", "iqr", "cpu", "samples",
    "runs_per_sample", "ratio", "ratio_low", "ratio_high", "rounds", "verdict", "warnings",
)  # fmt: skip


def _time_data(timed: _Timed) -> dict[str, Value]:
    each = timed.measurement
    values: dict[str, Value] = {
        "statement": timed.name,
        "case": timed.result.case.id,
        **time_values(time_of_measurement(each), "median", "interval"),
        "iqr": each.iqr,
        "cpu": timed.cpu_seconds,
        "runs_per_sample": each.number_per_run,
    }
    if timed.ratio is not None:
        values |= {
            **interval_values("ratio", timed.ratio.value, timed.ratio.interval),
            "rounds": timed.ratio.rounds,
            "verdict": timed.ratio.verdict.value,
        }
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """A statement with its instructions."""

    result: Result
    stats: CallgrindStats
    instructions: Fraction
    first: Fraction | None
    """The instructions of the first statement; None for the first statement itself."""

    @property
    def name(self) -> str:
        return self.result.case.name

    @property
    def difference(self) -> float | None:
        """The difference from the first statement."""
        return None if self.first is None else float(self.instructions - self.first)

    @property
    def share(self) -> float | None:
        """The difference as a share of the first; None if the first takes no instructions."""
        return float((self.instructions - self.first) / self.first) if self.first else None

    @property
    def share_text(self) -> str:
        return "" if self.share is None else f"{self.share * 100:+,.2f} %"


def view_counts(run: Run) -> View:
    counted: list[_Counted] = []
    for result in results_in_order(run):
        if isinstance(result.payload, Counts) and (stats := result.stats) is not None:
            counted.append(
                _Counted(
                    result=result,
                    stats=stats,
                    instructions=instructions_of(result.payload),
                    first=counted[0].instructions if counted else None,
                )
            )
    return frame_view(
        run,
        "Instructions, run",
        summary=_summarise_counts(counted),
        sections=[_instructions(counted), _functions(run, counted)],
        data=_count_data(counted),
    )


def _instructions(counted: Sequence[_Counted]) -> Section:
    kind, hint = Kind.INSTRUCTIONS, "Difference from the first statement"
    fields: list[Field[_Counted]] = [
        field("statement", lambda each: each.name, Kind.CODE),
        field("instructions", lambda each: float(each.instructions), kind),
    ]
    if len(counted) > 1:
        fields += [
            field("difference", lambda each: signed_cell(each.difference), kind, hint),
            field("change", lambda each: Cell(each.share, each.share_text), Kind.CHANGE, hint),
        ]
    return Section(
        "instructions",
        "Instructions per run, without the loop",
        chart=_count_chart(counted),
        table=make_table(counted, fields, _frame),
    )


def _count_chart(counted: Sequence[_Counted]) -> Chart | None:
    if not counted:
        return None
    dots = [
        Dot(
            name=each.name,
            value=float(each.instructions),
            told={
                "instructions": instructions_text(float(each.instructions)),
                "change": each.share_text or "–",
            },
        )
        for each in counted
    ]
    x = {"axis": {"title": "instructions of one run", "format": "~s"}}
    return Chart(
        id="instructions",
        title="Instructions",
        description="Bars of the instructions of one run of each statement.",
        spec=draw_rows(dots, x, is_bar=True),
    )


def _functions(run: Run, counted: Sequence[_Counted]) -> Section:
    """The functions with most instructions in the first, and with the largest differences."""
    shown: dict[str, Any] = {
        "most_rows": run.settings.get("functions", _FUNCTIONS),
        "where_all": _WHERE_ALL if run.id else _WHERE_ALL_UNSTORED,
    }
    rows = []
    for each in counted:
        if each is counted[0]:
            title, counts = each.name, each.stats.without_loop()
        else:
            title = f"{each.name} minus {counted[0].name}"
            counts = each.stats.delta(counted[0].stats)
        if counts:
            detail = Detail(table=_function_table(counts, each.stats.number_per_run, **shown))
        else:
            detail = Detail(lines=("no function differs",))
        rows.append(Row(cells=(Cell(title),), details=(detail,)))
    table = Table(columns=(Column("statement", Kind.CODE),), rows=tuple(rows))
    return Section("functions", "By function", table=table)


def _function_table(counts: FunctionCounts, runs: int, **shown: Any) -> Table:
    fields: list[Field[FunctionCount]] = [
        field("instructions", lambda each: each.count / runs, Kind.INSTRUCTIONS),
        field("function", lambda each: function_cell(each.function), Kind.CODE),
    ]
    largest = sorted(counts, key=lambda each: -abs(each.count))
    return make_table(largest, fields, **shown)


def _summarise_counts(counted: Sequence[_Counted]) -> str:
    if not counted:
        return "No instructions were counted."
    first, *others = counted
    text = f"{first.name} takes {instructions_text(float(first.instructions))} instructions"
    verdicts = [f"{each.name} {instructions_text(each.difference or 0, '+')}" for each in others]
    return f"{text}; compared with it: {', '.join(verdicts)}." if verdicts else f"{text}."


def _count_data(counted: Sequence[_Counted]) -> Table:
    fields: list[Field[_Counted]] = [
        field("statement", lambda each: each.name),
        field("case", lambda each: each.result.case.id),
        field("instructions_per_run", lambda each: float(each.instructions)),
        field("counted_runs", lambda each: each.stats.number_per_run),
        field("difference", lambda each: each.difference),
        field("share", lambda each: each.share),
    ]
    return make_table(counted, fields)
