"""Two things compared by replicates: fresh launches of both, each with a few crossovers.

A process pair is a fresh process of each that alternate in short blocks, so what changes on the
machine changes for both, and the log ratio of their rounds is very steady. But it belongs to the
pair: where the memory of either process lies moves it by half a per cent, and the process that was
started first is slower by one or two per cent where memory is the limit. So two process pairs make
a crossover, one started A-first and one B-first, and every replicate launches both environments
anew.

Replicates of the same torch spread no more than their process pairs, and less where the second
process pair gets the memory pages of the first with the sides exchanged. Replicates of different
builds spread much more. Five replicates say little of their spread, and process pairs alone would
hide replicates that differ. So process pairs count as far as they spread as replicates do, for the
spread and for its degrees of freedom, and never make the spread smaller than that of replicates.
With made-up numbers of all these kinds, the 95 % interval of five to ten replicates holds the truth
in 92 to 97 % of all trials.

Looking several times costs: a p-value is multiplied by the penalty of the look that ended the
measurement, and over several cases the false discovery rate is held (Benjamini and Hochberg).
Stopping once a change is clear favours changes that look larger and steadier than they are, so the
interval is wider after such a look too.

Environments that load different files differ where nobody changed anything: their objects lie
elsewhere in memory, whatever the launch. A change has to lie beyond that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from torchmark.analyse.estimates import Verdict
from torchmark.analyse.ratios import judge_time
from torchmark.analyse.student import quantile, two_sided_p
from torchmark.errors import EmptyMeasurementError
from torchmark.model.result import Crossover, PairedTiming
from torchmark.model.run import FEWEST_REPLICATES
from torchmark_probe.loops.intervals import Interval, median

FALSE_ALARMS = 0.005
"""The share of comparisons of a thing with itself, each judged alone, that may be called a change:
half of the one in a hundred that we promise."""

FALSE_DISCOVERIES = 0.01
"""Of cases compared together, the share of changes, among those that are called one, that may be
none. Of twenty cases without a change the first has to be as unlikely as one in two thousand."""

SAME_WITHIN = 0.01
"""Two things are the same if the interval of their ratio lies within this of one."""

SURELY_SAME_WITHIN = 0.005
"""Two things need no more replicates if the interval of their ratio lies within this of one and has
one in it: a change of half a per cent would be found with more of them, and is not to be given up
early."""

SMALLEST_CHANGE = 0.002
"""Below this no ratio is called a change, whatever its interval."""

LAYOUT_EFFECT = 0.003
"""The log ratio that two environments may have for nothing, because they load different files. Over
20 reports on overrides the ratios of 20 cases that nobody had changed were 0.2 % from one (root
mean square), and 0.5 % at most, each of them steadily."""

_MISSES = 0.05
"""The share of intervals that may miss the truth. It is divided by the root of the penalty for
looking: with made-up replicates that are taken until a change of 0.3 to 1 % is clear, intervals
then hold it in 95 to 97 % of all trials. Undivided they would in 89 to 94 %, and divided by the
whole of the penalty, which is more than enough for looks at the same replicates, in 97 to 98 %."""

_MOST_LOG = 700.0
_POWER_T = 0.84
"""What 80 % of all trials exceed, in standard errors: to be found as often as that."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What many replicates say."""

    ratio: float
    """B's time over A's."""

    interval: Interval
    p: float
    """How likely such a ratio is where there is no difference, with the penalty for looking."""

    replicates: int
    detectable: float
    """The detectable change: the smallest that is found with 80 % power, as a share."""


def effect_in(times: PairedTiming) -> Effect:
    """The ratio that the times of a case show, judged in the way that they were taken."""
    return effect_of(times.replicates, penalty=times.penalty, layout_effect=times.layout_effect)


def effect_of(
    replicates: Sequence[Sequence[Crossover]], *, penalty: float = 1.0, layout_effect: float = 0.0
) -> Effect:
    """The ratio that replicates agree on; p-value and interval include the penalty for looking.

    The p-value says how likely such a ratio is where nothing but the layout of memory makes a
    difference.
    """
    if len(replicates) < 2:
        raise EmptyMeasurementError("an interval needs at least two replicates")
    centre, error, freedom = _agree(replicates)
    half = quantile(1 - _MISSES / math.sqrt(penalty), freedom) * error
    beyond = max(0.0, abs(centre) - layout_effect)
    p = two_sided_p(beyond / error if error else math.inf, freedom) if beyond else 1.0
    needed = quantile(1 - FALSE_ALARMS, freedom) + _POWER_T
    return Effect(
        ratio=_exp(centre),
        interval=Interval(_exp(centre - half), _exp(centre + half)),
        p=min(1.0, p * penalty),
        replicates=len(replicates),
        detectable=max(SMALLEST_CHANGE, _exp(layout_effect + needed * error) - 1),
    )


def _exp(logarithm: float) -> float:
    """Where two replicates disagree wildly the interval has no end; a large number will do."""
    return math.exp(min(max(logarithm, -_MOST_LOG), _MOST_LOG))


def _agree(replicates: Sequence[Sequence[Crossover]]) -> tuple[float, float, float]:
    """The log ratio that replicates agree on, its standard error, and its degrees of freedom.

    There are at least two replicates, each with one crossover or more.
    """
    pairs = _within_a_fence(_without_order_effect(replicates))
    count, total = len(pairs), sum(map(len, pairs))
    means = list(map(fmean, pairs))
    centre = fmean(means)
    between = math.fsum((mean - centre) ** 2 for mean in means) / (count - 1) / count
    # One degree is spent on what the order does.
    more_freedom = total - count - 1
    squares = math.fsum(
        (each - mean) ** 2
        for of_replicate, mean in zip(pairs, means, strict=True)
        for each in of_replicate
    )
    within = squares / more_freedom * fmean([1 / len(each) for each in pairs]) / count
    freedom = count - 1
    if within == 0:
        return centre, math.sqrt(between), freedom
    if between == 0:  # a coarse clock: that replicates agree to the last digit says nothing
        return centre, math.sqrt(within), more_freedom
    alike = min(between, within) / max(between, within)
    power = _REPLICATES_DIFFER if between > within else _REPLICATES_AGREE
    counting = more_freedom * alike**power
    together = (freedom * between + counting * within) / (freedom + counting)
    return centre, math.sqrt(max(between, together)), freedom + counting


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


def is_decided(effect: Effect, *, cases: int = 1) -> bool:
    """Whether more replicates would say nothing new, even if no other of the cases has changed."""
    if effect.replicates < FEWEST_REPLICATES:
        return False
    if _verdict(effect, _share_of_false(cases) / cases).is_change:
        return True
    low, high = effect.interval
    return low <= 1 <= high and _is_within(effect, SURELY_SAME_WITHIN)


def verdicts_of(effects: Sequence[Effect]) -> list[Verdict]:
    """One for each case, the false discovery rate held over all of them.

    >>> same, slower = ([[(log, log + 0.001)]] * 10 for log in (0.0, 0.05))
    >>> [verdict.value for verdict in verdicts_of([effect_of(same), effect_of(slower)])]
    ['same', 'slower']
    """
    limit = _discovery_limit([effect.p for effect in effects])
    return [_verdict(effect, limit) for effect in effects]


def _verdict(effect: Effect, p_limit: float) -> Verdict:
    if effect.replicates < FEWEST_REPLICATES:
        return Verdict.UNCLEAR
    if effect.p <= p_limit and abs(math.log(effect.ratio)) >= SMALLEST_CHANGE:
        return Verdict.SLOWER if effect.ratio > 1 else Verdict.FASTER
    return Verdict.SAME if _is_within(effect, SAME_WITHIN) else Verdict.UNCLEAR


def _is_within(effect: Effect, share: float) -> bool:
    return judge_time(effect.interval, share) is Verdict.SAME


def _discovery_limit(p_values: Sequence[float]) -> float:
    """The largest p-value that is still a discovery (Benjamini and Hochberg)."""
    limit, share = 0.0, _share_of_false(len(p_values))
    for rank, p in enumerate(sorted(p_values), start=1):
        if p <= share * rank / len(p_values):
            limit = p
    return limit


def _share_of_false(cases: int) -> float:
    """Of discoveries among so many cases; never so many that a case by itself had more of them."""
    return min(FALSE_DISCOVERIES, FALSE_ALARMS * cases)
