"""Hints of a replay as sentences: the present time, the alternative, and what to change where."""

from __future__ import annotations

from torchmark.analyse.hints import Hint
from torchmark.model.result import TimeSummary
from torchmark.model.run import Change
from torchmark.report.figures import short_seconds_text
from torchmark.report.names import name_some
from torchmark.report.view import Mark, Section
from torchmark.report.views.replay_calls import operator_text


def hint_section(hints: list[Hint]) -> Section:
    return Section("hints", "Hints", listing=tuple(map(_hint_text, hints)), mark=Mark.GOOD)


def _hint_text(hint: Hint) -> str:
    """The present time, the time of the alternative, and what to do."""
    tried = hint.alternative
    call = hint.calls[0]
    what = tried.what or f"{operator_text(call.op)}({call.signature})"
    often = f", {tried.times} times in a step" if tried.times > 1 else ""
    return (
        f"{what} takes {_range_text(tried.present)}{often}, and {_range_text(tried.changed)} "
        f"{_CHANGES[tried.change]}. This saves {hint.share * 100:.0f} % of a step. {_advice(hint)}"
    )


_CHANGES = {
    Change.FUSED: "with fused=True",
    Change.FLOAT32: "in float32",
    Change.CONTIGUOUS: "with contiguous inputs",
}


def _advice(hint: Hint) -> str:
    tried = hint.alternative
    if tried.change is Change.FUSED:
        advice = f"Pass fused=True to {tried.what.partition('.')[0]}"
    elif tried.copying is None:
        advice = "This processor is slower with fewer bits: use float32 for this call"
    elif hint.pays_with_copy:
        copying = short_seconds_text(tried.copying.median)
        advice = f"Call .contiguous() on its inputs, which takes {copying}"
    else:
        copying = short_seconds_text(tried.copying.median)
        advice = (
            f"Make its inputs contiguous where they are created: a copy takes {copying}, which is "
            "faster only if several calls use it"
        )
    return f"{advice}{_place_text(hint)}."


def _place_text(hint: Hint) -> str:
    """The line or module that makes the call, if the trace has it."""
    sources = [source for call in hint.calls for source in call.sources]
    modules = [f"module {module}" for call in hint.calls for module in call.modules]
    names = list(dict.fromkeys(sources or modules))
    return f" ({name_some(names, 1)})" if names else ""


def _range_text(time: TimeSummary) -> str:
    """The median, with the longer side of its interval."""
    reach = max(time.high - time.median, time.median - time.low) / time.median * 100
    return f"{short_seconds_text(time.median)} ±{max(1.0, reach):.0f} %"
