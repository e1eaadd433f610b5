"""A result in one line, for progress and for lists of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.estimates import instructions_of
from torchmark.analyse.pairs import effect_in
from torchmark.model.result import (
    Counts,
    KernelTimes,
    PairedCounts,
    PairedTiming,
    Status,
    TimeSummary,
    Timing,
)
from torchmark.report.figures import first_line, printable, seconds_text
from torchmark.report.views.ab_names import full_name

if TYPE_CHECKING:
    from torchmark.model.result import Result


def headline_of(result: Result) -> str:
    """What was measured and what came of it."""
    name = full_name(result) if result.other is not None else result.case.title
    title = f"{result.metric.value:<5}  {printable(name)}"
    if result.status is not Status.DONE:
        return f"{title}: {result.status.value}: {printable(first_line(result.reason))}"
    return f"{title}: {_figure(result) or result.status.value}"


def _figure(result: Result) -> str:
    text = ""
    match result.payload:
        case Timing() if result.measurement is not None:
            text = seconds_text(result.measurement.median)
        case TimeSummary(median=median):
            text = seconds_text(median)
        case Counts() as counts:
            text = f"{float(instructions_of(counts)):,.0f} instructions"
        case PairedTiming() as times:
            text = f"{_pair(result)} {effect_in(times).ratio:.4f}"
        case PairedCounts():
            text = f"{_pair(result)} {judge_counts(result).share * 100:+.3f} %"
        case KernelTimes(kernels=(longest, *_)):
            text = f"{longest.kernel} {seconds_text(longest.seconds)}"
    return text


def _pair(result: Result) -> str:
    """Which environment is compared with which."""
    return printable("/".join(reversed(result.environments)))
