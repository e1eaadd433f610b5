"""Times with intervals, instructions, and verdicts on a change."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from torchmark.model.case import Case
from torchmark.model.measurement import Measurement
from torchmark.model.result import Counts, Result, TimeSummary
from torchmark.model.result_warnings import ResultWarning, find_interval_warnings
from torchmark_probe.loops.intervals import FEWEST_SAMPLES, Interval


class Verdict(enum.Enum):
    """How a time or a number of instructions changed."""

    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more"
    FEWER = "fewer"
    SAME = "same"
    """A time within the equivalence margin, or an equal count."""

    CLOSE = "close"
    """A count that is not equal, but differs no more than memory layouts or the threshold allow."""

    UNCLEAR = "unclear"
    """The interval is too wide to tell."""

    @property
    def is_change(self) -> bool:
        return self in (Verdict.SLOWER, Verdict.FASTER, Verdict.MORE, Verdict.FEWER)

    @property
    def is_regression(self) -> bool:
        return self in (Verdict.SLOWER, Verdict.MORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """The instructions of one case in two runs, or in two environments."""

    case: Case
    before: Fraction
    """Instructions of one run of the statement, in the first of the two."""

    after: Fraction
    verdict: Verdict

    @property
    def difference(self) -> Fraction:
        return self.after - self.before

    @property
    def share(self) -> float:
        """The difference as a share of the first; infinite if the first is zero."""
        return relative_change(self.before, self.after)


class Compared:
    """A comparison: times and counts, each with its verdict."""

    __slots__ = ()
    times: tuple[Any, ...]
    counts: tuple[Any, ...]

    @property
    def has_regression(self) -> bool:
        """Whether a case is slower or takes more instructions."""
        return any(each.verdict.is_regression for each in (*self.times, *self.counts))

    @property
    def has_change(self) -> bool:
        """Whether the time or the number of instructions of a case has changed."""
        return any(each.verdict.is_change for each in (*self.times, *self.counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """The time of one run of a case, in seconds."""

    median: float
    interval: Interval | None
    """The 95 % interval of the median; it may reach below zero if samples are few. None if there
    are too few samples for an interval."""

    samples: int
    warnings: tuple[ResultWarning, ...] = ()


def time_of(result: Result | None) -> MeasuredTime | None:
    """The time in a result, from its samples or its statistics; None if it has none."""
    if result is None:
        return None
    if isinstance(result.payload, TimeSummary):
        known = result.payload
        interval = known.interval
        return MeasuredTime(
            median=known.median,
            interval=interval,
            samples=known.samples,
            warnings=find_interval_warnings(known.median, interval) if interval else (),
        )
    measurement = result.measurement
    if measurement is None or not measurement.raw_times:
        return None
    return time_of_measurement(measurement)


def time_of_measurement(measurement: Measurement) -> MeasuredTime:
    samples = len(measurement.raw_times)
    return MeasuredTime(
        median=measurement.median,
        interval=measurement.median_interval if samples >= FEWEST_SAMPLES else None,
        samples=samples,
        warnings=measurement.warnings,
    )


def instructions_of(counts: Counts, *, with_loop: bool = False) -> Fraction:
    """Instructions of one run, without the empty loop if that was counted.

    Counts are exact, but runs of a statement may differ, so the result is a fraction.
    """
    everything = sum(count for count, _ in counts.statement.exclusive)
    loop = 0 if with_loop else sum(count for count, _ in counts.loop.exclusive)
    return Fraction(everything - loop, counts.runs)


def counted_its_loop(counts: Counts) -> bool:
    """Whether the empty loop was counted."""
    return len(counts.loop.exclusive) > 0


def relative_change(before: Fraction, after: Fraction) -> float:
    """The difference as a share of `before`; infinite if that is zero."""
    if before == after:
        return 0.0
    return float((after - before) / before) if before else math.copysign(math.inf, after)
