"""The change that can be detected between two runs with several fresh processes per case.

Samples of one process differ much less than processes do, because each process has other memory
addresses. So the detectable change follows from how much the medians of the processes differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import NamedTuple

from torchmark.analyse.student import quantile
from torchmark.model.result import Result

CONFIDENCE = 0.95
POWER = 0.8

FEWEST_PROCESSES = 5
"""With fewer processes their spread is hardly known."""


class RepeatForecast(NamedTuple):
    """The number of processes that a case needs, predicted from a pilot."""

    processes: int
    detectable: float
    """The detectable change with this number of processes."""


def detectable_in(result: Result) -> float | None:
    """The smallest change between two such runs that is found with 80 % power, as a share.

    None if the case was measured in too few processes.
    """
    measurement = result.measurement
    parts = measurement.replicates if measurement is not None else ()
    if len(parts) < FEWEST_PROCESSES:
        return None
    return detectable_with(_spread([part.median for part in parts]), len(parts))


def detectable_with(spread: float, processes: int) -> float:
    """The detectable change between two runs with `processes` processes each.

    `spread` is the standard deviation of the logarithms of their medians.
    """
    freedom = 2 * (processes - 1)
    needed = quantile(CONFIDENCE, freedom) + quantile(2 * POWER - 1, freedom)
    return math.expm1(needed * spread * math.sqrt(2 / processes))


def forecast_processes(pilot: Result, wanted: float, *, most: int) -> RepeatForecast:
    """The number of processes, including the pilot's, that makes a change of `wanted` detectable.

    At most `most`.
    """
    measurement = pilot.measurement
    medians = [part.median for part in measurement.replicates] if measurement else []
    if len(medians) < FEWEST_PROCESSES:  # the pilot failed, so the case is tried once more
        return RepeatForecast(1, 0.0)
    spread = _spread(medians)
    count = next(
        (n for n in range(len(medians), most) if detectable_with(spread, n) <= wanted), most
    )
    return RepeatForecast(count, detectable_with(spread, count))


def _spread(medians: Sequence[float]) -> float:
    return stdev(math.log(each) for each in medians) if min(medians) > 0 else 0.0
