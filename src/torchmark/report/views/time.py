"""Statements that were timed together: a row each, compared with the first round by round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.estimates import time_of_measurement
from torchmark.analyse.ratios import ratio_of
from torchmark.errors import InvalidArgumentError
from torchmark.report.figures import seconds_text
from torchmark.report.view import Cell, Column, ColumnKind, Row, Section, Table, View
from torchmark.report.views.common import (
    code_details,
    data_table,
    frame_view,
    results_in_order,
    time_cell,
    time_values,
    verdict_cell,
)
from torchmark.report.views.dots import chart_times
from torchmark_probe.loops.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ratios import Ratio
    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result
    from torchmark.model.run import Run
    from torchmark.report.view import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """A statement with its time."""

    result: Result
    measurement: Measurement
    ratio: Ratio | None
    """To the first; None for that one, and where no round took time on the clock."""

    @property
    def name(self) -> str:
        return self.result.case.name

    @property
    def cpu_seconds(self) -> float:
        return median(self.measurement.cpu_times or [0.0])


def make_view(run: Run) -> View:
    timed = _compare_with_first(results_in_order(run))
    return frame_view(
        run,
        "Times, run",
        summary=_summary(timed),
        sections=[_times(run, timed)],
        data=data_table(_DATA, map(_values, timed)),
    )


def _compare_with_first(results: Sequence[Result]) -> list[_Timed]:
    measured = [(result, each) for result in results if (each := result.measurement) is not None]
    return [
        _Timed(
            result=result,
            measurement=each,
            ratio=_find_ratio(each, measured[0][1]) if result is not measured[0][0] else None,
        )
        for result, each in measured
    ]


def _find_ratio(measurement: Measurement, first: Measurement) -> Ratio | None:
    try:
        return ratio_of(measurement, first)
    except InvalidArgumentError:
        return None


def _times(run: Run, timed: Sequence[_Timed]) -> Section:
    columns = [
        Column(name="statement", kind=ColumnKind.CODE),
        Column(
            name=str(run.settings.get("description") or "time"),
            kind=ColumnKind.SECONDS,
            hint="Median of one run, with its 95 % interval",
        ),
        Column(name="CPU time", kind=ColumnKind.SECONDS, hint="Of the thread that ran it"),
    ]
    ratio_columns = [
        Column(name="ratio", kind=ColumnKind.RATIO, hint="To the first, with its 95 % interval"),
        Column(name="verdict", kind=ColumnKind.VERDICT),
    ]
    is_alone = len(timed) < 2
    rows = [
        Row(
            cells=(*_time_cells(each), *([] if is_alone else _ratio_cells(each.ratio))),
            details=code_details(each.result.case),
        )
        for each in timed
    ]
    threads = {each.measurement.num_threads for each in timed} - {1}
    notes = [f"With {number} threads." for number in threads]
    if not is_alone:
        notes.append(f"Ratio to {timed[0].name}, round by round, with its 95 % interval.")
    return Section(
        id="times",
        title="Time of one run",
        charts=chart_times(
            "Times", [(each.name, "", time_of_measurement(each.measurement)) for each in timed]
        ),
        table=Table(
            columns=(*columns, *([] if is_alone else ratio_columns)), rows=tuple(rows)
        ),
        footnotes=tuple(notes),
    )  # fmt: skip


def _time_cells(timed: _Timed) -> list[Cell]:
    return [Cell(value=timed.name), time_cell(timed.result), Cell(value=timed.cpu_seconds)]


def _ratio_cells(ratio: Ratio | None) -> list[Cell]:
    if ratio is None:
        return [Cell(), Cell()]
    interval = (ratio.interval.low, ratio.interval.high)
    return [Cell(value=ratio.value, interval=interval), verdict_cell(ratio.verdict)]


def _summary(timed: Sequence[_Timed]) -> str:
    if not timed:
        return "No times were taken."
    if len(timed) == 1:
        return _alone_text(timed[0].measurement)
    verdicts = Counter(each.ratio.verdict.value for each in timed if each.ratio is not None)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    return f"Compared with {timed[0].name}: {counted or 'no time on the clock'}."


def _alone_text(measurement: Measurement) -> str:
    low, high = measurement.median_interval
    return (
        f"Median {seconds_text(measurement.median)}, 95 % interval {seconds_text(max(low, 0.0))} "
        f"to {seconds_text(high)}; {len(measurement.raw_times)} samples of "
        f"{measurement.number_per_run} runs."
    )


_DATA = (
    "statement", "case", "median", "interval_low", "interval_high", "iqr", "cpu", "samples",
    "runs_per_sample", "ratio", "ratio_low", "ratio_high", "rounds", "verdict", "warnings",
)  # fmt: skip


def _values(timed: _Timed) -> dict[str, Value]:
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
            "ratio": timed.ratio.value,
            "ratio_low": timed.ratio.interval.low,
            "ratio_high": timed.ratio.interval.high,
            "rounds": timed.ratio.rounds,
            "verdict": timed.ratio.verdict.value,
        }
    return values
