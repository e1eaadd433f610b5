"""Statements whose instructions were counted: a row each, and the functions that cost most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.estimates import instructions_of
from torchmark.model.result import Counts
from torchmark.report.figures import instructions_text
from torchmark.report.view import (
    Cell,
    Chart,
    Column,
    ColumnKind,
    Detail,
    Row,
    Section,
    Table,
    View,
)
from torchmark.report.views.common import code_details, data_table, frame_view, results_in_order
from torchmark.report.views.dots import Dot, draw_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.function_counts import FunctionCounts
    from torchmark.model.result import Result
    from torchmark.model.run import Run
    from torchmark.report.view import Value

_FUNCTIONS = 10
"""Functions that text shows of each statement where the run does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """A statement with its instructions."""

    result: Result
    stats: CallgrindStats
    instructions: Fraction
    difference: Fraction | None
    """From the first; None for that one."""

    share: float | None
    """The difference as a share of the first, where that took any."""

    @property
    def name(self) -> str:
        return self.result.case.name


def make_view(run: Run) -> View:
    counted = _compare_with_first(results_in_order(run))
    return frame_view(
        run,
        "Instructions, run",
        summary=_summary(counted),
        sections=[_instructions(counted), _functions(run, counted)],
        data=data_table(_DATA, map(_values, counted)),
    )


def _compare_with_first(results: Sequence[Result]) -> list[_Counted]:
    counted: list[_Counted] = []
    for result in results:
        if not isinstance(result.payload, Counts) or (stats := result.stats) is None:
            continue
        each = instructions_of(result.payload)
        first = counted[0].instructions if counted else None
        counted.append(
            _Counted(
                result=result,
                stats=stats,
                instructions=each,
                difference=None if first is None else each - first,
                share=float((each - first) / first) if first else None,
            )
        )
    return counted


def _instructions(counted: Sequence[_Counted]) -> Section:
    columns = [
        Column(name="statement", kind=ColumnKind.CODE),
        Column(name="instructions", kind=ColumnKind.INSTRUCTIONS),
    ]
    if len(counted) > 1:
        columns += [
            Column(name="difference", kind=ColumnKind.INSTRUCTIONS, hint="From the first"),
            Column(name="change", kind=ColumnKind.CHANGE, hint="From the first"),
        ]
    rows = []
    for each in counted:
        cells = [Cell(value=each.name), Cell(value=float(each.instructions))]
        cells += _difference_cells(each) if len(counted) > 1 else []
        rows.append(Row(cells=tuple(cells), details=code_details(each.result.case)))
    return Section(
        id="instructions",
        title="Instructions per run, without the loop",
        charts=_chart(counted),
        table=Table(columns=tuple(columns), rows=tuple(rows)),
    )


def _chart(counted: Sequence[_Counted]) -> tuple[Chart, ...]:
    if not counted:
        return ()
    dots = [
        Dot(
            name=each.name,
            value=float(each.instructions),
            told={
                "instructions": instructions_text(float(each.instructions)),
                "change": "–" if each.share is None else f"{each.share * 100:+,.2f} %",
            },
        )
        for each in counted
    ]
    x = {"axis": {"title": "instructions of one run", "format": "~s"}}
    return (
        Chart(
            id="instructions",
            title="Instructions",
            description="Bars of the instructions that one run of each statement takes.",
            spec=draw_rows(dots, x, is_bar=True),
        ),
    )


def _difference_cells(counted: _Counted) -> list[Cell]:
    if counted.difference is None:
        return [Cell(), Cell()]
    difference = float(counted.difference)
    text = instructions_text(difference, "+") if difference else "0"
    share = "" if counted.share is None else f"{counted.share * 100:+,.2f} %"
    return [Cell(value=difference, text=text), Cell(value=counted.share, text=share)]


def _functions(run: Run, counted: Sequence[_Counted]) -> Section:
    """What costs most in the first, and what differs most in the others."""
    most = run.settings.get("functions", _FUNCTIONS)
    rows = []
    for each in counted:
        if each is counted[0]:
            title, counts = each.name, each.stats.without_loop()
        else:
            title, counts = (
                f"{each.name} minus {counted[0].name}",
                each.stats.delta(counted[0].stats),
            )
        table = _function_table(counts, each.stats.number_per_run, most)
        rows.append(Row(cells=(Cell(value=title),), details=(Detail(table=table),)))
    return Section(
        id="functions",
        title="By function",
        table=Table(columns=(Column(name="statement", kind=ColumnKind.CODE),), rows=tuple(rows)),
    )


def _function_table(counts: FunctionCounts, runs: int, most: int) -> Table:
    largest = sorted(counts, key=lambda item: -abs(item.count))
    return Table(
        columns=(
            Column(name="instructions", kind=ColumnKind.INSTRUCTIONS),
            Column(name="function", kind=ColumnKind.CODE),
        ),
        rows=tuple(
            Row(
                cells=(
                    Cell(value=item.count / runs),
                    Cell(value=item.function, text=shorten(item.function)),
                )
            )
            for item in largest
        ),
        most_rows=most,
    )


def shorten(function: str) -> str:
    """Without directories: file, function and library are enough for a person.

    >>> shorten("/build/aten/Add.cpp:at::add [/lib/libtorch_cpu.so]")
    'Add.cpp:at::add [libtorch_cpu.so]'
    >>> shorten("???:PyObject_Call")
    'PyObject_Call'
    """
    file, colon, rest = function.partition(":")
    name, bracket, library = rest.rpartition(" [")
    if not bracket:
        name, library = rest, ""
    file = file.rpartition("/")[2]
    named = name if file == "???" else f"{file}{colon}{name}"
    return f"{named} [{library.rpartition('/')[2]}" if bracket else named


def _summary(counted: Sequence[_Counted]) -> str:
    if not counted:
        return "No instructions were counted."
    first = counted[0]
    text = f"{first.name} takes {instructions_text(float(first.instructions))} instructions"
    if len(counted) == 1:
        return f"{text}."
    verdicts = [
        f"{each.name} {instructions_text(float(each.difference), '+')}"
        for each in counted
        if each.difference is not None
    ]
    return f"{text}; compared with it: {', '.join(verdicts)}."


_DATA = (
    "statement", "case", "instructions_per_run", "counted_runs", "difference", "share",
)  # fmt: skip


def _values(counted: _Counted) -> dict[str, Value]:
    difference = counted.difference
    return {
        "statement": counted.name,
        "case": counted.result.case.id,
        "instructions_per_run": float(counted.instructions),
        "counted_runs": counted.stats.number_per_run,
        "difference": None if difference is None else float(difference),
        "share": counted.share,
    }
