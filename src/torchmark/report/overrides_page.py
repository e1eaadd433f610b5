"""The report on the cost of overrides as one HTML page: the comparison, and its flame graphs."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from torchmark.report import ab_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import Understood
    from torchmark.model.case_flames import CaseFlames


def render(
    comparison: Understood, flames: Sequence[CaseFlames], problems: Sequence[str] = ()
) -> str:
    """Pictures are in the page itself, and can be zoomed there."""
    told = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    pictures = "\n".join(map(_pictures, flames))
    return ab_page.page(
        "The cost of __torch_function__",
        [
            f'<ul class="doubt">{told}</ul>' if told else "",
            ab_page.section(comparison),
            f'<section id="flames">\n<h2>Flame graphs</h2>\n{pictures}\n</section>'
            if flames
            else "",
        ],
    )


def _pictures(flames: CaseFlames) -> str:
    """The difference in sight, since it is what one looks for; the two that it is of below it."""
    return f"""<h3>{escape(flames.case.name)}</h3>
{_picture("difference", flames.difference, is_open=True)}
{_picture("base", flames.base)}
{_picture("branch", flames.branch)}"""


def _picture(name: str, svg: str, *, is_open: bool = False) -> str:
    is_shown = " open" if is_open else ""
    return f'<details class="flame"{is_shown}><summary>{name}</summary>\n{svg}\n</details>'
