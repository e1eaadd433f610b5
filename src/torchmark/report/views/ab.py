"""Environments or statements compared: times with verdicts, instructions with their functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torchmark.analyse.ab import CountRow, judge, pairs_of
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import SAME_WITHIN
from torchmark.model.result import Metric, Status
from torchmark.report.figures import first_line, instructions_text, share_text
from torchmark.report.view import (
    Cell,
    Column,
    ColumnKind,
    Detail,
    Row,
    Section,
    Table,
    View,
)
from torchmark.report.views.ab_environments import compare_facts, describe_environments
from torchmark.report.views.ab_names import cut_line, full_name, name_rows
from torchmark.report.views.ab_words import (
    count_share_text,
    describe_control,
    find_too_few,
    list_by_reason,
    name_pair,
    summarise,
    warn_of_control,
)
from torchmark.report.views.common import (
    code_details,
    failure_sections,
    setting_facts,
    title_of,
    value_row,
    verdict_cell,
)
from torchmark.report.views.dots import chart_ratios, ratio_dot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import Judged, TimeRow
    from torchmark.model.case import Case
    from torchmark.model.result import PythonCalls, Result
    from torchmark.model.run import Run
    from torchmark.report.view import Chart, Value

_DETECTABLE = "detectable: smallest change found with 80 % power."
_CLOSE = "close: not equal, but no further apart than memory layouts move the count."
_LAYOUTS = "How far the count moves with memory layout alone"

_TEXT_FUNCTIONS = 5
"""Of each sort, shown below a case in text."""

_MOST_FUNCTIONS = 100
"""Of each sort, shown anywhere; another build of torch makes thousands."""


def make_view(run: Run) -> View:
    compared = [judge(run, pair) for pair in pairs_of(run)]
    several = len(compared) > 1
    return View(
        title="; ".join(map(name_pair, compared)) or "Nothing compared",
        summary=" ".join(map(summarise, compared)) or "Nothing was compared.",
        lead=(
            f"{title_of(run)}, {run.state.value}, started {run.started}",
            *describe_environments(run.environments),
        ),
        notes=run.notes,
        warnings=tuple(text for each in compared for text in warn_of_control(each)),
        sections=(
            *(
                section
                for number, each in enumerate(compared, 1)
                for section in _sections(each, f"-{number}" if several else "")
            ),
            *failure_sections(run),
        ),
        environments=compare_facts(run.environments) if run.environments else None,
        settings=setting_facts(run),
        data=_data(run, compared),
    )


def _sections(judged: Judged, suffix: str) -> list[Section]:
    """Of one comparison; where there are several each has its name in the titles."""
    lead = f"{name_pair(judged)}: " if suffix else ""
    control = describe_control(judged)
    gaps = [
        *(
            f"skipped: {text}"
            for text in list_by_reason(e for e in judged.gaps if e.status is Status.SKIPPED)
        ),
        *(
            f"unclear: {text}"
            for text in list_by_reason(find_too_few(judged), "fewer than two replicates")
        ),
    ]
    name = cut_line(judged.a.name, 30)
    of_b = f" of {cut_line(judged.b.name, 30)}" if suffix else ""
    found = [
        _times(judged, suffix, lead) if judged.times else None,
        _counts(judged, suffix, lead) if judged.counts else None,
        Section(id=f"gaps{suffix}", title=f"{lead}Not measured", listing=tuple(gaps))
        if gaps
        else None,
        Section(
            id=f"control{suffix}",
            title=f"Control{of_b}: {name} compared with {name}",
            paragraphs=(control,),
        )
        if control
        else None,
    ]
    return [section for section in found if section is not None]


def _times(judged: Judged, suffix: str, lead: str) -> Section:
    rows, names = judged.times, name_rows(judged.times)
    explained = {row.case.id for row in judged.counts if row.verdict.is_change}
    same = [row.effect.detectable for row in rows if row.verdict is Verdict.SAME]
    seconds = ColumnKind.SECONDS
    columns = (
        Column(name="case"),
        Column(name=_column_name(judged.a.name), kind=seconds, hint="One run: the median"),
        Column(name=_column_name(judged.b.name), kind=seconds, hint="A's time times the ratio"),
        Column(name="ratio [95 %]", kind=ColumnKind.RATIO, hint="The second time over the first"),
        Column(name="verdict", kind=ColumnKind.VERDICT),
        Column(name="detectable", kind=ColumnKind.SHARE, hint=_DETECTABLE),
        Column(
            name="replicates",
            kind=ColumnKind.INTEGER,
            hint="Fresh launches of both environments",
            is_wide_only=True,
        ),
    )
    return Section(
        id=f"times{suffix}",
        title=names.under(f"{lead}Times"),
        charts=(_chart(judged, names.names, suffix),),
        table=Table(
            columns=columns,
            rows=tuple(
                _time_row(row, name, is_explained=row.case.id in explained)
                for row, name in zip(rows, names.names, strict=True)
            ),
            quiet_text=f"{len(same)} cases are the same "
            f"(detectable: {share_text(max(same, default=0.0))} or less)",
        ),
        footnotes=(_DETECTABLE,),
    )


def _chart(judged: Judged, names: Sequence[str], suffix: str) -> Chart:
    b, a = cut_line(judged.b.name, 30), cut_line(judged.a.name, 30)
    dots = []
    for row, name in zip(judged.times, names, strict=True):
        effect = row.effect
        told = {"replicates": effect.replicates}
        dots.append(ratio_dot(name, effect.ratio, effect.interval, row.verdict, told))
    return chart_ratios(
        dots,
        title=f"Time in {b} over time in {a}",
        axis=f"change of {b}'s time",
        same_within=SAME_WITHIN,
        chart_id=f"ratios{suffix}",
    )


def _time_row(row: TimeRow, name: str, *, is_explained: bool) -> Row:
    """`is_explained`: text has the functions below the instructions of the case already."""
    effect = row.effect
    functions = _python_details(row.python_calls, is_page_only=is_explained)
    return Row(
        cells=(
            Cell(value=name),
            Cell(value=row.a_seconds),
            Cell(value=row.b_seconds),
            Cell(
                value=effect.ratio,
                interval=(effect.interval.low, effect.interval.high),
                hint=f"p = {effect.p:.2g}, {effect.replicates} replicates",
            ),
            verdict_cell(row.verdict),
            Cell(value=effect.detectable, text="" if row.verdict.is_change else None),
            Cell(value=effect.replicates),
        ),
        is_quiet=row.verdict is Verdict.SAME,
        details=(*(functions if row.verdict.is_change else ()), *_code(row.case, row.other)),
    )


def _counts(judged: Judged, suffix: str, lead: str) -> Section:
    rows, names = judged.counts, name_rows(judged.counts)
    same = sum(row.verdict is Verdict.SAME for row in rows)
    close = sum(row.verdict is Verdict.CLOSE for row in rows)
    quiet = [f"{same} cases are the same"] if same else []
    quiet += [f"{close} are close"] if close else []
    instructions = ColumnKind.INSTRUCTIONS
    columns = (
        Column(name="case"),
        Column(name=_column_name(judged.a.name), kind=instructions),
        Column(name=_column_name(judged.b.name), kind=instructions),
        Column(name="ΔI", kind=instructions, hint="Instructions that the second takes more"),
        Column(name="change", kind=ColumnKind.CHANGE),
        Column(name="verdict", kind=ColumnKind.VERDICT),
        Column(name="layouts", kind=instructions, hint=_LAYOUTS, is_wide_only=True),
    )
    return Section(
        id=f"instructions{suffix}",
        title=names.under(f"{lead}Instructions"),
        table=Table(
            columns=columns,
            rows=tuple(_count_row(row, name) for row, name in zip(rows, names.names, strict=True)),
            quiet_text=", ".join(quiet),
        ),
        footnotes=(_CLOSE,) if close else (),
    )


def _count_row(row: CountRow, name: str) -> Row:
    is_change = row.verdict.is_change
    details = [
        *_native_details(row, is_page_only=not is_change),
        *_python_details(row.python_calls, is_page_only=not is_change),
    ]
    return Row(
        cells=(
            Cell(value=name),
            Cell(value=float(row.a)),
            Cell(value=float(row.b)),
            Cell(value=float(row.difference), text=_signed(float(row.difference))),
            Cell(
                value=row.share if math.isfinite(row.share) else None,
                text=count_share_text(row) if row.difference else "",
            ),
            verdict_cell(row.verdict),
            Cell(value=float(row.spread)),
        ),
        is_quiet=not is_change,
        details=(*details, *_code(row.case, row.other)),
    )


def _signed(count: float) -> str:
    return instructions_text(count, "+") if count else "0"


def _native_details(row: CountRow, *, is_page_only: bool) -> tuple[Detail, ...]:
    columns = (
        Column(name="instructions", kind=ColumnKind.INSTRUCTIONS),
        Column(name="change", kind=ColumnKind.CHANGE, hint="Of all instructions of the case in A"),
        Column(name="function", kind=ColumnKind.CODE),
    )
    rows = [
        (
            Cell(value=float(each.instructions), text=_signed(float(each.instructions))),
            Cell(
                value=float(each.instructions / row.a) if row.a else None,
                text=f"{float(each.instructions / row.a) * 100:+,.2f} %" if row.a else None,
            ),
            Cell(value=each.function),
        )
        for each in row.functions
    ]
    return _function_details(columns, rows, is_page_only=is_page_only)


def _python_details(
    calls: Sequence[PythonCalls], *, is_page_only: bool = False
) -> tuple[Detail, ...]:
    columns = (
        Column(name="bytecodes", kind=ColumnKind.INTEGER),
        Column(name="Python function", kind=ColumnKind.CODE),
    )
    ordered = sorted(calls, key=lambda each: (-abs(each.b - each.a), each.function))
    rows = [
        (Cell(value=each.b - each.a, text=f"{each.b - each.a:+,}"), Cell(value=each.function))
        for each in ordered
    ]
    return _function_details(columns, rows, is_page_only=is_page_only)


def _function_details(
    columns: tuple[Column, ...], rows: Sequence[tuple[Cell, ...]], *, is_page_only: bool
) -> tuple[Detail, ...]:
    """What differs by function, biggest first; text has the first few."""
    if not rows:
        return ()
    left_out = len(rows) - _MOST_FUNCTIONS
    table = Table(
        columns=columns,
        rows=tuple(Row(cells=cells) for cells in rows[:_MOST_FUNCTIONS]),
        most_rows=_TEXT_FUNCTIONS,
    )
    details = [Detail(table=table, is_page_only=is_page_only)]
    if left_out > 0:
        details.append(Detail(lines=(f"{left_out:,} more functions differ",), is_page_only=True))
    return tuple(details)


def _code(case: Case, other: Case | None) -> tuple[Detail, ...]:
    return (*code_details(case), *(code_details(other) if other is not None else ()))


def _column_name(name: str) -> str:
    """As wide as a time, so that the name of an environment takes no room from the cases."""
    return cut_line(name, 12)


_DATA = (
    "run", "environment", "case", "title", "other", "metric", "status", "verdict", "a", "b",
    "ratio", "difference", "low", "high", "share", "replicates", "detectable", "spread", "reason",
    "p", "base", "seconds",
)  # fmt: skip
"""Stable: new columns are added at the end."""


def _data(run: Run, compared: Sequence[Judged]) -> Table:
    """A row for each result: times in seconds, instructions of one run, shares of A's figure."""
    rows = []
    for judged in compared:
        of_result = {(Metric.TIME, row.case.id): _time_figures(row) for row in judged.times}
        of_result |= {
            (Metric.INSTRUCTIONS, row.case.id): _count_figures(row) for row in judged.counts
        }
        for result in judged.results:
            figures = of_result.get((result.metric, result.case.id), {})
            facts = {"run": run.id, "environment": judged.b.name, "base": judged.a.name}
            values = {**facts, **_facts(result), **figures}
            rows.append(value_row(values.get(name) for name in _DATA))
    return Table(columns=tuple(Column(name=name) for name in _DATA), rows=tuple(rows))


def _facts(result: Result) -> dict[str, Value]:
    return {
        "case": result.case.id,
        "title": full_name(result),
        "other": result.other.id if result.other else None,
        "metric": result.metric.value,
        "status": result.status.value,
        "reason": first_line(result.reason),
        "seconds": result.seconds,
    }


def _count_figures(row: CountRow) -> dict[str, Value]:
    return {
        "verdict": row.verdict.value,
        "a": float(row.a),
        "b": float(row.b),
        "difference": float(row.difference),
        "share": row.share if math.isfinite(row.share) else None,
        "spread": float(row.spread),
    }


def _time_figures(row: TimeRow) -> dict[str, Value]:
    return {
        "verdict": row.verdict.value,
        "a": row.a_seconds,
        "b": row.b_seconds,
        "ratio": row.effect.ratio,
        "low": row.effect.interval.low,
        "high": row.effect.interval.high,
        "share": row.effect.ratio - 1,
        "replicates": row.effect.replicates,
        "detectable": row.effect.detectable,
        "p": row.effect.p,
    }
