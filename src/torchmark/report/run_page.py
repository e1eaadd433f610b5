"""A run as one HTML page with everything inside it: nothing is fetched and no script is needed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torchmark.analyse.instructions import instructions_per_run
from torchmark.model.result import Metric, Status
from torchmark.report.figures import (
    environment_facts,
    environment_line,
    first_line,
    reach_text,
    seconds_text,
)
from torchmark.report.page_frame import page, text_of
from torchmark.report.run_page_style import STYLE
from torchmark.report.run_table import RunGroup, RunRow, RunTable, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result
    from torchmark.model.run import Run

_PLOT_WIDTH = 180
"""Pixels of the drawing beside a time."""

_OUTPUT_CHARACTERS = 20_000
"""Of what a case printed that a page shows, so that a megabyte does not make it unreadable."""


def render(run: Run, results: Sequence[Result]) -> str:
    table = table_of(run, results)
    body = [_header(table), *(_group(table, group) for group in table.groups)]
    body += [_failures(table), _skips(table), _environment(run)]
    return page(f"torchmark run {run.id}", STYLE, body)


def _header(table: RunTable) -> str:
    run = table.run
    tags = "".join(f'<span class="tag">{text_of(tag)}</span>' for tag in run.tags)
    links = "".join(
        f'<li><a href="#group-{number}">{text_of(group.title)}</a></li>'
        for number, group in enumerate(table.groups)
    )
    failures = '<li><a class="bad" href="#failures">Failures</a></li>' if table.failures else ""
    return f"""<header>
<h1>Run {text_of(run.id)} {tags}</h1>
<p>{text_of(run.state.value)}, started {text_of(run.started)}. {text_of(table.summary())}.</p>
<p>{text_of(environment_line(run.environment))}</p>
<nav><ul>{links}{failures}<li><a href="#environment">Environment</a></li></ul></nav>
</header>"""


def _group(table: RunTable, group: RunGroup) -> str:
    number = table.groups.index(group)
    drawing = _Drawing(group)
    titles = {
        Metric.TIME: '<th class="number time">Time, 95 % interval</th>'
        '<th class="plot">logarithmic</th>',
        Metric.INSTRUCTIONS: '<th class="number">Instructions</th>',
    }
    heads = "".join(titles[kind] for kind in table.kinds)
    rows = "\n".join(_row(row, table.kinds, drawing) for row in group.rows)
    return f"""<section id="group-{number}">
<h2>{text_of(group.title)}</h2>
<div class="wide"><table>
<thead><tr><th>Case</th>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
</section>"""


def _row(row: RunRow, kinds: Sequence[Metric], drawing: _Drawing) -> str:
    cells = []
    if Metric.TIME in kinds:
        cells.append(_time(row, drawing))
    if Metric.INSTRUCTIONS in kinds:
        cells.append(_count(row))
    code = f"<details><summary>{text_of(row.name)}</summary>{_case(row)}</details>"
    return f"<tr><td>{code}</td>{''.join(cells)}</tr>"


def _case(row: RunRow) -> str:
    """What ran, and the doubts about it in full."""
    case = row.case
    parts = [_code("setup", case.setup), _code("statement", case.stmt)]
    parts.insert(0, _code("global setup", case.global_setup) if case.global_setup else "")
    measurement = row.time.measurement if row.time else None
    doubts = measurement.doubts if measurement and measurement.raw_times else ()
    parts += [f'<p class="doubt">{text_of(str(doubt))}</p>' for doubt in doubts]
    if row.time and row.time.compile_seconds is not None:
        parts.append(f"<p>compiled in {text_of(seconds_text(row.time.compile_seconds))}</p>")
    return "".join(parts)


def _time(row: RunRow, drawing: _Drawing) -> str:
    result = row.time
    measurement = result.measurement if result else None
    if measurement is None or not measurement.raw_times:
        return f'<td class="number">{_outcome(row, Metric.TIME, result)}</td><td class="plot"></td>'
    low, high = measurement.median_interval
    doubts = "; ".join(doubt.kind.value for doubt in measurement.doubts)
    mark = f' <abbr class="doubt" title="{text_of(doubts)}">(!)</abbr>' if doubts else ""
    figures = (
        f"{text_of(seconds_text(measurement.median))} <small>± {reach_text(measurement)}</small>"
    )
    hint = (
        f"{seconds_text(max(low, 0))} to {seconds_text(high)}, {len(measurement.raw_times)} samples"
    )
    return (
        f'<td class="number" title="{text_of(hint)}">{figures}{mark}</td>'
        f'<td class="plot">{drawing.svg(measurement, hint)}</td>'
    )


def _count(row: RunRow) -> str:
    counts = row.count.counts if row.count else None
    if counts is None:
        return f'<td class="number">{_outcome(row, Metric.INSTRUCTIONS, row.count)}</td>'
    return f'<td class="number">{float(instructions_per_run(counts)):,.1f}</td>'


def _outcome(row: RunRow, kind: Metric, result: Result | None) -> str:
    if result is None:
        return '<span class="quiet">not measured</span>' if kind in row.planned else ""
    if result.status is Status.FAILED:
        return f'<a class="bad" href="#failure-{row.case.id}-{kind.value}">failed</a>'
    return f'<span class="quiet" title="{text_of(result.reason)}">{result.status.value}</span>'


class _Drawing:
    """Medians as dots and intervals as lines, on one logarithmic scale for a group."""

    def __init__(self, group: RunGroup) -> None:
        times = [row.time.measurement for row in group.rows if row.time and row.time.measurement]
        ends = [end for each in times if each.raw_times for end in (each.median, *_ends(each))]
        positive = [math.log(end) for end in ends if end > 0]
        self._low = min(positive, default=0.0)
        # A group of one case, or of equal times, still needs a scale: a quarter to each side.
        self._high = max(max(positive, default=0.0), self._low + 0.2)

    def svg(self, measurement: Measurement, hint: str) -> str:
        if measurement.median <= 0:
            return ""
        low, high = (self._place(end) for end in _ends(measurement))
        dot = self._place(measurement.median)
        return (
            f'<svg width="{_PLOT_WIDTH}" height="16" role="img" aria-label="{text_of(hint)}">'
            f'<line class="axis" x1="0" x2="{_PLOT_WIDTH}" y1="8" y2="8"/>'
            f'<line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="8" y2="8"/>'
            f'<circle cx="{dot:.1f}" cy="8" r="4"/></svg>'
        )

    def _place(self, seconds: float) -> float:
        if seconds <= 0:
            return 0.0
        share = (math.log(seconds) - self._low) / (self._high - self._low)
        return 5 + share * (_PLOT_WIDTH - 10)


def _ends(measurement: Measurement) -> tuple[float, float]:
    low, high = measurement.median_interval
    return low, high


def _failures(table: RunTable) -> str:
    if not table.failures:
        return ""
    return "\n".join(
        [
            '<section id="failures">\n<h2>Failures</h2>',
            *(_failure(result) for result in table.failures),
            "</section>",
        ]
    )


def _failure(result: Result) -> str:
    title = f"{text_of(result.case.title)} <small>({result.metric.value})</small>"
    parts = [
        f'<article id="failure-{result.case.id}-{result.metric.value}">\n<h3>{title}</h3>',
        f'<pre class="bad">{text_of(_cut(result.reason))}</pre>',
        *(
            f"<details><summary>{name}</summary><pre>{text_of(_cut(text))}</pre></details>"
            for name, text in (
                ("standard output", result.stdout),
                ("standard error", result.stderr),
            )
            if text
        ),
        _code("statement", result.case.stmt),
        "</article>",
    ]
    return "\n".join(parts)


def _skips(table: RunTable) -> str:
    if not table.skips:
        return ""
    items = "".join(
        f"<li>{text_of(skip.case.title)} ({skip.metric.value}): "
        f"{text_of(first_line(skip.reason))}</li>"
        for skip in table.skips
    )
    return f"<section>\n<h2>Skipped</h2>\n<ul>{items}</ul>\n</section>"


def _environment(run: Run) -> str:
    facts = [*environment_facts(run.environment)]
    facts += [(f"settings.{name}", text) for name, text in environment_facts(run.settings)]
    rows = "".join(f"<dt>{text_of(name)}</dt><dd>{text_of(value)}</dd>" for name, value in facts)
    return f'<section id="environment">\n<h2>Environment</h2>\n<dl>{rows}</dl>\n</section>'


def _code(name: str, text: str) -> str:
    return f"<p>{name}</p><pre>{text_of(text)}</pre>"


def _cut(text: str) -> str:
    """The beginning and the end of a long output, where the causes usually are."""
    if len(text) <= _OUTPUT_CHARACTERS:
        return text
    half = _OUTPUT_CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n… {left_out} characters left out …\n{text[-half:]}"
