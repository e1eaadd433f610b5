"""The cost of overrides in two environments, with flame graphs of what got slower."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.flame.stacks import parse_stacks
from torchmark.flame.svg import difference_svg, flame_svg
from torchmark.model.result import PairedProfile
from torchmark.report.figures import seconds_text
from torchmark.report.view import Picture, Section
from torchmark.report.views import ab

if TYPE_CHECKING:
    from torchmark.flame.stacks import Stack
    from torchmark.model.case import Case
    from torchmark.model.result import Result
    from torchmark.model.run import Run
    from torchmark.report.view import View

_UNIT = "ns per run"


def make_view(run: Run) -> View:
    view = ab.make_view(run)
    flames = [_flames(each) for each in run.results if isinstance(each.payload, PairedProfile)]
    return replace(
        view,
        title="The cost of __torch_function__",
        lead=(view.title, *view.lead),
        sections=(*view.sections, *flames),
    )


def _flames(result: Result) -> Section:
    """The difference first, since it is what one looks for; then the two that it is of."""
    profile, case = result.payload, result.case
    assert isinstance(profile, PairedProfile)
    base, branch = result.environments
    stacks = (parse_stacks(profile.a), parse_stacks(profile.b))
    difference = difference_svg(
        *stacks, title=f"{case.name}: {branch} compared with {base}", unit=_UNIT, normalise=False
    )
    drawings = {
        "difference": difference,
        base: _draw(base, case, stacks[0], profile.samples[0]),
        branch: _draw(branch, case, stacks[1], profile.samples[1]),
    }
    return Section(
        id=f"flames-{case.id}",
        title=f"Flame graphs: {case.name}",
        pictures=tuple(
            Picture(name=name_picture(which, case), title=which, svg=svg)
            for which, svg in drawings.items()
        ),
    )


def _draw(name: str, case: Case, stacks: list[Stack], samples: int) -> str:
    seconds = sum(stack.weight for stack in stacks) / 1e9
    note = f"{samples} samples by py-spy; a run takes {seconds_text(seconds)}"
    return flame_svg(stacks, title=f"{case.name}: {name}", unit=_UNIT, note=note)


def name_picture(which: str, case: Case) -> str:
    """What the files of a flame graph are called.

    >>> from torchmark.model.case import Case
    >>> case = Case(label=("overrides", "torch.add", "SubTensor"), stmt="torch.add(x, y)")
    >>> name_picture("base", case)
    'base-torch.add-SubTensor'
    """
    words = case.label[1:] if len(case.label) > 1 else (case.name,)
    slug = re.sub(r"[^\w.]+", "-", "-".join(words)).strip("-.")
    return f"{which}-{slug}"
