"""A replay as one HTML page with everything inside it: nothing is fetched, no script is needed.

First the picture of the operators' shares, then every operator, which opens to its calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.replay import Nature, by_module, by_phase
from torchmark.report.figures import environment_facts, environment_line, seconds_text
from torchmark.report.page_frame import page, text_of
from torchmark.report.replay_page_style import STYLE
from torchmark.report.replay_words import (
    amount_text,
    each_text,
    failure_groups,
    heading,
    names_of,
    operator_text,
    remark_groups,
    share_text,
    short_seconds,
    speed_sentence,
    step_sentences,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.replay import CallRow, OperatorRow, PartRow, UnderstoodReplay
    from torchmark.model.replay_record import Backend, Replayed

_DRAWN = 20
"""Operators in the picture; the table has all."""

_NATURES = {
    Nature.WORK: "work: half of it or more is what its bytes or FLOPs need",
    Nature.OVERHEAD: "overhead: dispatch, checks, allocation",
    Nature.SLOW: "slow: long, and not for its bytes or FLOPs",
}


def render(table: UnderstoodReplay) -> str:
    parts = [
        _header(table),
        _picture(table),
        _operators(table),
        _parts("phases", "By phase", "phase", by_phase(table)),
        _parts("modules", "By module", "module", by_module(table)),
        _failures(table),
        _environment(table),
    ]
    return page(f"torchmark replay of {table.replay.trace}", STYLE, parts)


def _header(table: UnderstoodReplay) -> str:
    replay = table.replay
    sentences = "".join(f'<p class="summary">{text_of(each)}</p>' for each in step_sentences(table))
    lacks = "".join(
        f'<p class="doubt">The trace lacks: {text_of(each)}</p>' for each in replay.unseen
    )
    failures = (
        '<li><a class="bad" href="#failures">Not replayed</a></li>' if table.failures() else ""
    )
    return f"""<header>
<h1>Replay of {text_of(replay.trace)}</h1>
{sentences}
<p>{text_of(heading(table))}</p>
<p>{text_of(environment_line(replay.environment))}</p>
<p>{text_of(summary(table))}.</p>
{lacks}
<nav><ul><li><a href="#operators">Operators</a></li><li><a href="#phases">Phases</a></li>
<li><a href="#modules">Modules</a></li>{failures}
<li><a href="#environment">Environment</a></li></ul></nav>
</header>"""


def _picture(table: UnderstoodReplay) -> str:
    """Bars of the operators' shares, the largest over the whole width."""
    drawn = [operator for operator in table.operators if operator.share][:_DRAWN]
    if not drawn:
        return ""
    largest = drawn[0].share or 1.0
    bars = "\n".join(_bar(operator, largest) for operator in drawn)
    left = [operator.share or 0.0 for operator in table.operators if operator.share][_DRAWN:]
    rest = (
        f'<p class="quiet">{len(left)} more operators, {share_text(sum(left))} of the time</p>'
        if left
        else ""
    )
    legend = "".join(
        f'<span><svg class="{nature.value}" width="12" height="12" aria-hidden="true">'
        f'<rect width="12" height="12" rx="2"/></svg>{text_of(text)}</span>'
        for nature, text in _NATURES.items()
        if any(operator.nature is nature for operator in drawn)
    )
    return f"""<section>
<h2>Share of the step</h2>
<div class="legend">{legend}</div>
<div class="picture">
{bars}
</div>
{rest}
</section>"""


def _bar(operator: OperatorRow, largest: float) -> str:
    share = operator.share or 0.0
    hint = f"{operator.op}: {share_text(share)}, {operator.count:,} calls"
    return (
        f'<div><span class="name" title="{text_of(operator.op)}">'
        f"{text_of(operator_text(operator.op))}</span>"
        f'<svg class="{_class(operator.nature)}" width="100%" height="16" role="img"'
        f' aria-label="{text_of(hint)}"><title>{text_of(hint)}</title>'
        f'<rect width="{100 * share / largest:.2f}%" height="16" rx="2"/></svg>'
        f'<span class="figure">{share_text(share)}</span></div>'
    )


def _operators(table: UnderstoodReplay) -> str:
    others = table.replay.backends[1:]
    heads = ["Operator", "Calls", "Total", "Share", "FLOPs", "Bytes", "What"]
    heads += [f"{backend.value} ×" for backend in others]
    head = "".join(f"<span>{text_of(text)}</span>" for text in heads)
    rows = "\n".join(_operator(table, operator) for operator in table.operators)
    speeds = table.replay.speeds
    note = f'<p class="quiet">{text_of(speed_sentence(speeds))}</p>' if speeds else ""
    return f"""<section id="operators">
<h2>By operator and call</h2>
<div class="operators" style="--narrowest: {44 + 6 * len(others)}rem">
<div class="row head">{head}</div>
{rows}
</div>
{note}
</section>"""


def _operator(table: UnderstoodReplay, operator: OperatorRow) -> str:
    cells = [
        text_of(operator_text(operator.op)),
        f"{operator.count:,}",
        text_of(short_seconds(operator.seconds)),
        share_text(operator.share).replace("<", "&lt;"),
        amount_text(operator.flops),
        amount_text(operator.bytes),
        _nature(operator.nature),
        *(_speedup(table, operator.calls, backend) for backend in table.replay.backends[1:]),
    ]
    figures = "".join(f"<span>{cell}</span>" for cell in cells)
    return (
        f'<details><summary class="row">{figures}</summary><div>{_calls(table, operator.calls)}'
        "</div></details>"
    )


def _calls(table: UnderstoodReplay, rows: Sequence[CallRow]) -> str:
    heads = ["Calls", "Share", "FLOPs", "Bytes", "Explained", "What"]
    heads += [backend.value for backend in table.replay.backends]
    has_counts = any(
        result.instructions is not None for call in table.replay.calls for result in call.by
    )
    heads += ["Instructions"] if has_counts else []
    head = "".join(f'<th class="number">{text_of(text)}</th>' for text in heads)
    lines = "\n".join(_call(table, row, has_counts=has_counts) for row in rows)
    return (
        f"<table><thead><tr><th>Arguments</th>{head}</tr></thead><tbody>\n{lines}\n</tbody></table>"
    )


def _call(table: UnderstoodReplay, row: CallRow, *, has_counts: bool) -> str:
    call = row.replayed
    cells = [
        f"{call.count:,}",
        text_of(share_text(row.share)),
        amount_text(call.flops),
        amount_text(row.bytes),
        text_of(share_text(row.explained)),
        _nature(row.nature),
        *(_result(table, row, backend) for backend in table.replay.backends),
    ]
    if has_counts:
        counts = [each.instructions for each in call.by if each.instructions is not None]
        cells.append(f"{counts[0]:,.0f}" if counts else "")
    figures = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    places = "; ".join([*call.phases, *call.modules[:3]])
    return (
        f'<tr><td class="arguments" title="{text_of(places)}">{text_of(call.signature)}</td>'
        f"{figures}</tr>"
    )


def _result(table: UnderstoodReplay, row: CallRow, backend: Backend) -> str:
    result = row.replayed.by_backend(backend)
    if result is None:
        return '<span class="quiet">not measured</span>'
    text = text_of(each_text(result))
    if result.reason:
        return f'<a class="bad" href="#failures" title="{text_of(result.reason[:500])}">{text}</a>'
    if backend is not table.backend:
        text += f" <small>{_speedup(table, [row], backend)}</small>"
    return f'<span title="{text_of(_hint(result))}">{text}</span>'


def _hint(result: Replayed) -> str:
    """What is known beyond the time, in a line."""
    parts = []
    if result.time is not None:
        low, high = result.time.low, result.time.high
        parts.append(f"{seconds_text(low)} to {seconds_text(high)}, {result.time.samples} samples")
        parts += list(result.time.doubts)
    if result.prepare_seconds is not None:
        parts.append(f"prepared in {seconds_text(result.prepare_seconds)}")
    if result.largest_error is not None:
        parts.append(f"largest error {result.largest_error:.3g}")
    return "; ".join([*parts, *result.remarks])


def _speedup(table: UnderstoodReplay, rows: Sequence[CallRow], backend: Backend) -> str:
    speedup = table.speedup(rows, backend)
    return "" if speedup is None else f"{speedup:.2f}×"


def _parts(anchor: str, title: str, column: str, rows: Sequence[PartRow]) -> str:
    if not rows:
        return ""
    lines = "\n".join(map(_part, rows))
    head = f'<th>{column}</th><th class="number">Calls</th><th class="number">Share</th><th></th>'
    return f"""<section id="{anchor}">
<h2>{title}</h2>
<div class="wide"><table class="parts">
<thead><tr>{head}</tr></thead>
<tbody>
{lines}
</tbody>
</table></div>
</section>"""


def _part(row: PartRow) -> str:
    name = row.name.rpartition(".")[2] or "the whole model"
    bar = f'<rect fill="currentColor" width="{100 * row.share:.2f}%" height="12" rx="2"/>'
    return (
        f'<tr><td style="padding-left: {1.2 * row.depth:.1f}rem">{text_of(name)}</td>'
        f'<td class="number">{row.count:,}</td>'
        f'<td class="number">{text_of(share_text(row.share))}</td>'
        f'<td><svg class="work" width="100%" height="12" aria-hidden="true">{bar}</svg></td></tr>'
    )


def _failures(table: UnderstoodReplay) -> str:
    groups = failure_groups(table)
    remarks = [(f"NOT AS RECORDED: {text}", rows) for text, rows in remark_groups(table)]
    if not groups and not remarks:
        return ""
    items = "".join(
        f"<li><strong>{text_of(text)}</strong><br>{text_of(names_of(rows, shown=10))}</li>"
        for text, rows in [*groups, *remarks]
    )
    return f'<section id="failures">\n<h2>Not replayed</h2>\n<ul>{items}</ul>\n</section>'


def _environment(table: UnderstoodReplay) -> str:
    facts = environment_facts(table.replay.environment)
    rows = "".join(f"<dt>{text_of(name)}</dt><dd>{text_of(value)}</dd>" for name, value in facts)
    return f'<section id="environment">\n<h2>Environment</h2>\n<dl>{rows}</dl>\n</section>'


def _nature(nature: Nature | None) -> str:
    return f'<span class="{nature.value}">{nature.value}</span>' if nature else ""


def _class(nature: Nature | None) -> str:
    return nature.value if nature else "unknown"
