"""Ratios of two times: measured together (compared round by round), or separately."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torchmark.analyse.estimates import MeasuredTime, Verdict
from torchmark.errors import InvalidArgumentError
from torchmark.model.measurement import Measurement
from torchmark_probe.loops.intervals import Interval, median, median_interval
from torchmark_probe.loops.sampling import MIN_QUIET, Sampling

PROCESS_BIAS = 0.01
"""Differences up to this are not called a change. Two copies of one statement in one process
differ by up to 0.5 % while the process lives, because their objects have other addresses."""

FEWEST_ROUNDS = 10
"""A ratio of fewer rounds has no verdict. Below six rounds the interval is the whole range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of the times of two statements that were measured together."""

    value: float
    """The median of the ratios of the rounds."""

    interval: Interval
    rounds: int
    """Rounds that count: those with both blocks undisturbed, or all if these are too few."""

    @property
    def verdict(self) -> Verdict:
        """slower, faster or same if the interval lies above, below or within 0.99 to 1.01."""
        if self.rounds < FEWEST_ROUNDS:
            return Verdict.UNCLEAR
        return _judge_interval(self.interval, 1 - PROCESS_BIAS, 1 + PROCESS_BIAS)


def ratio_of(measurement: Measurement, baseline: Measurement) -> Ratio:
    """The time of `measurement` over that of `baseline`, both from one `measure_together`.

    It is the median of the ratios of the rounds. What slows the machine for a while slows both
    blocks of a round, so it cancels out.
    """
    upper, lower = _sampling(measurement), _sampling(baseline)
    if len(upper.wall) != len(lower.wall):
        raise InvalidArgumentError(
            f"{measurement.title!r} and {baseline.title!r} were not measured together (they have "
            f"{len(upper.wall)} and {len(lower.wall)} rounds); use measure_together"
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
            f"{measurement.title!r} and {baseline.title!r} cannot be compared: all their rounds "
            "have a time of 0 s"
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
            f"{measurement.title!r} was not measured in rounds; use measure_together"
        )
    return measurement.sampling


def ratio_interval(before: MeasuredTime, after: MeasuredTime) -> Interval:
    """The 95 % interval of after.median / before.median for independent measurements.

    On the logarithmic scale, each end is the root of the sum of squares of two distances: from
    the medians to the ends of their intervals that move the ratio in that direction.
    """
    low_before, high_before = _reach(before)
    low_after, high_after = _reach(after)
    ratio = after.median / before.median
    low = math.hypot(low_after, high_before)
    high = math.hypot(high_after, low_before)
    return Interval(ratio * math.exp(-low), ratio * math.exp(high))


def _reach(time: MeasuredTime) -> tuple[float, float]:
    """Distances from the median to the ends of its interval, on the logarithmic scale."""
    if time.interval is None:
        return math.inf, math.inf
    low, high = time.interval
    # The interval of few samples may reach below zero; then there is no lower limit.
    below = math.log(time.median / low) if low > 0 else math.inf
    return below, math.log(max(high, time.median) / time.median)


def judge_time(interval: Interval, threshold: float) -> Verdict:
    """The verdict for the interval of a ratio."""
    return _judge_interval(interval, 1 / (1 + threshold), 1 + threshold)


def _judge_interval(interval: Interval, least: float, most: float) -> Verdict:
    if interval.low > most:
        return Verdict.SLOWER
    if interval.high < least:
        return Verdict.FASTER
    is_within = interval.low >= least and interval.high <= most
    return Verdict.SAME if is_within else Verdict.UNCLEAR
