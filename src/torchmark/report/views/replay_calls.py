"""How the calls of a replay are shown: the columns of their tables, cells, a chart, short texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.analyse.call_costs import Nature
from torchmark.model.result import Status
from torchmark.report.figures import (
    first_line,
    reach,
    seconds_text,
    share_text,
    short_seconds_text,
    speedup_text,
)
from torchmark.report.view import Cell, Chart, Column, ColumnKind, Mark
from torchmark.report.views.dots import Dot, draw_rows

if TYPE_CHECKING:
    from torchmark.analyse.estimates import MeasuredTime
    from torchmark.analyse.replay import CallRow, Outcome, ReplayAnalysis
    from torchmark.model.run_settings import Backend

SHARE = Column(
    name="share",
    kind=ColumnKind.SHARE,
    hint="Of the time of all calls that were measured with the first backend; without times, of "
    "the instructions",
)
FLOPS = Column(
    name="FLOPs",
    kind=ColumnKind.FLOPS,
    hint="Floating-point operations by torch's formulas; empty where there is none",
)
BYTES = Column(
    name="bytes",
    kind=ColumnKind.BYTES,
    hint="The least that must be moved: what is read once, what is written once",
)
WHAT = Column(
    name="what",
    hint="work: half of the time or more is what the bytes or FLOPs need at this machine's best "
    "speed; overhead: less, and the call is short (dispatch, checks, allocation); slow: less, and "
    "the call is long",
)
EXPLAINED = Column(
    name="explained",
    kind=ColumnKind.SHARE,
    hint="Part of the time that bytes or FLOPs need at this machine's best speed",
    is_wide_only=True,
)
_DRAWN = 20
"""Operators in the chart; the table has all."""

_UNKNOWN = "not known"
_COLOURS = {
    Nature.WORK.value: "var(--plot-1)",
    Nature.OVERHEAD.value: "var(--plot-2)",
    Nature.SLOW.value: "var(--plot-4)",
    _UNKNOWN: "var(--quiet)",
}


class CallTable:
    """The figures of calls, the same below an operator and in the table of all calls.

    With several backends text shows their times in place of what a call does.
    """

    def __init__(self, analysis: ReplayAnalysis) -> None:
        self._analysis = analysis
        outcomes = [outcome for row in analysis.calls for outcome in row.outcomes]
        self._has_times = any(outcome.time is not None for outcome in outcomes)
        self._has_counts = any(outcome.instructions is not None for outcome in outcomes)

    @property
    def columns(self) -> tuple[Column, ...]:
        has_several = len(self._analysis.settings.backends) > 1
        count = Column(
            name="instructions",
            kind=ColumnKind.INSTRUCTIONS,
            hint="Of one call, with eager",
            is_wide_only=self._has_times,
        )
        return (
            Column(name="calls", kind=ColumnKind.INTEGER, is_wide_only=has_several),
            *self._time_columns(),
            *([count] if self._has_counts else []),
            SHARE,
            replace(FLOPS, is_wide_only=has_several),
            replace(BYTES, is_wide_only=has_several),
            EXPLAINED,
            replace(WHAT, is_wide_only=has_several),
        )

    def cells(self, row: CallRow) -> tuple[Cell, ...]:
        counts = [each.instructions for each in row.outcomes if each.instructions is not None]
        return (
            Cell(value=row.call.count),
            *(self._time_cell(row, backend) for backend in self._analysis.settings.backends),
            *([Cell(value=counts[0] if counts else None)] if self._has_counts else []),
            Cell(value=row.share),
            Cell(value=row.flops),
            Cell(value=row.bytes),
            Cell(value=row.explained),
            nature_cell(row.nature),
        )

    def _time_columns(self) -> list[Column]:
        backends = self._analysis.settings.backends
        return [
            Column(
                name=backend.value if len(backends) > 1 else "each",
                kind=ColumnKind.SECONDS,
                hint="One call: the median with its 95 % interval"
                + ("" if backend is backends[0] else ", or the speed-up"),
                is_wide_only=self._has_counts and not self._has_times,
            )
            for backend in backends
        ]

    def _time_cell(self, row: CallRow, backend: Backend) -> Cell:
        """The time of one call, or the word for why there is none."""
        outcome = row.by_backend(backend)
        if outcome is None:
            return Cell(text="–", mark=Mark.QUIET, hint="not measured")
        if outcome.time is None:
            return _reason_cell(outcome)
        text = short_time_text(outcome.time)
        speedup = self._analysis.speedup([row], backend)
        if backend is not self._analysis.backend and speedup is not None:
            text = f"{short_seconds_text(outcome.time.median)} {speedup_text(speedup)}"
        return Cell(
            value=outcome.time.median,
            text=text,
            interval=outcome.time.interval,
            mark=Mark.DOUBTFUL if outcome.time.warnings else Mark.PLAIN,
            hint=_hint_of(outcome),
        )


def _reason_cell(outcome: Outcome) -> Cell:
    if outcome.status is Status.DONE:
        return Cell()
    return Cell(
        text=outcome.status.value,
        mark=Mark.BAD if outcome.status is Status.FAILED else Mark.QUIET,
        hint=first_line(outcome.reason),
        link="not-replayed",
    )


def _hint_of(outcome: Outcome) -> str:
    """What is known beyond the time, in a line."""
    parts = []
    if outcome.time is not None:
        low, high = outcome.time.interval
        parts.append(
            f"{seconds_text(max(low, 0.0))} to {seconds_text(high)}, {outcome.time.samples} samples"
        )
        parts += map(str, outcome.time.warnings)
    if outcome.facts.prepare_seconds is not None:
        parts.append(f"prepared in {seconds_text(outcome.facts.prepare_seconds)}")
    if outcome.facts.max_error is not None:
        parts.append(f"largest error {outcome.facts.max_error:.3g}")
    return "; ".join([*parts, *outcome.facts.remarks])


def nature_cell(nature: Nature | None) -> Cell:
    return Cell(value=nature.value if nature else None)


def call_text(row: CallRow) -> str:
    """The call as people would write it, with what its arguments look like."""
    return f"{operator_text(row.call.op)}({row.call.signature})"


def places_text(row: CallRow) -> str:
    """Where the call comes from, in a line."""
    return "; ".join([*row.call.phases, *row.call.modules[:3]])


def operator_text(op: str) -> str:
    """
    >>> operator_text("aten.add.Tensor"), operator_text("aten.mm.default"), operator_text("my.op.x")
    ('add.Tensor', 'mm', 'my.op.x')
    """
    return op.removeprefix("aten.").removesuffix(".default")


def short_time_text(time: MeasuredTime) -> str:
    """Three figures and the reach of the interval, so that several fit in a line."""
    return f"{short_seconds_text(time.median)} ±{_short_reach(time)}"


def _short_reach(time: MeasuredTime) -> str:
    text = reach(time.median, time.interval)
    share = text.removesuffix(" %")
    return text if share == text else f"{float(share):.0f} %" if float(share) >= 1 else "<1 %"


def share_chart(analysis: ReplayAnalysis) -> Chart | None:
    """Bars of the operators' shares, the largest first; None where nothing was measured."""
    known = [operator for operator in analysis.operators if operator.share]
    if not known:
        return None
    dots = [
        Dot(
            name=operator.op,
            value=operator.share or 0.0,
            series=operator.nature.value if operator.nature else _UNKNOWN,
            told={"share": share_text(operator.share or 0.0), "calls": f"{operator.count:,}"},
        )
        for operator in known[:_DRAWN]
    ]
    left = [operator.share or 0.0 for operator in known[_DRAWN:]]
    scale = {"domain": list(_COLOURS), "range": list(_COLOURS.values())}
    return Chart(
        id="shares",
        title="Share of the step",
        description=f"Bars of {len(dots)} operators, the largest first: {known[0].op} has "
        f"{share_text(dots[0].value)} of the time.",
        spec=draw_rows(
            dots,
            {"axis": {"format": ".0%", "title": "share of the time"}},
            series="what",
            is_bar=True,
            more={"color": {"field": "what", "type": "nominal", "scale": scale}},
        ),
        note=f"{len(left)} more operators have {share_text(sum(left))} of the time."
        if left
        else "",
    )
