"""Hints: measured alternatives that are clearly faster and save a noticeable part of a step.

An alternative is clearly faster if the 95 % intervals do not touch. The saving is noticeable if it
is at least 2 % of a step (of the real step if its time is known). An alternative to a call cannot
save more than the call takes in the replay: then the machine was disturbed while it was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torchmark.analyse.replay import ReplayAnalysis
from torchmark.model.result import TimeSummary
from torchmark.model.run import Alternative, Change
from torchmark.model.run_settings import TracedCall

LEAST_SHARE = 0.02
"""Minimum saving, as a share of a step; less is lost in its noise."""

_DISTURBED = 2.0
"""A saving of more than this many times what the call takes in the replay is not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """An alternative to show to the user."""

    alternative: Alternative
    calls: tuple[TracedCall, ...]
    """The calls that it replaces."""

    seconds: float
    """Seconds that it saves in a step."""

    share: float
    """Share of a step that it saves."""

    pays_with_copy: bool
    """Whether it is still clearly faster if its inputs must be copied first."""


def find_hints(analysis: ReplayAnalysis, alternatives: tuple[Alternative, ...]) -> list[Hint]:
    """The hints, largest saving first."""
    real = analysis.real_step
    step = real.time.median if real is not None else analysis.step_seconds
    calls = {call.number: call for call in analysis.settings.calls}
    steps = max(1, analysis.settings.steps)
    taken = {row.call.number: (row.seconds or 0.0) / steps for row in analysis.calls}
    found = []
    for each in alternatives:
        saved = each.times * (each.present.median - each.changed.median)
        # An optimizer step takes longer than its calls, because it also runs Python.
        most = math.inf if each.change is Change.FUSED else sum(taken[call] for call in each.calls)
        if saved > _DISTURBED * most:
            continue
        if step and saved >= LEAST_SHARE * step and _is_clearly_faster(each.present, each.changed):
            hint = Hint(
                alternative=each,
                calls=tuple(calls[number] for number in each.calls),
                seconds=saved,
                share=saved / step,
                pays_with_copy=_is_clearly_faster(each.present, each.changed, each.copying),
            )
            found.append(hint)
    return sorted(found, key=lambda hint: -hint.seconds)


def _is_clearly_faster(
    present: TimeSummary, changed: TimeSummary, copying: TimeSummary | None = None
) -> bool:
    return changed.high + (copying.high if copying is not None else 0.0) < present.low
