"""The view of `torchmark check`: what fails, what is doubtful, what could not be judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchmark.analyse.gate import Gate, GateRow, Limit, Outcome
from torchmark.model.series import Quantity
from torchmark.model.units import collect, first_line
from torchmark.report.figures import number_text
from torchmark.report.names import group_of, name_in_group
from torchmark.report.view import (
    Cell,
    Field,
    Kind,
    Mark,
    Row,
    Section,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.common import fact_table, interval_values, run_line
from torchmark.report.views.history import KINDS

_MARKS = {
    Outcome.FAIL: Mark.BAD,
    Outcome.WARN: Mark.DOUBTFUL,
    Outcome.NEAR: Mark.DOUBTFUL,
    Outcome.BETTER: Mark.GOOD,
    Outcome.BROKEN: Mark.BAD,
}
_LOUD = (Outcome.FAIL, Outcome.BROKEN, Outcome.WARN, Outcome.BETTER, Outcome.NEAR)
"""The order of the outcomes in a report; the others are counted."""

_GAPS = {
    Outcome.NEW: "has no baseline yet",
    Outcome.MISSING: "is in the baseline, but not in this run",
    Outcome.BROKEN: "failed",
}
_WORDS = {
    Outcome.FAIL: "over the hard limit",
    Outcome.BROKEN: "failed",
    Outcome.WARN: "over the soft limit",
    Outcome.NEAR: "unclear",
    Outcome.BETTER: "faster or smaller",
    Outcome.FINE: "fine",
    Outcome.NEW: "new",
    Outcome.MISSING: "missing",
}
_FOOTNOTE = (
    "slower: the interval lies above 0 % and the change is larger than the hard limit. slightly "
    "slower: the same, for the soft limit. unclear: the interval includes 0 % and reaches the "
    "limit. (p): measured together with the baseline."
)


def make_view(gate: Gate) -> View:
    again = [f"doubtful times were measured again in run {gate.again}"] if gate.again else []
    judged = [row for row in gate.rows if row.outcome not in _GAPS]
    sections = [
        _section(quantity, rows)
        for quantity, rows in collect((row.quantity, row) for row in judged).items()
    ]
    return View(
        title="Check",
        lead=(run_line(gate.run), f"against: {gate.against}", *again),
        summary=_summary(gate),
        notes=gate.notes,
        sections=(*sections, _gap_section(gate)),
        environments=fact_table(gate.run.environments),
        data=data_table(_DATA, map(_values, gate.rows)),
    )


def _section(quantity: Quantity, rows: Sequence[GateRow]) -> Section:
    kind = KINDS[quantity]
    fields: list[Field[GateRow]] = [
        field("case", lambda row: name_in_group(row.case)),
        field("before", lambda row: row.before, kind, "The level of the baseline"),
        field("now", lambda row: row.value, kind),
        field("change", _change_cell, Kind.CHANGE, "With the interval that decides"),
        field(
            "limit",
            lambda row: limit_text(row.limit),
            Kind.NUMBER,
            "Soft and hard limit",
            is_wide_only=True,
        ),
        field("outcome", outcome_cell, Kind.VERDICT),
    ]
    ordered = sorted(rows, key=_order)
    quiet = sum(row.outcome is Outcome.FINE for row in rows)
    return Section(
        id=quantity.value,
        title=quantity.value.capitalize(),
        table=make_table(
            ordered,
            fields,
            lambda row: Row(group=group_of(row.case), is_quiet=row.outcome is Outcome.FINE),
            quiet_text=f"{number_text(quiet, 'more case')} within the limits",
        ),
        footnotes=(_FOOTNOTE,) if quantity is Quantity.TIME else (),
    )


def _order(row: GateRow) -> tuple[int, float]:
    place = _LOUD.index(row.outcome) if row.outcome in _LOUD else len(_LOUD)
    return place, -abs((row.ratio or 1.0) - 1)


def _change_cell(row: GateRow) -> Cell:
    if row.ratio is None:
        return Cell()
    interval = None
    if row.interval is not None and row.quantity is Quantity.TIME:
        interval = row.interval.low - 1, row.interval.high - 1
    return Cell(row.ratio - 1, interval=interval)


def outcome_cell(row: GateRow) -> Cell:
    words = row.outcome.value
    if row.quantity is not Quantity.TIME:
        words = words.replace("slower", "more").replace("faster", "fewer")
    return Cell(
        f"{words} (p)" if row.is_paired else words, mark=_MARKS.get(row.outcome, Mark.PLAIN)
    )


def limit_text(limit: Limit) -> str:
    """
    >>> limit_text(Limit(soft=0.0, hard=0.01)), limit_text(Limit(soft=0.02, hard=0.05))
    ('1 %', '2 %, 5 %')
    """
    shares = [limit.soft, limit.hard] if limit.soft not in (0, limit.hard) else [limit.hard]
    return ", ".join(f"{share * 100:g} %" for share in shares)


def _gap_section(gate: Gate) -> Section:
    lines = [
        f"{row.case.title} ({row.quantity.value}) {_GAPS[row.outcome]}"
        f"{f': {first_line(row.reason)}' if row.reason else ''}"
        for outcome in _GAPS
        for row in gate.rows_with(outcome)
    ]
    return Section("gaps", "Not judged", listing=tuple(lines))


def _summary(gate: Gate) -> str:
    counts = Counter(row.outcome for row in gate.rows)
    parts = [f"{counts[outcome]} {words}" for outcome, words in _WORDS.items() if counts[outcome]]
    if not gate.rows:
        return "The run has no times or counts to check."
    if not gate.was_judged:
        return "Nothing was judged: there is no baseline for these cases."
    return f"{'; '.join(parts)}."


_DATA = (
    "case", "title", "quantity", "outcome", "before", "value", "ratio", "ratio_low", "ratio_high",
    "soft_limit", "hard_limit", "paired", "baseline_runs", "baseline_first", "baseline_last",
    "reason",
)  # fmt: skip


def _values(row: GateRow) -> dict[str, Value]:
    baseline = row.baseline
    ratio = interval_values("ratio", row.ratio, row.interval) if row.ratio is not None else {}
    known: dict[str, Value] = (
        {
            "baseline_runs": baseline.points,
            "baseline_first": baseline.first.run,
            "baseline_last": baseline.last.run,
        }
        if baseline is not None
        else {}
    )
    return {
        "case": row.case.id,
        "title": row.case.title,
        "quantity": row.quantity.value,
        "outcome": row.outcome.value,
        "before": row.before,
        "value": row.value,
        **ratio,
        "soft_limit": row.limit.soft,
        "hard_limit": row.limit.hard,
        "paired": row.is_paired,
        **known,
        "reason": first_line(row.reason),
    }
