"""A sweep as one HTML page with everything inside it: nothing is fetched.

First the plots, then what the speed-ups come to, then every case. Without a script all of it can be
read, and configs hidden from the plots; a few lines of script sort the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchmark.analyse.sweep import speed_ups, subjects_in
from torchmark.model.sweep_record import RowStatus
from torchmark.model.units import ordered_unique
from torchmark.report.figures import environment_facts, environment_line
from torchmark.report.page_frame import page, text_of
from torchmark.report.plot_panel import key_svg, panel_svg
from torchmark.report.sweep_cases import cases_table
from torchmark.report.sweep_page_style import SORTING, STYLE, hiding
from torchmark.report.sweep_plots import looks_of, more_scaling, scaling, speed_up
from torchmark.report.sweep_roofline import roofline
from torchmark.report.sweep_words import (
    dims_text,
    error_texts,
    reason_texts,
    subject_text,
    summary,
    times_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.model.sweep_record import SweepRow
    from torchmark.report.plot_figure import Figure
    from torchmark.report.sweep_roofline import Roofs


def render(
    rows: Sequence[SweepRow],
    *,
    environment: Mapping[str, Any] | None = None,
    roofs: Roofs | None = None,
) -> str:
    """The page; `environment` is where the rows were measured, `roofs` what the machine can do."""
    title = "Sweep of " + (", ".join(ordered_unique(row.model for row in rows)) or "nothing")
    parts = [
        _header(title, rows, environment or {}),
        _plots(rows, roofs),
        _speed_ups(rows),
        _reasons("doubts", "Doubts", reason_texts(rows, RowStatus.MEASURED), "doubt"),
        _reasons("failed", "Failed", reason_texts(rows, RowStatus.FAILED), "bad"),
        _reasons("skipped", "Skipped", reason_texts(rows, RowStatus.SKIPPED)),
        f'<section id="cases">\n<h2>Cases</h2>\n{cases_table(rows)}\n</section>' if rows else "",
        _environment(environment or {}),
    ]
    style = STYLE + hiding(len(looks_of(rows)))
    return page(title, style, parts, script=SORTING)


def _header(title: str, rows: Sequence[SweepRow], environment: Mapping[str, Any]) -> str:
    places = {
        "plots": "Plots",
        "speedups": "Speed-ups",
        "doubts": "Doubts",
        "failed": "Failed",
        "skipped": "Skipped",
        "cases": "Cases",
        "environment": "Environment",
    }
    absent = {
        "plots": scaling(rows) is None,
        "speedups": not speed_ups(rows),
        "doubts": not reason_texts(rows, RowStatus.MEASURED),
        "failed": not reason_texts(rows, RowStatus.FAILED),
        "skipped": not reason_texts(rows, RowStatus.SKIPPED),
        "cases": not rows,
        "environment": not environment,
    }
    links = "".join(
        f'<li><a href="#{place}">{name}</a></li>'
        for place, name in places.items()
        if not absent[place]
    )
    subjects = "; ".join(subject_text(subject) for subject in subjects_in(rows))
    differences = error_texts(rows)
    told = f"Largest difference from pt: {', '.join(differences)}." if differences else ""
    return f"""<header>
<h1>{text_of(title)}</h1>
<p class="summary">{text_of(summary(rows))}.</p>
<p>{text_of(subjects)}</p>
<p>{text_of(told)}</p>
<p>{text_of(environment_line(environment))}</p>
<nav><ul>{links}</ul></nav>
</header>"""


def _plots(rows: Sequence[SweepRow], roofs: Roofs | None) -> str:
    figures = [
        figure for figure in (scaling(rows), speed_up(rows), roofline(rows, roofs)) if figure
    ]
    if not figures:
        told = "Nothing was measured over a dimension, so there is nothing to draw."
        return f'<section id="plots">\n<p class="quiet">{told}</p>\n</section>'
    shown = sorted(
        {look for figure in figures for look in figure.looks}, key=lambda look: look.number
    )
    keys = "".join(
        f'<label><input type="checkbox" id="show-{look.number}" checked>{key_svg(look)}'
        f"{text_of(look.name)}</label>"
        for look in shown
    )
    first, *rest = figures
    more = more_scaling(rows)
    folded = (
        f"<details><summary>The same with other sizes held</summary>{_panels(more)}</details>"
        if more
        else ""
    )
    return "\n".join(
        [
            f'<section id="plots">\n<div class="keys">{keys}</div>',
            _figure(first),
            folded,
            *map(_figure, rest),
            "</section>",
        ]
    )


def _figure(figure: Figure) -> str:
    return (
        f'<h2>{text_of(figure.title)}</h2>\n<p class="quiet">{text_of(figure.note)}</p>\n'
        f"{_panels(figure)}"
    )


def _panels(figure: Figure) -> str:
    drawn = "\n".join(map(panel_svg, figure.panels))
    return f'<div class="panels" style="--columns: {figure.columns}">\n{drawn}\n</div>'


def _speed_ups(rows: Sequence[SweepRow]) -> str:
    """One line for each config: the mean over all points, and where it is least and most."""
    found = speed_ups(rows)
    if not found:
        return ""
    several = len(subjects_in(rows)) > 1
    lines = "\n".join(
        f"<tr>{f'<td>{text_of(subject_text(each.subject))}</td>' if several else ''}"
        f"<td>{text_of(each.phase.value)}</td><td>{text_of(each.config.dtype)}</td>"
        f"<td>{text_of(each.config.backend)}</td>"
        f'<td class="number">{times_text(each.mean)}</td>'
        f'<td class="number">{times_text(each.least)}</td>'
        f"<td>{text_of(dims_text(each.least_at))}</td>"
        f'<td class="number">{times_text(each.most)}</td>'
        f"<td>{text_of(dims_text(each.most_at))}</td>"
        f'<td class="number">{each.points}</td></tr>'
        for each in found
    )
    return f"""<section id="speedups">
<h2>Speed-ups over pt</h2>
<p class="quiet">Over all sizes that both have; the mean is the geometric one.</p>
<div class="wide"><table class="speedups">
<thead><tr>{"<th>model</th>" if several else ""}<th>phase</th><th>dtype</th><th>backend</th>
<th class="number">mean</th><th class="number">least</th><th>at</th><th class="number">most</th>
<th>at</th><th class="number">points</th></tr></thead>
<tbody>
{lines}
</tbody>
</table></div>
</section>"""


def _reasons(place: str, title: str, texts: Sequence[str], kind: str = "") -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{text_of(text)}</li>" for text in texts)
    return f'<section id="{place}">\n<h2>{title}</h2>\n<ul class="{kind}">{items}</ul>\n</section>'


def _environment(environment: Mapping[str, Any]) -> str:
    if not environment:
        return ""
    facts = "".join(
        f"<dt>{text_of(name)}</dt><dd>{text_of(value)}</dd>"
        for name, value in environment_facts(environment)
    )
    return f'<section id="environment">\n<h2>Environment</h2>\n<dl>{facts}</dl>\n</section>'
