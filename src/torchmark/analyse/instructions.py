"""Instructions of one execution, exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchmark.model.callgrind_stats import CallgrindStats


def instructions_per_run(stats: CallgrindStats, *, with_loop: bool = False) -> Fraction:
    """Instructions of one execution, without the empty loop where that was counted.

    A fraction, since a statement need not do the same in every execution and counts are exact.
    """
    loop = 0 if with_loop else stats.baseline_exclusive_stats.sum()
    return Fraction(stats.counts() - loop, stats.number_per_run)


def counted_its_loop(stats: CallgrindStats) -> bool:
    """Whether the cost of the empty loop is known."""
    return len(stats.baseline_exclusive_stats) > 0
