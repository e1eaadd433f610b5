"""The view of a replay: the time of a step by operator, by call and by part of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torchmark.analyse.call_costs import Nature
from torchmark.analyse.devices import warn_of_devices
from torchmark.analyse.hints import Hint, find_hints
from torchmark.analyse.real_step import RealStep
from torchmark.analyse.replay import (
    CallRow,
    OperatorRow,
    ReplayAnalysis,
    analyse_replay,
)
from torchmark.analyse.replay_parts import PartRow, split_by_module, split_by_phase
from torchmark.model.result import Status
from torchmark.model.run import MachineSpeeds, Run
from torchmark.model.run_settings import Backend, ReplayMode
from torchmark.model.units import collect, first_line, ordered_unique
from torchmark.report.figures import (
    amount_text,
    number_text,
    seconds_text,
    share_text,
    short_seconds_text,
)
from torchmark.report.names import name_some
from torchmark.report.view import (
    Cell,
    Chart,
    Detail,
    Field,
    Kind,
    Mark,
    Row,
    Section,
    Value,
    View,
    field,
    make_table,
)
from torchmark.report.views.charts import Dot, draw_rows
from torchmark.report.views.common import (
    fact_table,
    lead_of,
    results_in_order,
    title_of,
    warning_texts,
)
from torchmark.report.views.replay_calls import (
    NATURES,
    SHARE,
    call_fields,
    call_text,
    data_of,
    operator_text,
    place_lines,
    places_text,
    short_time_text,
    what_field,
    work_fields,
)
from torchmark.report.views.replay_hints import hint_section

_DRAWN = 20
"""Maximum number of operators in the chart; the table has all."""

_UNKNOWN = "not known"
_COLOURS = {
    Nature.WORK.value: "var(--plot-1)",
    Nature.OVERHEAD.value: "var(--plot-2)",
    Nature.SLOW.value: "var(--plot-4)",
    _UNKNOWN: "var(--quiet)",
}

_LONG_WAIT = 0.05
"""A shorter wait, as a share of a real step, is not shown."""

_NAMED = 2
"""Number of calls that are named with a reason; more are counted."""


def make_view(run: Run) -> View:
    analysis = analyse_replay(run)
    hints = find_hints(analysis, run.alternatives)
    settings, fields = analysis.settings, call_fields(analysis)
    return View(
        title=title_of(run, "Replay"),
        lead=(
            _what_was_replayed(analysis),
            *_where_recorded(analysis),
            *lead_of(run),
            *_sentences(analysis),
        ),
        summary=_summary(analysis, hints),
        warnings=(
            *warn_of_devices([row.recorded_on for row in analysis.calls]),
            *warning_texts(results_in_order(run)),
        ),
        notes=(*run.notes, *(f"Missing from the trace: {text}" for text in settings.unseen)),
        sections=(
            _by_operator(analysis, fields, run.speeds),
            _by_call(analysis, fields),
            _by_phase(split_by_phase(analysis)),
            _by_module(split_by_module(analysis)),
            hint_section(hints),
            _not_replayed(analysis),
            _not_as_recorded(analysis),
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
    is_hot = settings.mode is ReplayMode.HOT
    how = "each call alone" if is_hot else "calls in order"
    how += f" ({settings.mode_reason})" if settings.mode_reason else ""
    threads = number_text(settings.threads, "thread")
    return f"{settings.trace}: {how}, {threads}, seed {settings.seed}"


def _where_recorded(analysis: ReplayAnalysis) -> list[str]:
    devices = ordered_unique(name for row in analysis.calls for name in row.recorded_on)
    return [f"recorded on {', '.join(devices)}, replayed on the CPU"] if devices else []


def _sentences(analysis: ReplayAnalysis) -> list[str]:
    """The number of calls, the time of a step, and what it is spent on."""
    settings = analysis.settings
    count = sum(call.count for call in settings.calls)
    calls, steps = number_text(count, "call"), number_text(settings.steps, "step")
    recorded = sum(call.has_values for call in settings.calls)
    values = f"; {recorded:,} use recorded values" if recorded else ""
    sentences = [f"{calls} in {steps}, {len(settings.calls):,} of them distinct{values}."]
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
                f"{other.value} is {speedup:.2f} times as fast as {analysis.backend.value} "
                f"({number_text(both, 'call')} measured with both)."
            )
    whole = analysis.whole_pass
    if whole is not None and whole.median:
        ratio = analysis.step_seconds / whole.median
        sentences.append(
            f"One pass over all calls takes {short_time_text(whole)}; the sum of the calls is "
            f"{ratio:.2f} of that."
        )
    return [*sentences, *_real_step_sentences(analysis)]


def _real_step_sentences(analysis: ReplayAnalysis) -> Iterator[str]:
    """The time of a real step, and how much of it is not spent in calls."""
    settings, real = analysis.settings, analysis.real_step
    plain = settings.plain_steps
    if real is None:
        if plain is not None and not plain.seconds:
            yield (
                "The time of a real step is not known, because no step followed the captured ones. "
                "Capture with --steps 3, and let the script run more steps."
            )
        return
    steps = number_text(real.time.samples, "step")
    how = f"median of {steps} after the capture, {number_text(real.threads, 'thread')}"
    yield f"A real step took {short_time_text(real.time)} in the captured program ({how})."
    if real.is_unsteady:
        yield (
            "The steps took very different times, so compare with care; close other programs and "
            "capture again."
        )
    has_waited = real.waited > _LONG_WAIT * real.time.median
    if has_waited:
        ran, waited = short_seconds_text(real.ran), short_seconds_text(real.waited)
        yield (
            f"It ran for {ran} and waited for {waited}: for data, or because other programs used "
            "the core."
        )
    whole = "the time that it ran" if has_waited else "that"
    yield f"The replayed calls take {real.share:.2f} of {whole}{_rest_text(real)}."
    if real.threads != settings.threads:
        yield (
            f"The real step used {number_text(real.threads, 'thread')} and this replay "
            f"{settings.threads}; replay with --threads {real.threads} to compare the two."
        )


def _rest_text(real: RealStep) -> str:
    if real.rest <= 0:
        return ", so they are slower than in the step itself"
    return (
        f"; {short_seconds_text(real.rest)} are not spent in calls but in Python, in autograd and "
        "between steps"
    )


def _natures_text(shares: Mapping[Nature, float]) -> str:
    texts = [f"{share * 100:.0f} % {nature.value}" for nature, share in shares.items() if share]
    return f": {', '.join(texts)}" if texts else ""


def _summary(analysis: ReplayAnalysis, hints: Sequence[Hint]) -> str:
    """The number of calls by status, and the time of a step."""
    counts = Counter(outcome.status for row in analysis.calls for outcome in row.outcomes)
    told = [
        f"{counts[Status.DONE]} replayed",
        f"{counts[Status.FAILED]} failed" if counts[Status.FAILED] else "",
        f"{counts[Status.SKIPPED]} skipped" if counts[Status.SKIPPED] else "",
        f"{missing} not measured" if (missing := analysis.missing()) else "",
    ]
    took = ""
    if analysis.seconds:
        took = f"; the calls of a step take {seconds_text(analysis.step_seconds)}"
    if analysis.real_step is not None:
        took += f", {analysis.real_step.share:.2f} of a real step"
    if hints:
        took += f"; {number_text(len(hints), 'hint')}"
    return f"{', '.join(filter(None, told))}{took}."


def _by_operator(
    analysis: ReplayAnalysis, fields: list[Field[CallRow]], speeds: MachineSpeeds | None
) -> Section:
    others = analysis.settings.backends[1:]

    def show_speedup(backend: Backend, operator: OperatorRow) -> Value:
        return analysis.speedup(operator.calls, backend)

    # The table of all calls explains the columns; repeating that would double the page.
    plain_fields = [(replace(column, hint=""), show) for column, show in fields]

    def list_calls(operator: OperatorRow) -> Row:
        table = make_table(operator.calls, [_ARGUMENTS, *plain_fields])
        return Row(details=(Detail(title="Calls", table=table, is_page_only=True),))

    total = "Time of all its calls in the trace, with the first backend"
    faster = f"How many times as fast as {analysis.backend.value}"
    operator_fields: list[Field[OperatorRow]] = [
        field("operator", lambda each: Cell(operator_text(each.op), hint=each.op)),
        field("calls", lambda each: each.count, Kind.INTEGER, "Number of calls in the trace"),
        field("total", _total_cell, Kind.SECONDS, total),
        *work_fields(is_wide_only=False),
        what_field(is_wide_only=bool(others)),
        *(field(each.value, partial(show_speedup, each), Kind.SPEEDUP, faster) for each in others),
    ]
    return Section(
        "operators",
        "By operator",
        chart=_share_chart(analysis),
        table=make_table(analysis.operators, operator_fields, list_calls),
        footnotes=() if speeds is None else (NATURES, _speed_sentence(speeds)),
    )


_ARGUMENTS: Field[CallRow] = field(
    "arguments", lambda row: Cell(row.call.signature, hint=places_text(row)), Kind.CODE
)


def _total_cell(operator: OperatorRow) -> Cell:
    seconds = operator.seconds
    return Cell(seconds, None if seconds is None else short_seconds_text(seconds))


def _by_call(analysis: ReplayAnalysis, fields: list[Field[CallRow]]) -> Section:
    rows, top = [row for row in analysis.calls if row.share is not None], analysis.settings.top
    rows.sort(key=lambda row: -(row.share or 0.0))
    first = share_text(sum(row.share or 0.0 for row in rows[:top]))
    said = f"The first {top} of {len(rows):,} distinct calls take {first} of the time."
    call: Field[CallRow] = field("call", call_text, Kind.CODE)
    table = make_table(rows, [call, *fields], _row_with_places, most_rows=top)
    # The table of operators has the hints, which are half of a page.
    without_hints = [
        replace(row, cells=tuple(replace(cell, hint="") for cell in row.cells))
        for row in table.rows
    ]
    return Section(
        "calls",
        "By call",
        paragraphs=(said,) if len(rows) > top else (),
        table=replace(table, rows=tuple(without_hints)) if rows else None,
        is_folded=True,
    )


def _row_with_places(row: CallRow) -> Row:
    lines = place_lines(row.call)
    return Row(details=(Detail(lines=lines),) if lines else ())


def _by_phase(parts: Sequence[PartRow]) -> Section:
    table = make_table(parts, [field("phase", lambda part: part.label), *_PART_FIELDS])
    return Section("phases", "By phase", table=table if parts else None)


def _by_module(parts: Sequence[PartRow]) -> Section:
    """The modules as a tree; text omits modules with little time."""
    small = number_text(sum(part.share < _SMALL_SHARE for part in parts), "module")
    table = make_table(
        parts,
        [
            field("module", _module_cell),
            field("modules", lambda part: part.modules, Kind.INTEGER, _MODULES),
            *_PART_FIELDS,
        ],
        lambda part: Row(depth=part.depth, is_quiet=part.share < _SMALL_SHARE),
        quiet_text=f"{small} with less than {_SMALL_SHARE * 100:.0f} % each",
    )
    return Section("modules", "By module", table=table if parts else None)


_SMALL_SHARE = 0.01
_MODULES = "Number of equal modules, which differ only in the number of a layer"

_PART_FIELDS: list[Field[PartRow]] = [
    field("calls", lambda part: part.count, Kind.INTEGER),
    field("share", lambda part: part.share, Kind.SHARE, SHARE),
]


def _module_cell(part: PartRow) -> Cell:
    return Cell(part.label or "the whole model", hint=part.name)


def _speed_sentence(speeds: MachineSpeeds) -> str:
    """The speeds that calls are compared with."""
    copies = ", ".join(
        f"{amount_text(speed)}B/s for {size // 1024:,} KiB"
        for size, speed in sorted(speeds.bytes_per_second.items())
    )
    products = ", ".join(
        f"{amount_text(speed)}FLOP/s in {name}"
        for name, speed in sorted(speeds.flops_per_second.items())
    )
    return (
        f"Best speed of this machine: copies {copies}; matrix products "
        f"{products or 'not measured'}; the smallest call takes "
        f"{short_seconds_text(speeds.small_call_seconds)}."
    )


def _not_replayed(analysis: ReplayAnalysis) -> Section:
    """Calls that were not replayed, by status, backend and reason."""
    has_several, failures = len(analysis.settings.backends) > 1, analysis.failures()
    reasons = []
    for row, outcome in failures:
        backend = f" {outcome.backend.value}" if has_several else ""
        reason = first_line(outcome.reason)
        reasons.append((f"{outcome.status.value.upper()}{backend}: {reason}", row))
    has_failed = any(outcome.status is Status.FAILED for _, outcome in failures)
    mark = Mark.BAD if has_failed else Mark.PLAIN
    return _list_reasons("not-replayed", "Not replayed", reasons, mark)


def _not_as_recorded(analysis: ReplayAnalysis) -> Section:
    """Calls whose outputs differ from the trace, by remark."""
    remarks = [
        (remark, row)
        for row in analysis.calls
        for outcome in row.outcomes
        for remark in outcome.facts.remarks
    ]
    return _list_reasons("not-as-recorded", "Not as recorded", remarks, Mark.PLAIN)


def _list_reasons(
    section_id: str, title: str, reasons: Sequence[tuple[str, CallRow]], mark: Mark
) -> Section:
    """A line for each reason: the names of its first calls; the others are counted."""
    listing = [
        f"{reason}: {name_some(names, _NAMED, between='; ', rest='; {} more')}"
        for reason, names in collect((why, call_text(row)) for why, row in reasons).items()
    ]
    return Section(section_id, title, listing=tuple(listing), mark=mark)


def _share_chart(analysis: ReplayAnalysis) -> Chart | None:
    """Bars of the operators' shares, the largest first; None if nothing was measured."""
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
    spec = draw_rows(
        dots,
        {"axis": {"format": ".0%", "title": "share of the time"}},
        series="what",
        is_bar=True,
        more={"color": {"field": "what", "type": "nominal", "scale": scale}},
    )
    more = f"{len(left)} more operators take {share_text(sum(left))} of the time." if left else ""
    return Chart(
        id="shares",
        title="Share of the step",
        description=f"Bars of {len(dots)} operators, the largest first: {known[0].op} takes "
        f"{share_text(dots[0].value)} of the time.",
        spec=spec,
        note=more,
    )
