"""Ladders: the cost of each kind of input, compared with a plain Tensor in the same call.

Cases of the suite `overrides` that differ only in their last label form a ladder. The others are
compared with the case whose last label is the plain kind.

*Times* come from different processes, so the errors of two medians are independent. The interval
of their difference combines them as the root of the sum of squares, and that of their ratio does
the same on the logarithmic scale. Differences between processes are not included.

*Counts* of one zygote are repeatable to the instruction, so their difference is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from torchmark.analyse.estimates import MeasuredTime, instructions_of, time_of
from torchmark.analyse.ratios import ratio_interval
from torchmark.model.case import Case
from torchmark.model.result import Counts, Metric, Result
from torchmark_probe.loops.intervals import Interval

SUITE = "overrides"
"""The first label of the cases that form ladders."""

PLAIN = "Tensor"
"""The kind of input without an override, which the others are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOverhead:
    """How much longer a call takes than the plain one."""

    seconds: float
    """The difference of the medians; negative if the call is faster."""

    interval: Interval
    """The 95 % interval of the difference, in seconds."""

    ratio: float
    """The median divided by that of the plain call."""

    ratio_interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One kind of input to a call."""

    case: Case

    time: Result | None
    """None if there is no result for the time (yet)."""

    count: Result | None
    """None if there is no result for the count (yet)."""

    time_overhead: TimeOverhead | None = None
    """None for the plain call, and if one of the two has no time."""

    more_instructions: Fraction | None = None
    """Additional instructions of one run; None for the plain call, and without two counts."""

    @property
    def kind(self) -> str:
        return self.case.label[-1]

    @property
    def instructions(self) -> Fraction | None:
        """Instructions of one run, if they were counted."""
        counts = self.count.payload if self.count is not None else None
        return instructions_of(counts) if isinstance(counts, Counts) else None


def find_rungs(results: Iterable[Result]) -> list[Rung]:
    """The rungs of all ladders, in the order of the results.

    A ladder without a result of the plain kind has no overheads.
    """
    ladders: dict[tuple[str, ...], dict[str, dict[Metric, Result]]] = {}
    for result in results:
        *call, kind = result.case.label
        ladders.setdefault(tuple(call), {}).setdefault(kind, {})[result.metric] = result
    return [rung for kinds in ladders.values() for rung in _rungs_of(kinds)]


def time_overhead(time: MeasuredTime, plain: MeasuredTime) -> TimeOverhead | None:
    """How much longer `time` is than `plain`.

    None if one of them is zero, or has too few samples for an interval.
    """
    if not (time.median and plain.median and time.interval and plain.interval):
        return None
    difference = time.median - plain.median
    return TimeOverhead(
        seconds=difference,
        interval=Interval(
            difference
            - math.hypot(time.median - time.interval.low, plain.interval.high - plain.median),
            difference
            + math.hypot(time.interval.high - time.median, plain.median - plain.interval.low),
        ),
        ratio=time.median / plain.median,
        ratio_interval=ratio_interval(plain, time),
    )


def _rungs_of(kinds: Mapping[str, Mapping[Metric, Result]]) -> list[Rung]:
    rungs = {
        kind: Rung(
            case=next(iter(found.values())).case,
            time=found.get(Metric.TIME),
            count=found.get(Metric.INSTRUCTIONS),
        )
        for kind, found in kinds.items()
    }
    plain = rungs.get(PLAIN)
    return [
        rung if plain is None or rung is plain else _with_overheads(plain, rung)
        for rung in rungs.values()
    ]


def _with_overheads(plain: Rung, rung: Rung) -> Rung:
    """The rung with its overheads over the plain one."""
    long, short = time_of(rung.time), time_of(plain.time)
    many, few = rung.instructions, plain.instructions
    return replace(
        rung,
        time_overhead=time_overhead(long, short) if long and short else None,
        more_instructions=many - few if many is not None and few is not None else None,
    )
