"""How long a sweep may take, roughly: said before it starts, so that nobody waits for days.

The figures are of small models on an ordinary processor; a model whose run takes a second takes
longer, and a large machine is quicker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.define.sweep.points import SweepCase
    from torchmark.define.sweep.spec import SweepSpec

_START = 10.0
"""Seconds for importing torch, twice."""

_CASE = 0.2
"""Seconds for the samples of a case and all around them."""

_PREPARING = {"pt": 0.0, "ort": 2.0, "compile": 8.0}
"""Seconds for each model and dtype that a backend has to prepare."""


def seconds_of(cases: int) -> float:
    """What so many cases take if nothing has to be prepared for them."""
    return _START + _CASE * cases


def seconds_for(spec: SweepSpec, cases: Sequence[SweepCase]) -> float:
    """What these cases take, give or take a factor of two."""
    prepared = {
        (
            tuple(size for name, size in point.dims if name in spec.init),
            point.dtype,
            point.backend,
            point.phase,
        )
        for _, point in cases
    }
    return seconds_of(len(cases)) + sum(_PREPARING[backend] for _, _, backend, _ in prepared)


def duration_text(seconds: float) -> str:
    """
    >>> [duration_text(seconds) for seconds in (40, 400, 40_000, 4_000_000)]
    ['40 s', '7 min', '11 h', '46 days']
    """
    for limit, length, unit in ((100, 1, "s"), (6000, 60, "min"), (200_000, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"
