"""A/B comparisons as one HTML page with everything inside it: nothing is fetched.

Each comparison has its picture of the times first, then the tables behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.ab import CountRow
from torchmark.analyse.pairs import SAME_WITHIN, Verdict
from torchmark.report.ab_environments import Fact, facts_of
from torchmark.report.ab_names import cut, names_of
from torchmark.report.ab_page_style import STYLE
from torchmark.report.ab_plot import axis_of, case_svg, legend_svg, scale_svg
from torchmark.report.ab_words import (
    CHANGED_COUNTS,
    CHANGED_TIMES,
    CLOSE,
    SEES,
    Behind,
    change_text,
    control_sentence,
    count_text,
    failure_texts,
    functions_behind,
    gap_texts,
    instructions_text,
    ratio_text,
    sees_text,
    skip_texts,
    summary,
    unjudged,
)
from torchmark.report.figures import environment_facts, printable, seconds_text
from torchmark.report.page_frame import page as framed
from torchmark.report.page_frame import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import TimeRow, Understood
    from torchmark.model.case import Case

_MOST_FUNCTIONS = 25
"""Of each sort, in the table behind a case; the JSON has more."""

_LONGEST_CODE = 4_000
"""Characters of a statement or a set-up; a generated one may have a megabyte."""


def render(comparisons: Sequence[Understood]) -> str:
    parts = [section(each, number) for number, each in enumerate(comparisons)]
    return page("torchmark A/B comparison", [_overview(comparisons), *parts])


def page(title: str, parts: Sequence[str]) -> str:
    """A whole document of parts that are HTML."""
    header = f"<header>\n<h1>{text_of(title)}</h1>\n</header>"
    return framed(title, STYLE, [header, *parts])


def _overview(comparisons: Sequence[Understood]) -> str:
    items = "".join(
        f'<li><a href="#comparison-{number}">{text_of(_sides(each))}</a>: '
        f"{text_of(summary(each))}</li>"
        for number, each in enumerate(comparisons)
    )
    if not comparisons:
        return "<p>Nothing was compared.</p>"
    return f"<ul>{items}</ul>" if len(comparisons) > 1 else ""


def section(comparison: Understood, number: int = 0) -> str:
    """The picture of one comparison and its tables."""
    record = comparison.comparison
    remarks = "".join(f"<li>{text_of(remark)}</li>" for remark in record.remarks)
    parts = [
        f'<section class="comparison" id="comparison-{number}">',
        f"<h2>{text_of(_sides(comparison))}</h2>",
        f'<p class="summary">{text_of(summary(comparison))}</p>',
        f'<p class="quiet">{text_of(f"{record.id}, started {record.started}")}</p>',
        f'<ul class="doubt">{remarks}</ul>' if remarks else "",
        _picture(comparison),
        _times(comparison),
        _counts(comparison),
        _list("Failed", failure_texts(comparison), "bad"),
        _list("Too few pairs", gap_texts(unjudged(comparison), otherwise="fewer than two pairs")),
        _list("Skipped", skip_texts(comparison)),
        _environments(comparison),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _picture(comparison: Understood) -> str:
    """Every case on one axis, the one that is slower the most at the top."""
    if not comparison.times:
        return ""
    names = names_of(comparison.times).names
    pairs = sorted(
        zip(comparison.times, names, strict=True), key=lambda pair: -pair[0].effect.ratio
    )
    axis = axis_of(comparison.times)
    scale = f'<div class="axis"><span class="name"></span>{scale_svg(axis)}</div>'
    lines = "\n".join(
        f'<div><span class="name" title="{text_of(name)}">{text_of(name)}</span>'
        f"{case_svg(axis, row, printable(_hint(row, name)))}"
        f'<span class="figure">{text_of(change_text(row.effect.ratio))} '
        f'<span class="verdict {row.verdict.value}">{row.verdict.value}</span></span></div>'
        for row, name in pairs
    )
    return f"""<h3>{text_of(names_of(comparison.times).under("Change of the time"))}</h3>
{_legend()}
<div class="picture">
{scale}
{lines}
{scale}
</div>"""


def _legend() -> str:
    marks = "".join(
        f'<span class="{verdict.value}">{legend_svg(verdict)}{verdict.value}</span>'
        for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR)
    )
    band = f'<span><span class="box"></span>within {SAME_WITHIN * 100:g} %</span>'
    return (
        f'<div class="legend">{marks}{band}<span>line: 95 % interval</span>'
        "<span>arrow: goes on beyond the axis, which is logarithmic</span></div>"
    )


def _hint(row: TimeRow, name: str) -> str:
    return (
        f"{name}: {row.verdict.value}, {ratio_text(row.effect)}, {row.effect.pairs} pairs, "
        f"sees {sees_text(row.effect)}"
    )


def _times(comparison: Understood) -> str:
    if not comparison.times:
        return ""
    record, names = comparison.comparison, names_of(comparison.times)
    rows = "\n".join(
        f"<tr><td>{_case(row, name)}</td>"
        f'<td class="number">{text_of(seconds_text(row.a_seconds))}</td>'
        f'<td class="number">{text_of(seconds_text(row.b_seconds))}</td>'
        f'<td class="number">{text_of(ratio_text(row.effect))}</td>'
        f"{_verdict(row)}"
        f'<td class="number">{text_of(sees_text(row.effect))}</td>'
        f'<td class="number">{row.effect.pairs}</td></tr>'
        for row, name in zip(comparison.times, names.names, strict=True)
    )
    heads = [cut(record.a.name), cut(record.b.name), "ratio [95 %]", "verdict", "sees", "pairs"]
    control = control_sentence(comparison)
    return f"""<h3>{text_of(names.under("Times"))}</h3>
<div class="wide"><table class="cases">
<thead><tr><th>case</th>{_heads(heads)}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<p class="quiet">{text_of(SEES)}</p>
<p>{text_of(control)}</p>"""


def _counts(comparison: Understood) -> str:
    if not comparison.counts:
        return ""
    record, names = comparison.comparison, names_of(comparison.counts)
    rows = "\n".join(
        f"<tr><td>{_case(row, name)}</td>"
        f'<td class="number">{text_of(instructions_text(row.a))}</td>'
        f'<td class="number">{text_of(count_text(row))}</td>'
        f"{_verdict(row)}"
        f'<td class="number">{text_of(instructions_text(row.spread))}</td></tr>'
        for row, name in zip(comparison.counts, names.names, strict=True)
    )
    heads = [cut(record.a.name), f"ΔI → {cut(record.b.name)} (%)", "verdict", "layouts"]
    return f"""<h3>{text_of(names.under("Instructions"))}</h3>
<div class="wide"><table class="cases">
<thead><tr><th>case</th>{_heads(heads)}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<p class="quiet">layouts: how far the count moves with the layout of memory alone.
{text_of(CLOSE)}</p>"""


def _heads(names: Sequence[str]) -> str:
    return "".join(f'<th class="number">{text_of(name)}</th>' for name in names)


def _verdict(row: TimeRow | CountRow) -> str:
    return f'<td class="number verdict {row.verdict.value}">{row.verdict.value}</td>'


def _case(row: TimeRow | CountRow, name: str) -> str:
    """The name; unfolded, what ran and the functions behind a change."""
    first = _code("A runs" if row.other else "", row.case)
    second = _code("B runs", row.other) if row.other else ""
    is_changed = row.verdict in (*CHANGED_TIMES, *CHANGED_COUNTS)
    behind = _functions(functions_behind(row)) if is_changed or isinstance(row, CountRow) else ""
    mark = " <small>functions</small>" if behind else ""
    return f"<details><summary>{text_of(name)}{mark}</summary>{behind}{first}{second}</details>"


def _functions(found: Sequence[Behind]) -> str:
    tables = []
    for unit in ("instructions", "bytecodes"):
        of_unit = [each for each in found if each.unit == unit]
        rows = "".join(
            f'<tr><td class="number">{text_of(each.more)}</td>'
            f'<td class="function">{text_of(each.function)}</td></tr>'
            for each in of_unit[:_MOST_FUNCTIONS]
        )
        left_out = len(of_unit) - _MOST_FUNCTIONS
        more = f"<p>{left_out} more functions differ</p>" if left_out > 0 else ""
        if rows:
            head = f'<tr><th class="number">{unit}</th><th>function</th></tr>'
            tables.append(f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{more}")
    return "".join(tables)


def _code(title: str, case: Case) -> str:
    parts = [("global set-up", case.global_setup), ("set-up", case.setup), ("statement", case.stmt)]
    lead = f"{title}: " if title else ""
    return "".join(
        f"<p>{lead}{name}</p><pre>{text_of(_shortened(text))}</pre>" for name, text in parts if text
    )


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_CODE:
        return text
    return f"{text[:_LONGEST_CODE]}\n… {len(text) - _LONGEST_CODE} characters left out"


def _list(title: str, texts: Sequence[str], kind: str = "") -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{text_of(text)}</li>" for text in texts)
    return f'<h3>{title}</h3>\n<ul class="{kind}">{items}</ul>'


def _environments(comparison: Understood) -> str:
    """What differs in sight, the rest folded away."""
    record = comparison.comparison
    facts = facts_of(record)
    settings = "".join(
        f"<dt>{text_of(name)}</dt><dd>{text_of(value)}</dd>"
        for name, value in environment_facts(record.settings)
    )
    differing = [fact for fact in facts if fact.differs]
    alike = [fact for fact in facts if not fact.differs]
    parts = [
        "<h3>Environments</h3>",
        _facts(comparison, differing) if differing else "<p>All known facts are the same.</p>",
        f"<details><summary>{len(alike)} facts are the same</summary>{_facts(comparison, alike)}"
        "</details>"
        if alike
        else "",
        f"<details><summary>settings</summary><dl>{settings}</dl></details>" if settings else "",
    ]
    return "\n".join(part for part in parts if part)


def _facts(comparison: Understood, facts: Sequence[Fact]) -> str:
    record = comparison.comparison
    rows = "\n".join(
        f'<tr class="{"differs" if fact.differs else "alike"}">'
        f"<th>{text_of(fact.name)}{' ≠' if fact.differs else ''}</th>"
        f"<td>{text_of(fact.a or '–')}</td><td>{text_of(fact.b or '–')}</td></tr>"
        for fact in facts
    )
    heads = f"<th>fact</th><th>{text_of(record.a.name)}</th><th>{text_of(record.b.name)}</th>"
    return f"""<div class="wide"><table class="environments">
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>"""


def _sides(comparison: Understood) -> str:
    record = comparison.comparison
    return f"{cut(record.b.name)} beside {cut(record.a.name)}"
