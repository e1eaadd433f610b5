"""The log ratio that several replicates agree on, and how far it may be off.

A replicate gives a few process pairs, half of them started in the one order and half in the other.
Replicates differ from each other by no more than their process pairs do where both environments
are the same torch, and by much more where they are not. They differ by less where the pages that
the first of two processes was given go to the first of the next two, which is the other side: then
what the pages do is in both process pairs, with opposite signs. Taken as if only replicates
counted, five of them say little of their spread; taken as if all process pairs were alike,
replicates that do differ would be overlooked, and those that agree would not be believed. So
process pairs count as far as they spread as replicates do, for the spread and for its degrees of
freedom, and they never make the spread smaller than that of replicates.

With made-up numbers, from replicates that agree better than their process pairs to replicates that
differ much more, the 95 % interval of five to ten replicates holds the truth in 92 to 97 % of all
trials.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from torchmark_probe.loops.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.result import Crossover

_FENCE = 2.5
"""Process pairs that lie further out, in standard deviations, were disturbed and are moved to the
fence. The few of a first look hardly know their own deviation, so it is further out for them."""

_FENCE_OF_FEW = 25.0
"""Over the number of process pairs, how much further: 5.0 in all for ten of them, 3.75 for twenty.
With 3.0 for ten the interval would hold the truth in 91 %; with 5.0 for all, twenty process pairs
of which one in ten is disturbed would find a fifth less."""

_REPLICATES_AGREE = 2
_REPLICATES_DIFFER = 3
"""Powers of how alike the spreads of replicates and of process pairs are. Replicates that differ
are the reason why there are replicates: with 2 for them too, intervals of five held the truth in
less than 92 %."""

_DEVIATIONS = 1.4826
"""One standard deviation, in median deviations, where nothing is disturbed."""


class Agreement(NamedTuple):
    """What replicates say together."""

    centre: float
    error: float
    """The standard error of the centre."""

    freedom: float
    """The degrees of freedom that the error is known with."""


def agreement_of(replicates: Sequence[Sequence[Crossover]]) -> Agreement:
    """Of at least two replicates, each with one crossover or more."""
    pairs = _within_a_fence(_without_order_effect(replicates))
    count, total = len(pairs), sum(map(len, pairs))
    means = [_mean(of_replicate) for of_replicate in pairs]
    centre = _mean(means)
    between = math.fsum((mean - centre) ** 2 for mean in means) / (count - 1) / count
    # One degree is spent on what the order does.
    more_freedom = total - count - 1
    squares = math.fsum(
        (each - mean) ** 2
        for of_replicate, mean in zip(pairs, means, strict=True)
        for each in of_replicate
    )
    within = squares / more_freedom * _mean([1 / len(each) for each in pairs]) / count
    freedom = count - 1
    if within == 0:
        return Agreement(centre, math.sqrt(between), freedom)
    if between == 0:  # a coarse clock: that replicates agree to the last digit says nothing
        return Agreement(centre, math.sqrt(within), more_freedom)
    alike = min(between, within) / max(between, within)
    power = _REPLICATES_DIFFER if between > within else _REPLICATES_AGREE
    counting = more_freedom * alike**power
    together = (freedom * between + counting * within) / (freedom + counting)
    return Agreement(centre, math.sqrt(max(between, together)), freedom + counting)


def _without_order_effect(replicates: Sequence[Sequence[Crossover]]) -> list[list[float]]:
    """The process pairs of every replicate, without what it costs to be started first."""
    first = median([(one - other) / 2 for crossovers in replicates for one, other in crossovers])
    return [
        [pair for one, other in crossovers for pair in (one - first, other + first)]
        for crossovers in replicates
    ]


def _within_a_fence(replicates: list[list[float]]) -> list[list[float]]:
    pairs = [pair for replicate in replicates for pair in replicate]
    middle = median(pairs)
    fence = _FENCE + _FENCE_OF_FEW / len(pairs)
    away = fence * _DEVIATIONS * median([abs(pair - middle) for pair in pairs])
    if away == 0:
        return replicates
    return [
        [min(max(pair, middle - away), middle + away) for pair in replicate]
        for replicate in replicates
    ]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
