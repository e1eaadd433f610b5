"""The number that several starts agree on, and how far it may be off.

A start of both environments gives a few couples of fresh processes, half of them started in the one
order and half in the other. Starts differ from each other by no more than their couples do where
both are the same torch, and by much more where they are not. They differ by less where the pages
that the first of two processes was given go to the first of the next two, which is the other side:
then what the pages do is in both couples, with opposite signs. Taken as if only starts counted,
five of them say little of their spread; taken as if all couples were alike, starts that do differ
would be overlooked, and those that agree would not be believed. So couples count as far as they
spread as starts do, for the spread and for its degrees of freedom, and they never make the spread
smaller than that of starts.

With made-up numbers, from starts that agree better than their couples to starts that differ much
more, the 95 % interval of five to ten starts holds the truth in 92 to 97 % of all trials.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from torchmark_probe.loops.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.ab_record import Turn

_FENCE = 2.5
"""Couples that lie further out, in standard deviations, were disturbed and are moved to there. The
few of a first look hardly know their own deviation, so the fence is further out for them."""

_FENCE_OF_FEW = 25.0
"""Over the number of couples, how much further: 5.0 in all for ten of them, 3.75 for twenty. With
3.0 for ten the interval would hold the truth in 91 %; with 5.0 for all, twenty couples of which one
in ten is disturbed would find a fifth less."""

_STARTS_AGREE = 2
_STARTS_DIFFER = 3
"""Powers of how alike the spreads of starts and of couples are. Starts that differ are the reason
why there are starts: with 2 for them too, intervals of five held the truth in less than 92 %."""

_DEVIATIONS = 1.4826
"""One standard deviation, in median deviations, where nothing is disturbed."""


class Agreement(NamedTuple):
    """What starts say together."""

    centre: float
    error: float
    """The standard error of the centre."""

    freedom: float
    """The degrees of freedom that the error is known with."""


def agreement_of(pairs: Sequence[Sequence[Turn]]) -> Agreement:
    """Of at least two starts, each with one turn or more."""
    starts = _within_a_fence(_whatever_the_order(pairs))
    count, couples = len(starts), sum(map(len, starts))
    means = [_mean(start) for start in starts]
    centre = _mean(means)
    between = math.fsum((mean - centre) ** 2 for mean in means) / (count - 1) / count
    # One degree is spent on what the order does.
    more_freedom = couples - count - 1
    squares = math.fsum(
        (each - mean) ** 2 for start, mean in zip(starts, means, strict=True) for each in start
    )
    within = squares / more_freedom * _mean([1 / len(start) for start in starts]) / count
    freedom = count - 1
    if within == 0:
        return Agreement(centre, math.sqrt(between), freedom)
    if between == 0:  # a coarse clock: that starts agree to the last digit says nothing
        return Agreement(centre, math.sqrt(within), more_freedom)
    alike = min(between, within) / max(between, within)
    counting = more_freedom * alike ** (_STARTS_DIFFER if between > within else _STARTS_AGREE)
    together = (freedom * between + counting * within) / (freedom + counting)
    return Agreement(centre, math.sqrt(max(between, together)), freedom + counting)


def _whatever_the_order(pairs: Sequence[Sequence[Turn]]) -> list[list[float]]:
    """The couples of every start, without what it does to be started first."""
    first = median([(one - other) / 2 for turns in pairs for one, other in turns])
    return [
        [couple for one, other in turns for couple in (one - first, other + first)]
        for turns in pairs
    ]


def _within_a_fence(starts: list[list[float]]) -> list[list[float]]:
    couples = [couple for start in starts for couple in start]
    middle = median(couples)
    fence = _FENCE + _FENCE_OF_FEW / len(couples)
    away = fence * _DEVIATIONS * median([abs(couple - middle) for couple in couples])
    if away == 0:
        return starts
    return [[min(max(each, middle - away), middle + away) for each in start] for start in starts]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
