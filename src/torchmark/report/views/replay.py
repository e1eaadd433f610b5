"""A replay: where the time of a step goes, by operator, by call and by part of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.analyse.replay import analyse_replay, split_by_module, split_by_phase
from torchmark.model.result import Status
from torchmark.model.run_settings import Backend, ReplayMode
from torchmark.report.figures import (
    amount_text,
    first_line,
    seconds_text,
    share_text,
    short_seconds_text,
)
from torchmark.report.view import (
    Cell,
    Column,
    ColumnKind,
    Detail,
    Mark,
    Row,
    Section,
    Table,
    View,
)
from torchmark.report.views.common import (
    fact_table,
    lead_of,
    results_in_order,
    title_of,
    warning_texts,
)
from torchmark.report.views.replay_calls import (
    BYTES,
    FLOPS,
    SHARE,
    WHAT,
    CallTable,
    call_text,
    nature_cell,
    operator_text,
    places_text,
    share_chart,
    short_time_text,
)
from torchmark.report.views.replay_data import data_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.analyse.call_costs import Nature
    from torchmark.analyse.replay import CallRow, OperatorRow, PartRow, ReplayAnalysis
    from torchmark.model.run import MachineSpeeds, Run

_NAMED = 2
"""Calls that are named with a reason; more are counted."""


def make_view(run: Run) -> View:
    analysis = analyse_replay(run)
    calls = CallTable(analysis)
    settings = analysis.settings
    return View(
        title=title_of(run, "Replay"),
        lead=(_what_was_replayed(analysis), *lead_of(run), *_sentences(analysis)),
        summary=_summary(analysis),
        warnings=warning_texts(results_in_order(run)),
        notes=(*run.notes, *(f"The trace lacks: {text}" for text in settings.unseen)),
        sections=tuple(
            section
            for section in (
                _by_operator(analysis, calls, run.speeds),
                _by_call(analysis, calls, settings.top),
                _by_part("phases", "By phase", "phase", split_by_phase(analysis)),
                _by_part("modules", "By module", "module", split_by_module(analysis)),
                _not_replayed(analysis),
                _not_as_recorded(analysis),
            )
            if section is not None
        ),
        environments=fact_table(run.environments),
        settings=(
            ("trace", settings.trace),
            ("mode", settings.mode.value),
            ("backends", ", ".join(backend.value for backend in settings.backends)),
            ("threads", str(settings.threads)),
            ("seed", str(settings.seed)),
        ),
        data=data_of(analysis),
    )


def _what_was_replayed(analysis: ReplayAnalysis) -> str:
    settings = analysis.settings
    how = {
        ReplayMode.HOT: "each call by itself",
        ReplayMode.ORDER: "calls in their order",
    }[settings.mode]
    threads = "1 thread" if settings.threads == 1 else f"{settings.threads} threads"
    return f"{settings.trace}: {how}, {threads}, seed {settings.seed}"


def _sentences(analysis: ReplayAnalysis) -> list[str]:
    """How much there is, what a step takes, and what the time is for."""
    settings = analysis.settings
    count = sum(call.count for call in settings.calls)
    steps = "1 step" if settings.steps == 1 else f"{settings.steps:,} steps"
    sentences = [f"{_calls_text(count)} in {steps}, {len(settings.calls):,} of them distinct."]
    if analysis.seconds:
        backend = "" if analysis.backend is Backend.EAGER else f" with {analysis.backend.value}"
        text = f"The calls of a step take {seconds_text(analysis.step_seconds)}{backend}"
        sentences.append(f"{text}{_natures_text(analysis.by_nature)}.")
    for other in settings.backends[1:]:
        speedup = analysis.speedup(analysis.calls, other)
        if speedup is not None:
            both = sum(
                row.time_by(other) is not None and row.time_by(analysis.backend) is not None
                for row in analysis.calls
            )
            sentences.append(
                f"{other.value}: {speedup:.2f} times as fast as {analysis.backend.value}, over "
                f"{_calls_text(both)} that both have."
            )
    whole = analysis.whole_pass
    if whole is not None and whole.median:
        ratio = analysis.step_seconds / whole.median
        sentences.append(
            f"A pass over all of them takes {short_time_text(whole)} on the clock; the sum of the "
            f"calls is {ratio:.2f} of it."
        )
    return sentences


def _natures_text(shares: Mapping[Nature, float]) -> str:
    texts = [f"{share * 100:.0f} % {nature.value}" for nature, share in shares.items() if share]
    return f": {', '.join(texts)}" if texts else ""


def _calls_text(number: int) -> str:
    """
    >>> _calls_text(1), _calls_text(1234)
    ('1 call', '1,234 calls')
    """
    return f"{number:,} call{'' if number == 1 else 's'}"


def _summary(analysis: ReplayAnalysis) -> str:
    """What came of the calls, and what they take."""
    outcomes = [outcome for row in analysis.calls for outcome in row.outcomes]
    parts = []
    for status, word in (
        (Status.DONE, "replayed"),
        (Status.FAILED, "failed"),
        (Status.SKIPPED, "cannot be replayed"),
    ):
        number = sum(outcome.status is status for outcome in outcomes)
        parts += [f"{number} {word}"] if number or status is Status.DONE else []
    missing = analysis.missing()
    parts += [f"{missing} not measured"] if missing else []
    took = f"; a step takes {seconds_text(analysis.step_seconds)}" if analysis.seconds else ""
    return f"{', '.join(parts)}{took}."


def _by_operator(
    analysis: ReplayAnalysis, calls: CallTable, speeds: MachineSpeeds | None
) -> Section:
    others = analysis.settings.backends[1:]
    columns = (
        Column(name="operator"),
        Column(name="calls", kind=ColumnKind.INTEGER, hint="In the whole trace"),
        Column(
            name="total",
            kind=ColumnKind.SECONDS,
            hint="Of all its calls in the trace, with the first backend",
        ),
        SHARE,
        FLOPS,
        BYTES,
        replace(WHAT, is_wide_only=bool(others)),
        *(
            Column(
                name=backend.value,
                kind=ColumnKind.SPEEDUP,
                hint=f"How many times as fast as {analysis.backend.value}",
            )
            for backend in others
        ),
    )
    chart = share_chart(analysis)
    return Section(
        id="operators",
        title="By operator",
        charts=() if chart is None else (chart,),
        table=Table(
            columns=columns,
            rows=tuple(_operator(analysis, calls, each) for each in analysis.operators),
        ),
        footnotes=() if speeds is None else (_speed_sentence(speeds),),
    )


def _operator(analysis: ReplayAnalysis, calls: CallTable, operator: OperatorRow) -> Row:
    speedups = [
        analysis.speedup(operator.calls, backend) for backend in analysis.settings.backends[1:]
    ]
    seconds = operator.seconds
    return Row(
        cells=(
            Cell(value=operator_text(operator.op), hint=operator.op),
            Cell(value=operator.count),
            Cell(value=seconds, text=None if seconds is None else short_seconds_text(seconds)),
            Cell(value=operator.share),
            Cell(value=operator.flops),
            Cell(value=operator.bytes),
            nature_cell(operator.nature),
            *(Cell(value=speedup) for speedup in speedups),
        ),
        details=(
            Detail(
                title="Calls",
                table=Table(
                    columns=(
                        Column(name="arguments", kind=ColumnKind.CODE),
                        *calls.columns,
                    ),
                    rows=tuple(
                        Row(
                            cells=(
                                Cell(value=row.call.signature, hint=places_text(row)),
                                *calls.cells(row),
                            )
                        )
                        for row in operator.calls
                    ),
                ),
                is_page_only=True,
            ),
        ),
    )


def _by_call(analysis: ReplayAnalysis, calls: CallTable, top: int) -> Section | None:
    rows = [row for row in analysis.calls if row.share is not None]
    rows.sort(key=lambda row: -(row.share or 0.0))
    if not rows:
        return None
    first = share_text(sum(row.share or 0.0 for row in rows[:top]))
    return Section(
        id="calls",
        title="By call",
        paragraphs=(
            (f"The first {top} of {len(rows):,} calls have {first} of the time.",)
            if len(rows) > top
            else ()
        ),
        table=Table(
            columns=(Column(name="call", kind=ColumnKind.CODE), *calls.columns),
            rows=tuple(
                Row(
                    cells=(
                        Cell(value=call_text(row)),
                        # The table above has the hints, which are half of a page.
                        *(replace(cell, hint="") for cell in calls.cells(row)),
                    )
                )
                for row in rows
            ),
            most_rows=top,
        ),
        is_folded=True,
    )


def _by_part(section_id: str, title: str, name: str, parts: Sequence[PartRow]) -> Section | None:
    if not parts:
        return None
    return Section(
        id=section_id,
        title=title,
        table=Table(
            columns=(
                Column(name=name),
                Column(name="calls", kind=ColumnKind.INTEGER),
                SHARE,
            ),
            rows=tuple(
                Row(
                    cells=(
                        Cell(
                            value=part.name.rpartition(".")[2] or "the whole model",
                            hint=part.name,
                        ),
                        Cell(value=part.count),
                        Cell(value=part.share),
                    ),
                    depth=part.depth,
                )
                for part in parts
            ),
        ),
        is_page_only=section_id == "modules",
    )


def _speed_sentence(speeds: MachineSpeeds) -> str:
    """What calls are held against."""
    copies = ", ".join(
        f"{amount_text(speed)}B/s for {size // 1024:,} KiB"
        for size, speed in sorted(speeds.bytes_per_second.items())
    )
    products = ", ".join(
        f"{amount_text(speed)}FLOP/s in {name}"
        for name, speed in sorted(speeds.flops_per_second.items())
    )
    return (
        f"This machine at its best: copies {copies}; matrix products "
        f"{products or 'not measured'}; the smallest call takes "
        f"{short_seconds_text(speeds.small_call_seconds)}."
    )


def _not_replayed(analysis: ReplayAnalysis) -> Section | None:
    """Why calls were not replayed: status, backend and reason, each with its calls."""
    groups: dict[str, list[CallRow]] = {}
    failures = analysis.failures()
    for row, outcome in failures:
        has_several = len(analysis.settings.backends) > 1
        backend = f" {outcome.backend.value}" if has_several else ""
        reason = first_line(outcome.reason)
        groups.setdefault(f"{outcome.status.value.upper()}{backend}: {reason}", []).append(row)
    if not groups:
        return None
    has_failed = any(outcome.status is Status.FAILED for _, outcome in failures)
    return Section(
        id="not-replayed",
        title="Not replayed",
        listing=tuple(f"{reason}: {_names_text(rows)}" for reason, rows in groups.items()),
        mark=Mark.BAD if has_failed else Mark.PLAIN,
    )


def _not_as_recorded(analysis: ReplayAnalysis) -> Section | None:
    """Calls whose outputs are not what the trace says, under the remark about them."""
    groups: dict[str, list[CallRow]] = {}
    for row in analysis.calls:
        for outcome in row.outcomes:
            for remark in outcome.facts.remarks:
                groups.setdefault(remark, []).append(row)
    if not groups:
        return None
    return Section(
        id="not-as-recorded",
        title="Not as recorded",
        listing=tuple(f"{remark}: {_names_text(rows)}" for remark, rows in groups.items()),
    )


def _names_text(rows: Sequence[CallRow]) -> str:
    """The first of them by name, the others counted."""
    names = "; ".join(map(call_text, rows[:_NAMED]))
    return names + (f"; {len(rows) - _NAMED} more" if len(rows) > _NAMED else "")
