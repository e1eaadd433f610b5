"""The report on the cost of overrides in Markdown, to be pasted into a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.report import ab_markdown
from torchmark.report.markdown import escaped
from torchmark.report.overrides_files import picture_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import Understood
    from torchmark.model.case_flames import CaseFlames


def render(
    comparison: Understood, flames: Sequence[CaseFlames], problems: Sequence[str] = ()
) -> str:
    """The names of pictures are those of the files beside it."""
    parts = [
        "## The cost of `__torch_function__`",
        *(f"> {escaped(' '.join(problem.split()))}" for problem in problems),
        ab_markdown.render([comparison]).rstrip(),
    ]
    if flames:
        parts += ["### Flame graphs", *map(_pictures, flames)]
    return "\n\n".join(parts) + "\n"


def _pictures(flames: CaseFlames) -> str:
    """One below the other: three beside each other could not be read."""
    images = (
        f"{which}: ![{which}]({picture_name(which, flames.case, 'png')})"
        for which in flames.named()
    )
    return "\n\n".join([f"**{escaped(flames.case.name)}**", *images])
