"""The ladders of a run for a terminal or a pipe: times, counts and what is over the plain case."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchmark.model.result import Status
from torchmark.report.columns import lined_up
from torchmark.report.figures import doubt_texts, environment_line, first_line, heading, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.overheads import Ladder, Rung, TimeOverhead
    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result
    from torchmark.model.run import Run

NO_FIGURE = "–"
_NOTES = """\
time: of one call in us, the median and how far its 95 % interval reaches. over, ×: the difference
from the plain call and the ratio to it. more: instructions beyond its own. Processes of one
environment differ by some per cent, which the intervals do not know; counts by far less.
"""

_HEADINGS = ("time", "over", "×", "instr.", "more")


def render(run: Run, ladders: Sequence[Ladder], *, width: int = 80) -> str:
    """The text, without escapes, in lines of at most `width` where words allow."""
    sections = [
        (ladder.stmt, [(rung.kind, _cells(rung)) for rung in ladder.rungs]) for ladder in ladders
    ]
    doubts = [f"DOUBT {text}" for text in doubt_texts(results_in(ladders))]
    parts = [
        _wrapped([heading(run), environment_line(run.environment)], width),
        lined_up(_HEADINGS, sections, width),
        _wrapped([_NOTES], width),
        _wrapped(doubts, width),
        _wrapped([f"FAILED {text}" for text in failure_texts(ladders)], width),
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def results_in(ladders: Sequence[Ladder]) -> list[Result]:
    rungs = [rung for ladder in ladders for rung in ladder.rungs]
    return [result for rung in rungs for result in (rung.time, rung.count) if result is not None]


def failure_texts(ladders: Sequence[Ladder]) -> list[str]:
    """What went wrong, a line for each failure."""
    return [
        f"{result.case.title} ({result.kind.value}): {first_line(result.reason)}"
        for result in results_in(ladders)
        if result.status is Status.FAILED
    ]


def micro(seconds: float, sign: str = "-") -> str:
    """
    >>> micro(1.25e-6), micro(-12.34567e-6), micro(2.5e-6, sign="+"), micro(123.4567e-6)
    ('1.250', '-12.35', '+2.500', '123.5')
    """
    value = seconds * 1e6
    decimals = 3 if abs(value) < 9.9995 else 2 if abs(value) < 99.995 else 1
    return f"{value:{sign}.{decimals}f}"


def time_cell(rung: Rung) -> str:
    """The median, or the word for why there is none."""
    if rung.measurement is None:
        return _without_figure(rung.time)
    mark = " (!)" if rung.measurement.doubts else ""
    return f"{micro(rung.measurement.median)} ±{_reach(rung.measurement)}{mark}"


def instructions_cell(rung: Rung) -> str:
    if rung.instructions is None:
        return _without_figure(rung.count)
    return f"{float(rung.instructions):,.0f}"


def ratio_cell(rung: Rung) -> str:
    return NO_FIGURE if rung.time_overhead is None else f"{rung.time_overhead.ratio:.2f}"


def more_cell(rung: Rung) -> str:
    return NO_FIGURE if rung.more_instructions is None else f"{float(rung.more_instructions):+,.0f}"


def _cells(rung: Rung) -> list[str]:
    overhead = rung.time_overhead
    return [
        time_cell(rung),
        NO_FIGURE if overhead is None else _overhead_cell(overhead),
        ratio_cell(rung),
        instructions_cell(rung),
        more_cell(rung),
    ]


def _overhead_cell(overhead: TimeOverhead) -> str:
    low, high = overhead.interval
    reach = max(overhead.seconds - low, high - overhead.seconds)
    return f"{micro(overhead.seconds, sign='+')} ±{micro(reach)}"


def _reach(measurement: Measurement) -> str:
    low, high = measurement.median_interval
    return micro(max(high - measurement.median, measurement.median - low))


def _without_figure(result: Result | None) -> str:
    if result is None or result.status is Status.DONE:
        return NO_FIGURE
    return str(result.status.value)


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return lines
