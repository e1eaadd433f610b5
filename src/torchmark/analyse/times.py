"""The time of a case with its interval, whether every sample is known or only statistics are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.model.result import TimeSummary
from torchmark_probe.loops.intervals import Interval

if TYPE_CHECKING:
    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result
    from torchmark.model.result_warnings import ResultWarning


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """How long one run of a case takes, in seconds."""

    median: float
    interval: Interval
    """The 95 % interval of the median; it may reach below zero where samples are few."""

    samples: int
    warnings: tuple[ResultWarning, ...] = ()


def time_of(result: Result | None) -> MeasuredTime | None:
    """The time in a result; None where there is none."""
    if result is None:
        return None
    if isinstance(result.payload, TimeSummary):
        summary = result.payload
        return MeasuredTime(
            median=summary.median,
            interval=Interval(summary.low, summary.high),
            samples=summary.samples,
        )
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
