"""The columns with figures: what a history reads instead of the records.

A result of one environment has its main figure in columns, with the interval of a time. Results of
two environments are ratios or pairs, and have none.
"""

from __future__ import annotations

import math

from torchmark.analyse.estimates import instructions_of, time_of
from torchmark.model.result import Counts, Result, Status
from torchmark.model.series import Figures


def figures_of(result: Result) -> Figures:
    """The figures of a result; none if it is not done, or compares two environments."""
    if result.status is not Status.DONE or len(result.environments) != 1:
        return Figures()
    memory = result.facts.peak_memory_bytes
    given = Figures(memory=None if memory is None else float(memory))
    if isinstance(result.payload, Counts):
        return Figures(value=_finite(float(instructions_of(result.payload))), memory=given.memory)
    time = time_of(result)
    if time is None:
        return given
    low, high = time.interval or (None, None)
    low = None if low is None else max(0.0, low)  # that of few samples may reach below zero
    return Figures(
        value=_finite(time.median), low=_finite(low), high=_finite(high), memory=given.memory
    )


def _finite(value: float | None) -> float | None:
    """None for a value that a database or JSON cannot hold."""
    return value if value is not None and math.isfinite(value) else None
