"""Times of a case from several fresh processes: how well two such runs could be told apart.

Within a process samples agree far better than processes do, because every process has its memory
elsewhere. So what a run of several processes can detect follows from how far their medians differ.
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
"""Below that their spread is hardly known."""


class RepeatForecast(NamedTuple):
    """What a case needs, by what a pilot says."""

    processes: int
    detectable: float
    """The detectable change with so many."""


def detectable_in(result: Result) -> float | None:
    """The smallest change between two such runs that is found with 80 % power, as a share.

    None where the case was measured in too few processes.
    """
    measurement = result.measurement
    parts = measurement.replicates if measurement is not None else ()
    if len(parts) < FEWEST_PROCESSES:
        return None
    return detectable_with(_spread([part.median for part in parts]), len(parts))


def detectable_with(spread: float, processes: int) -> float:
    """Of two runs with so many processes each, whose log medians have this deviation."""
    freedom = 2 * (processes - 1)
    needed = quantile(CONFIDENCE, freedom) + quantile(2 * POWER - 1, freedom)
    return math.expm1(needed * spread * math.sqrt(2 / processes))


def forecast_processes(pilot: Result, wanted: float, *, most: int) -> RepeatForecast:
    """How many processes make a change of the wanted size detectable, the pilot's included.

    No more than `most`.
    """
    measurement = pilot.measurement
    medians = [part.median for part in measurement.replicates] if measurement else []
    if len(medians) < FEWEST_PROCESSES:  # it failed, and is tried once more
        return RepeatForecast(1, 0.0)
    spread = _spread(medians)
    count = next(
        (n for n in range(len(medians), most) if detectable_with(spread, n) <= wanted), most
    )
    return RepeatForecast(count, detectable_with(spread, count))


def _spread(medians: Sequence[float]) -> float:
    return stdev(math.log(each) for each in medians) if min(medians) > 0 else 0.0
