"""What one or two results say: times and ratios with their intervals, instructions, verdicts."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from torchmark.errors import InvalidArgumentError
from torchmark.model.result import TimeSummary
from torchmark_probe.loops.intervals import Interval, median, median_interval
from torchmark_probe.loops.sampling import MIN_QUIET, Sampling

if TYPE_CHECKING:
    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Counts, Result
    from torchmark.model.result_warnings import ResultWarning

PROCESS_BIAS = 0.01
"""Two copies of one statement in one process differ by up to half a per cent, for as long as the
process lives, because their objects lie elsewhere. A smaller difference is not called one."""

FEWEST_ROUNDS = 10
"""Below six rounds the interval is their whole range, and a little more gives it some sense."""


class Verdict(enum.Enum):
    """What became of a figure from the first to the second."""

    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more"
    """Takes more instructions."""

    FEWER = "fewer"
    """Takes fewer instructions."""

    SAME = "same"
    """A time within the margin of equivalence, or a count that is equal to the instruction."""

    CLOSE = "close"
    """A count that is not equal, but no further apart than layouts or the threshold allow."""

    UNCLEAR = "unclear"
    """The interval is too wide to tell."""

    @property
    def is_change(self) -> bool:
        return self in (Verdict.SLOWER, Verdict.FASTER, Verdict.MORE, Verdict.FEWER)

    @property
    def is_regression(self) -> bool:
        return self in (Verdict.SLOWER, Verdict.MORE)


class Compared:
    """A comparison: times and counts, each with its verdict."""

    __slots__ = ()
    times: tuple[Any, ...]
    counts: tuple[Any, ...]

    @property
    def has_regression(self) -> bool:
        """Whether a case takes longer, or more instructions."""
        return any(each.verdict.is_regression for each in (*self.times, *self.counts))

    @property
    def has_change(self) -> bool:
        """Whether a case takes another time or another number of instructions."""
        return any(each.verdict.is_change for each in (*self.times, *self.counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """How long one run of a case takes, in seconds."""

    median: float
    interval: Interval
    """The 95 % interval of the median; it may reach below zero where samples are few."""

    samples: int
    warnings: tuple[ResultWarning, ...] = ()


def time_of(result: Result | None) -> MeasuredTime | None:
    """The time in a result, of samples or of statistics alone; None where there is none."""
    if result is None:
        return None
    if isinstance(result.payload, TimeSummary):
        known = result.payload
        interval = Interval(known.low, known.high)
        return MeasuredTime(median=known.median, interval=interval, samples=known.samples)
    measurement = result.measurement
    if measurement is None or not measurement.raw_times:
        return None
    return time_of_measurement(measurement)


def time_of_measurement(measurement: Measurement) -> MeasuredTime:
    return MeasuredTime(
        median=measurement.median,
        interval=measurement.median_interval,
        samples=len(measurement.raw_times),
        warnings=measurement.warnings,
    )


def instructions_of(counts: Counts, *, with_loop: bool = False) -> Fraction:
    """Instructions of one run, without the empty loop where that was counted.

    A fraction, because a statement need not do the same in every run and counts are exact.
    """
    everything = sum(count for count, _ in counts.statement.exclusive)
    loop = 0 if with_loop else sum(count for count, _ in counts.loop.exclusive)
    return Fraction(everything - loop, counts.runs)


def counted_its_loop(counts: Counts) -> bool:
    """Whether the cost of the empty loop is known."""
    return len(counts.loop.exclusive) > 0


def relative_change(before: Fraction, after: Fraction) -> float:
    """The difference as a share of `before`; infinite where that is nothing."""
    if before == after:
        return 0.0
    return float((after - before) / before) if before else math.copysign(math.inf, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The time of one statement over that of another that was measured with it."""

    value: float
    """The median of the ratios of the rounds."""

    interval: Interval
    """Its 95 % interval."""

    rounds: int
    """Rounds that count: both blocks ran while the machine was quiet, where enough did."""

    @property
    def verdict(self) -> Verdict:
        """What the interval says: a change has to lie beyond what one process cannot resolve."""
        if self.rounds < FEWEST_ROUNDS:
            return Verdict.UNCLEAR
        return _judge_interval(self.interval, 1 - PROCESS_BIAS, 1 + PROCESS_BIAS)


def ratio_of(measurement: Measurement, baseline: Measurement) -> Ratio:
    """The ratio of two measurements that were taken together by `measure_together`.

    Ratios are formed within a round, so that what slowed the machine for a while cancels out.
    """
    upper, lower = _sampling(measurement), _sampling(baseline)
    if len(upper.wall) != len(lower.wall):
        raise InvalidArgumentError(
            f"{measurement.title!r} and {baseline.title!r} were not measured together: "
            f"{len(upper.wall)} and {len(lower.wall)} rounds"
        )
    both_quiet = [a and b for a, b in zip(upper.quiet(), lower.quiet(), strict=True)]
    if sum(both_quiet) < MIN_QUIET:
        both_quiet = [True] * len(both_quiet)
    logs = [
        math.log((a / upper.number) / (b / lower.number))
        for a, b, counts in zip(upper.wall, lower.wall, both_quiet, strict=True)
        if counts and a > 0 and b > 0
    ]
    if not logs:
        raise InvalidArgumentError(
            f"no round of {measurement.title!r} and {baseline.title!r} took any time on the clock"
        )
    low, high = median_interval(logs)
    return Ratio(
        value=math.exp(median(logs)),
        interval=Interval(math.exp(low), math.exp(high)),
        rounds=len(logs),
    )


def _sampling(measurement: Measurement) -> Sampling:
    if measurement.sampling is None:
        raise InvalidArgumentError(
            f"{measurement.title!r} has no samples taken in rounds; use measure_together"
        )
    return measurement.sampling


def ratio_interval(before: MeasuredTime, after: MeasuredTime) -> Interval:
    """The 95 % interval of after.median / before.median, of measurements that are independent.

    On the logarithmic scale the distance from each median to the end of its interval is taken,
    the two that push the ratio the same way are added as squares, and so for the other way.
    """
    low_before, high_before = _reach(before)
    low_after, high_after = _reach(after)
    ratio = after.median / before.median
    low = math.hypot(low_after, high_before)
    high = math.hypot(high_after, low_before)
    return Interval(ratio * math.exp(-low), ratio * math.exp(high))


def _reach(time: MeasuredTime) -> tuple[float, float]:
    """How far the interval reaches below and above the median, as logarithms."""
    low, high = time.interval
    # An interval of few, scattered samples may reach below zero: then nothing is known that way.
    below = math.log(time.median / low) if low > 0 else math.inf
    return below, math.log(max(high, time.median) / time.median)


def judge_time(interval: Interval, threshold: float) -> Verdict:
    """What an interval of the ratio says."""
    return _judge_interval(interval, 1 / (1 + threshold), 1 + threshold)


def _judge_interval(interval: Interval, least: float, most: float) -> Verdict:
    if interval.low > most:
        return Verdict.SLOWER
    if interval.high < least:
        return Verdict.FASTER
    is_within = interval.low >= least and interval.high <= most
    return Verdict.SAME if is_within else Verdict.UNCLEAR
