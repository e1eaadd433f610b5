"""Ratios of two times: of statements that were measured together, round by round, or apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torchmark.analyse.estimates import MeasuredTime, Verdict
from torchmark.errors import InvalidArgumentError
from torchmark.model.measurement import Measurement
from torchmark_probe.loops.intervals import Interval, median, median_interval
from torchmark_probe.loops.sampling import MIN_QUIET, Sampling

PROCESS_BIAS = 0.01
"""Two copies of one statement in one process differ by up to half a per cent, for as long as the
process lives, because their objects lie elsewhere. A smaller difference is not called one."""

FEWEST_ROUNDS = 10
"""Below six rounds the interval is their whole range, and a little more gives it some sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of the times of two statements that were measured together."""

    value: float
    """The median of the ratios of the rounds."""

    interval: Interval
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
    if time.interval is None:
        return math.inf, math.inf
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
