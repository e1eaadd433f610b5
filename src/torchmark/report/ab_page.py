"""A/B comparisons as one HTML page with everything inside it: nothing is fetched.

Each comparison has its picture of the times first, then the tables behind it.
"""

from __future__ import annotations

from html import escape
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
    return printable(
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{_text(title)}</h1>
</header>
{chr(10).join(part for part in parts if part)}
</main>
</body>
</html>
"""
    )


def _overview(comparisons: Sequence[Understood]) -> str:
    items = "".join(
        f'<li><a href="#comparison-{number}">{_text(_sides(each))}</a>: {_text(summary(each))}</li>'
        for number, each in enumerate(comparisons)
    )
    if not comparisons:
        return "<p>Nothing was compared.</p>"
    return f"<ul>{items}</ul>" if len(comparisons) > 1 else ""


def section(comparison: Understood, number: int = 0) -> str:
    """The picture of one comparison and its tables."""
    record = comparison.comparison
    remarks = "".join(f"<li>{_text(remark)}</li>" for remark in record.remarks)
    parts = [
        f'<section class="comparison" id="comparison-{number}">',
        f"<h2>{_text(_sides(comparison))}</h2>",
        f'<p class="summary">{_text(summary(comparison))}</p>',
        f'<p class="quiet">{_text(f"{record.id}, started {record.started}")}</p>',
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
        f'<div><span class="name" title="{_text(name)}">{_text(name)}</span>'
        f"{case_svg(axis, row, printable(_hint(row, name)))}"
        f'<span class="figure">{_text(change_text(row.effect.ratio))} '
        f'<span class="verdict {row.verdict.value}">{row.verdict.value}</span></span></div>'
        for row, name in pairs
    )
    return f"""<h3>{_text(names_of(comparison.times).under("Change of the time"))}</h3>
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
        f'<td class="number">{_text(seconds_text(row.a_seconds))}</td>'
        f'<td class="number">{_text(seconds_text(row.b_seconds))}</td>'
        f'<td class="number">{_text(ratio_text(row.effect))}</td>'
        f"{_verdict(row)}"
        f'<td class="number">{_text(sees_text(row.effect))}</td>'
        f'<td class="number">{row.effect.pairs}</td></tr>'
        for row, name in zip(comparison.times, names.names, strict=True)
    )
    heads = [cut(record.a.name), cut(record.b.name), "ratio [95 %]", "verdict", "sees", "pairs"]
    control = control_sentence(comparison)
    return f"""<h3>{_text(names.under("Times"))}</h3>
<div class="wide"><table class="cases">
<thead><tr><th>case</th>{_heads(heads)}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<p class="quiet">{_text(SEES)}</p>
<p>{_text(control)}</p>"""


def _counts(comparison: Understood) -> str:
    if not comparison.counts:
        return ""
    record, names = comparison.comparison, names_of(comparison.counts)
    rows = "\n".join(
        f"<tr><td>{_case(row, name)}</td>"
        f'<td class="number">{_text(instructions_text(row.a))}</td>'
        f'<td class="number">{_text(count_text(row))}</td>'
        f"{_verdict(row)}"
        f'<td class="number">{_text(instructions_text(row.spread))}</td></tr>'
        for row, name in zip(comparison.counts, names.names, strict=True)
    )
    heads = [cut(record.a.name), f"ΔI → {cut(record.b.name)} (%)", "verdict", "layouts"]
    return f"""<h3>{_text(names.under("Instructions"))}</h3>
<div class="wide"><table class="cases">
<thead><tr><th>case</th>{_heads(heads)}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<p class="quiet">layouts: how far the count moves with the layout of memory alone.
{_text(CLOSE)}</p>"""


def _heads(names: Sequence[str]) -> str:
    return "".join(f'<th class="number">{_text(name)}</th>' for name in names)


def _verdict(row: TimeRow | CountRow) -> str:
    return f'<td class="number verdict {row.verdict.value}">{row.verdict.value}</td>'


def _case(row: TimeRow | CountRow, name: str) -> str:
    """The name; unfolded, what ran and the functions behind a change."""
    first = _code("A runs" if row.other else "", row.case)
    second = _code("B runs", row.other) if row.other else ""
    is_changed = row.verdict in (*CHANGED_TIMES, *CHANGED_COUNTS)
    behind = _functions(functions_behind(row)) if is_changed or isinstance(row, CountRow) else ""
    mark = " <small>functions</small>" if behind else ""
    return f"<details><summary>{_text(name)}{mark}</summary>{behind}{first}{second}</details>"


def _functions(found: Sequence[Behind]) -> str:
    tables = []
    for unit in ("instructions", "bytecodes"):
        of_unit = [each for each in found if each.unit == unit]
        rows = "".join(
            f'<tr><td class="number">{_text(each.more)}</td>'
            f'<td class="function">{_text(each.function)}</td></tr>'
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
        f"<p>{lead}{name}</p><pre>{_text(_shortened(text))}</pre>" for name, text in parts if text
    )


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_CODE:
        return text
    return f"{text[:_LONGEST_CODE]}\n… {len(text) - _LONGEST_CODE} characters left out"


def _list(title: str, texts: Sequence[str], kind: str = "") -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{_text(text)}</li>" for text in texts)
    return f'<h3>{title}</h3>\n<ul class="{kind}">{items}</ul>'


def _environments(comparison: Understood) -> str:
    """What differs in sight, the rest folded away."""
    record = comparison.comparison
    facts = facts_of(record)
    settings = "".join(
        f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>"
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
        f"<th>{_text(fact.name)}{' ≠' if fact.differs else ''}</th>"
        f"<td>{_text(fact.a or '–')}</td><td>{_text(fact.b or '–')}</td></tr>"
        for fact in facts
    )
    heads = f"<th>fact</th><th>{_text(record.a.name)}</th><th>{_text(record.b.name)}</th>"
    return f"""<div class="wide"><table class="environments">
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>"""


def _sides(comparison: Understood) -> str:
    record = comparison.comparison
    return f"{cut(record.b.name)} beside {cut(record.a.name)}"


def _text(text: str) -> str:
    return escape(printable(text))
