"""The view of an A/B run: times with verdicts, instructions with the functions that differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from torchmark.analyse.ab import CountRow, FunctionDifference, Judged, TimeRow, judge, pairs_of
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import SAME_WITHIN
from torchmark.analyse.score import count_ratios, time_ratios
from torchmark.model.case import Case
from torchmark.model.result import Metric, PythonCalls, Result, Status
from torchmark.model.run import FEWEST_REPLICATES, Run
from torchmark.model.units import first_line
from torchmark.report.figures import confidence_text, cut_line, share_text
from torchmark.report.names import Names, full_name, name_rows
from torchmark.report.view import (
    Cell,
    Chart,
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
from torchmark.report.views.ab_words import (
    compare_facts,
    count_share_text,
    describe_control,
    describe_environments,
    find_too_few,
    list_by_reason,
    name_pair,
    short_name,
    summarise,
    warn_of_control,
)
from torchmark.report.views.charts import chart_ratios, ratio_dot
from torchmark.report.views.common import (
    code_details,
    failure_section,
    function_cell,
    imports_line,
    run_line,
    setting_facts,
    signed_cell,
    verdict_cell,
)
from torchmark.report.views.score import score_section

T = TypeVar("T")

_DETECTABLE = "detectable: smallest change found with 80 % power."
_LEVEL = "Verdicts follow from the intervals: {} confidence over all looks and cases."
_CLOSE = "close: not equal, but the difference is within the effect of memory layouts."
_LAYOUTS = "Range of the count over memory layouts"

_TEXT_FUNCTIONS = 5
"""Maximum number of functions of each sort below a case in text."""

_MOST_FUNCTIONS = 100
"""Maximum number of functions of each sort in any format; two builds of torch differ in thousands.
"""


def make_view(run: Run) -> View:
    compared = [judge(run, pair) for pair in pairs_of(run)]
    sections = []
    for number, each in enumerate(compared, 1):
        sections += _sections(each, f"-{number}" if len(compared) > 1 else "")
    return View(
        title="; ".join(map(name_pair, compared)) or "Nothing compared",
        summary=" ".join(map(summarise, compared)) or "Nothing was compared.",
        lead=(
            run_line(run),
            *describe_environments(run.environments),
            *imports_line(run),
        ),
        notes=run.notes,
        warnings=tuple(text for each in compared for text in warn_of_control(each)),
        sections=(*sections, failure_section(run)),
        environments=compare_facts(run.environments) if run.environments else None,
        settings=setting_facts(run.settings),
        data=_data(run, compared),
    )


def _sections(judged: Judged, suffix: str) -> list[Section]:
    """The sections of one comparison; titles have its name if there are several."""
    lead = f"{name_pair(judged)}: " if suffix else ""
    skipped = [each for each in judged.gaps if each.status is Status.SKIPPED]
    gaps = (
        *(f"skipped: {text}" for text in list_by_reason(skipped, "no reason given")),
        *(
            f"unclear: {text}"
            for text in list_by_reason(
                [each for each in find_too_few(judged) if each.status is not Status.PARTIAL],
                f"fewer than {FEWEST_REPLICATES} replicates",
            )
        ),
        *([] if judged.times else _list_partial(judged)),
    )
    name, of_b = short_name(judged.a), f" of {short_name(judged.b)}" if suffix else ""
    return [
        *([_times(judged, suffix, lead)] if judged.times else []),
        *([_counts(judged, suffix, lead)] if judged.counts else []),
        score_section(time_ratios(judged), f"{lead}Score of the times", f"score{suffix}"),
        score_section(
            count_ratios(judged),
            f"{lead}Score of the instructions",
            f"count-score{suffix}",
            shared=0.0,
        ),
        Section(f"gaps{suffix}", f"{lead}Not measured", listing=gaps),
        Section(
            f"control{suffix}",
            f"Control{of_b}: {name} compared with {name}",
            paragraphs=describe_control(judged),
        ),
    ]


def _times(judged: Judged, suffix: str, lead: str) -> Section:
    rows, names = judged.times, name_rows(judged.times)
    explained = {row.case.id for row in judged.counts if row.verdict.is_change}
    same = [row.effect.detectable for row in rows if row.verdict is Verdict.SAME]
    level = confidence_text(rows[0].effect.level)
    a, b = _column_names(judged)
    fields: list[Field[TimeRow]] = [
        field("case", names.of),
        field(a, lambda row: row.a_seconds, Kind.SECONDS, "One run: the median"),
        field(b, lambda row: row.b_seconds, Kind.SECONDS, "A's time multiplied by the ratio"),
        field(
            f"ratio [{level}]",
            _ratio_cell,
            Kind.RATIO,
            f"The second time divided by the first, with its {level} interval",
        ),
        field("verdict", lambda row: verdict_cell(row.verdict), Kind.VERDICT),
        field(
            "detectable",
            lambda row: Cell(row.effect.detectable, "" if row.verdict.is_change else None),
            Kind.SHARE,
            _DETECTABLE,
        ),
        field(
            "replicates",
            lambda row: row.effect.replicates,
            Kind.INTEGER,
            "Fresh launches of both environments",
            is_wide_only=True,
        ),
    ]

    def frame(row: TimeRow) -> Row:
        """Python functions are in pages only if the instructions of the case show them in text."""
        calls = row.python_calls if row.verdict.is_change else ()
        functions = _python_details(calls, is_page_only=row.case.id in explained)
        details = (*functions, *_code(row.case, row.other))
        return Row(is_quiet=row.verdict is Verdict.SAME, details=details)

    return Section(
        f"times{suffix}",
        names.under(f"{lead}Times"),
        chart=_chart(judged, names, suffix),
        table=make_table(
            rows,
            fields,
            frame,
            quiet_text=f"{len(same)} cases are the same "
            f"(detectable: {share_text(max(same, default=0.0))} or less)",
        ),
        footnotes=(_LEVEL.format(level), _DETECTABLE, *_list_partial(judged)),
    )


def _list_partial(judged: Judged) -> list[str]:
    """Cases whose measurement was cut short."""
    partial = [each for each in judged.results if each.status is Status.PARTIAL]
    return [f"{text}; --resume measures it again." for text in list_by_reason(partial, "cut short")]


def _ratio_cell(row: TimeRow) -> Cell:
    effect = row.effect
    low, high = effect.interval_95
    hint = f"95 %: [{low:.4f}, {high:.4f}], p = {effect.p:.2g}, {effect.replicates} replicates"
    return Cell(effect.ratio, interval=effect.interval, hint=hint)


def _chart(judged: Judged, names: Names, suffix: str) -> Chart:
    b, a = short_name(judged.b), short_name(judged.a)
    dots = [
        ratio_dot(
            names.of(row),
            row.effect.ratio,
            row.effect.interval,
            row.verdict,
            {"replicates": row.effect.replicates},
            level=row.effect.level,
        )
        for row in judged.times
    ]
    return chart_ratios(
        dots,
        title=f"Time in {b} over time in {a}",
        axis=f"change of {b}'s time",
        same_within=SAME_WITHIN,
        chart_id=f"ratios{suffix}",
    )


def _counts(judged: Judged, suffix: str, lead: str) -> Section:
    rows, names = judged.counts, name_rows(judged.counts)
    same = sum(row.verdict is Verdict.SAME for row in rows)
    close = sum(row.verdict is Verdict.CLOSE for row in rows)
    quiet = [f"{same} cases are the same" if same else "", f"{close} are close" if close else ""]
    kind, (a, b) = Kind.INSTRUCTIONS, _column_names(judged)
    fields: list[Field[CountRow]] = [
        field("case", names.of),
        field(a, lambda row: float(row.before), kind),
        field(b, lambda row: float(row.after), kind),
        field(
            "ΔI",
            lambda row: signed_cell(float(row.difference)),
            kind,
            "Additional instructions in the second environment",
        ),
        field(
            "change",
            lambda row: Cell(_share_of(row), count_share_text(row) if row.difference else ""),
            Kind.CHANGE,
        ),
        field("verdict", lambda row: verdict_cell(row.verdict), Kind.VERDICT),
        field("layouts", lambda row: float(row.spread), kind, _LAYOUTS, is_wide_only=True),
    ]
    return Section(
        f"instructions{suffix}",
        names.under(f"{lead}Instructions"),
        table=make_table(
            rows,
            fields,
            lambda row: Row(
                is_quiet=not row.verdict.is_change,
                details=(
                    *_native_details(row, is_page_only=not row.verdict.is_change),
                    *_python_details(row.python_calls, is_page_only=not row.verdict.is_change),
                    *_code(row.case, row.other),
                ),
            ),
            quiet_text=", ".join(filter(None, quiet)),
        ),
        footnotes=(_CLOSE,) if close else (),
    )


def _share_of(row: CountRow) -> float | None:
    return row.share if math.isfinite(row.share) else None


def _native_details(row: CountRow, *, is_page_only: bool) -> tuple[Detail, ...]:
    def show_share(each: FunctionDifference) -> Cell:
        share = float(each.instructions / row.before) if row.before else None
        return Cell(share, None if share is None else f"{share * 100:+,.2f} %")

    fields: list[Field[FunctionDifference]] = [
        field(
            "instructions", lambda each: signed_cell(float(each.instructions)), Kind.INSTRUCTIONS
        ),
        field("change", show_share, Kind.CHANGE, "Share of all instructions of the case in A"),
        field("function", lambda each: function_cell(each.function), Kind.CODE),
    ]
    return _function_details(row.functions, fields, is_page_only=is_page_only)


def _python_details(calls: Sequence[PythonCalls], *, is_page_only: bool) -> tuple[Detail, ...]:
    fields: list[Field[PythonCalls]] = [
        field(
            "bytecodes", lambda each: Cell(each.b - each.a, f"{each.b - each.a:+,}"), Kind.INTEGER
        ),
        field("Python function", lambda each: each.function, Kind.CODE),
    ]
    ordered = sorted(calls, key=lambda each: (-abs(each.b - each.a), each.function))
    return _function_details(ordered, fields, is_page_only=is_page_only)


def _function_details(
    functions: Sequence[T], fields: Sequence[Field[T]], *, is_page_only: bool
) -> tuple[Detail, ...]:
    """The differences by function, largest first; text shows the first few."""
    if not functions:
        return ()
    table = make_table(functions[:_MOST_FUNCTIONS], fields, most_rows=_TEXT_FUNCTIONS)
    details = [Detail(table=table, is_page_only=is_page_only)]
    left_out = len(functions) - _MOST_FUNCTIONS
    if left_out > 0:
        details.append(Detail(lines=(f"{left_out:,} more functions differ",), is_page_only=True))
    return tuple(details)


def _code(case: Case, other: Case | None) -> tuple[Detail, ...]:
    return (*code_details(case), *(code_details(other) if other is not None else ()))


def _column_names(judged: Judged) -> tuple[str, str]:
    """The names of the environments, cut so that their columns are not wider than a time."""
    return cut_line(judged.a.name, 12), cut_line(judged.b.name, 12)


_DATA = (
    "run", "environment", "case", "title", "other", "metric", "status", "verdict", "a", "b",
    "ratio", "difference", "low", "high", "share", "replicates", "detectable", "spread", "reason",
    "p", "base", "seconds", "level", "low_95", "high_95",
)  # fmt: skip
"""Columns of the data. The order is stable; new columns are added at the end."""


def _data(run: Run, compared: Sequence[Judged]) -> Table:
    """A row for each result: times in seconds, instructions of one run, shares of A's figure."""
    rows = []
    for judged in compared:
        figures = {(Metric.TIME, row.case.id): _time_figures(row) for row in judged.times}
        figures |= {
            (Metric.INSTRUCTIONS, row.case.id): _count_figures(row) for row in judged.counts
        }
        facts = {"run": run.id, "environment": judged.b.name, "base": judged.a.name}
        rows += [
            {**facts, **_facts(each), **figures.get((each.metric, each.case.id), {})}
            for each in judged.results
        ]
    return data_table(_DATA, rows)


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
        "a": float(row.before),
        "b": float(row.after),
        "difference": float(row.difference),
        "share": _share_of(row),
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
        "level": row.effect.level,
        "low_95": row.effect.interval_95.low,
        "high_95": row.effect.interval_95.high,
    }
