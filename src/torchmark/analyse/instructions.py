"""Instructions of one run of a statement, exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchmark.model.result import Counts


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
