"""Ladders: what each kind of input costs over a plain Tensor, in time and in instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from torchmark.analyse.estimates import time_of
from torchmark.analyse.overheads import SUITE, find_ladders
from torchmark.model.result import Metric
from torchmark.report.figures import first_line, instructions_text
from torchmark.report.view import (
    Cell,
    Chart,
    Column,
    ColumnKind,
    Row,
    Section,
    Table,
    View,
)
from torchmark.report.views.common import (
    code_details,
    count_statuses,
    data_table,
    frame_view,
    instructions_cell,
    results_in_order,
    time_cell,
    time_values,
)
from torchmark.report.views.dots import SECONDS_LABEL, Dot, draw_rows

if TYPE_CHECKING:
    from fractions import Fraction

    from torchmark.analyse.overheads import Ladder, Rung, TimeOverhead
    from torchmark.model.run import Run
    from torchmark.report.view import Value

_NO_FIGURE = "–"
_FIGURES = (
    "time: median of one call in us, and how far its 95 % interval reaches. over, ×: difference "
    "from the plain call, and ratio to it. more: instructions beyond those of the plain call."
)
_LIMITS = (
    "Processes of one environment differ by a few per cent, which the intervals do not include; "
    "counts differ by far less."
)
_INSTRUCTIONS = Column(name="instr.", kind=ColumnKind.INSTRUCTIONS, hint="Instructions of one call")
_COLUMNS = (
    Column(name="input"),
    Column(name="time", kind=ColumnKind.SECONDS, hint="Median of one call in us"),
    Column(name="over", kind=ColumnKind.SECONDS, hint="Longer than the plain call, in us"),
    Column(name="95 % interval", kind=ColumnKind.NUMBER, hint="Of over, in us", is_wide_only=True),
    Column(name="×", kind=ColumnKind.RATIO, hint="Ratio to the plain call"),
    _INSTRUCTIONS,
    Column(name="more", kind=ColumnKind.INSTRUCTIONS, hint="Beyond those of the plain call"),
)


def make_view(run: Run) -> View:
    """The results of the suite in the run, which may have others too."""
    run = keep_suite(run)
    ladders = find_ladders(results_in_order(run))
    return frame_view(
        run,
        "Overrides ladder, run",
        summary=f"{count_statuses(run)}.",
        sections=[_ladders(run, ladders)],
        data=_data(run, ladders),
    )


def keep_suite(run: Run) -> Run:
    """The run without the results of other suites."""
    return msgspec.structs.replace(
        run,
        plan=tuple(each for each in run.plan if each.case.label[:1] == (SUITE,)),
        results=tuple(each for each in run.results if each.case.label[:1] == (SUITE,)),
    )


def _ladders(run: Run, ladders: tuple[Ladder, ...]) -> Section:
    metrics = [*(each.metric for each in run.plan), *(each.metric for each in run.results)]
    is_counted = Metric.INSTRUCTIONS in metrics
    shown = len(_COLUMNS) if is_counted else _COLUMNS.index(_INSTRUCTIONS)
    rows = [
        Row(cells=_cells(rung)[:shown], group=ladder.stmt, details=code_details(rung.case))
        for ladder in ladders
        for rung in ladder.rungs
    ]
    return Section(
        id="ladder",
        title="Cost over a plain Tensor",
        charts=_chart(ladders),
        table=Table(columns=_COLUMNS[:shown], rows=tuple(rows)),
        footnotes=(_FIGURES, _LIMITS),
    )


def _chart(ladders: tuple[Ladder, ...]) -> tuple[Chart, ...]:
    """What is above the plain call: time, or instructions where no times were taken."""
    rungs = [(ladder.stmt, rung) for ladder in ladders for rung in ladder.rungs]
    dots = [dot for stmt, rung in rungs if (dot := _time_dot(stmt, rung)) is not None]
    axis: dict[str, Any] = {"title": "longer than the plain call", "labelExpr": SECONDS_LABEL}
    if not dots:
        dots = [dot for stmt, rung in rungs if (dot := _count_dot(stmt, rung)) is not None]
        axis = {"title": "instructions beyond those of the plain call", "format": "~s"}
    if not dots:
        return ()
    kind = {"field": "input", "type": "nominal", "sort": None}
    spec = draw_rows(
        dots,
        {"axis": axis},
        series="input",
        more={"color": kind, "yOffset": kind},
        is_bar=True,
    )
    return (
        Chart(
            id="overheads",
            title="Overhead over a plain Tensor",
            description="For each call a bar for every kind of input: what it takes beyond the "
            "plain one, with the 95 % interval of times.",
            spec={**spec, "height": {"step": 13}},
        ),
    )


def _time_dot(stmt: str, rung: Rung) -> Dot | None:
    overhead, time = rung.time_overhead, time_of(rung.time)
    if overhead is None or time is None:
        return None
    low, high = overhead.interval
    told: dict[str, Value] = {
        "median": f"{micro(time.median)} us",
        "over": f"{micro(overhead.seconds, sign='+')} us",
        "95 % interval": f"{micro(low, sign='+')} to {micro(high, sign='+')} us",
        "samples": time.samples,
    }
    return Dot(name=stmt, value=overhead.seconds, interval=(low, high), series=rung.kind, told=told)


def _count_dot(stmt: str, rung: Rung) -> Dot | None:
    if rung.more_instructions is None:
        return None
    more = float(rung.more_instructions)
    return Dot(name=stmt, value=more, series=rung.kind, told={"more": instructions_text(more, "+")})


def _cells(rung: Rung) -> tuple[Cell, ...]:
    return (
        Cell(value=rung.kind),
        _time(rung),
        *_overhead(rung.time_overhead),
        instructions_cell(rung.count),
        _more(rung),
    )


def _time(rung: Rung) -> Cell:
    cell, time = time_cell(rung.time), time_of(rung.time)
    if time is None:
        return cell
    reach = max(time.interval.high - time.median, time.median - time.interval.low)
    return replace(cell, text=f"{micro(time.median)} ±{micro(reach)}")


def _overhead(overhead: TimeOverhead | None) -> tuple[Cell, Cell, Cell]:
    if overhead is None:
        return (Cell(text=_NO_FIGURE),) * 3
    low, high = overhead.interval
    reach = max(overhead.seconds - low, high - overhead.seconds)
    return (
        Cell(
            value=overhead.seconds,
            text=f"{micro(overhead.seconds, sign='+')} ±{micro(reach)}",
            interval=(low, high),
        ),
        Cell(value=low, text=f"[{micro(low)}, {micro(high)}]"),
        Cell(
            value=overhead.ratio,
            text=f"{overhead.ratio:.2f}",
            interval=(overhead.ratio_interval.low, overhead.ratio_interval.high),
        ),
    )


def _more(rung: Rung) -> Cell:
    if rung.more_instructions is None:
        return Cell(text=_NO_FIGURE)
    more = float(rung.more_instructions)
    return Cell(value=more, text=f"{more:+,.0f}")


def micro(seconds: float, sign: str = "-") -> str:
    """
    >>> micro(1.25e-6), micro(-12.34567e-6), micro(2.5e-6, sign="+"), micro(123.4567e-6)
    ('1.250', '-12.35', '+2.500', '123.5')
    """
    value = seconds * 1e6
    decimals = 3 if abs(value) < 9.9995 else 2 if abs(value) < 99.995 else 1
    return f"{value:{sign}.{decimals}f}"


_DATA = (
    "run", "call", "input", "case", "time", "time_low", "time_high", "samples", "warnings",
    "overhead", "overhead_low", "overhead_high", "ratio", "ratio_low", "ratio_high",
    "instructions", "more_instructions", "reason",
)  # fmt: skip


def _data(run: Run, ladders: tuple[Ladder, ...]) -> Table:
    """A row for each kind of input to each call; times in seconds."""
    return data_table(
        _DATA,
        (
            {"run": run.id, "call": ladder.stmt, **_values(rung)}
            for ladder in ladders
            for rung in ladder.rungs
        ),
    )


def _values(rung: Rung) -> dict[str, Value]:
    reasons = [first_line(each.reason) for each in (rung.time, rung.count) if each]
    return {
        "input": rung.kind,
        "case": rung.case.id,
        **time_values(time_of(rung.time), "time", "time"),
        **_overhead_values(rung.time_overhead),
        "instructions": _number(rung.instructions),
        "more_instructions": _number(rung.more_instructions),
        "reason": "; ".join(filter(None, reasons)),
    }


def _overhead_values(overhead: TimeOverhead | None) -> dict[str, Value]:
    if overhead is None:
        return {}
    return {
        "overhead": overhead.seconds,
        "overhead_low": overhead.interval.low,
        "overhead_high": overhead.interval.high,
        "ratio": overhead.ratio,
        "ratio_low": overhead.ratio_interval.low,
        "ratio_high": overhead.ratio_interval.high,
    }


def _number(exact: Fraction | None) -> float | None:
    return None if exact is None else float(exact)
