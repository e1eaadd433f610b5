"""Cases that were compared by replicates, judged: ratio, interval, verdict, detectable change.

All of it comes from one fit (`torchmark.analyse.mixed_model`) at one level, and the verdict can be
read off the interval that is shown: *slower* if it lies above one, *faster* if it lies below one,
*same* if it holds one and lies within 1 % of it, otherwise *unclear*. Three things are in the
interval. Looking several times spends the false alarms that are allowed, so a look has a share of
them. Among several cases the false discovery rate is held (Benjamini and Hochberg), and all cases
are shown at the level that it leads to. And the interval is wider by what two environments differ
for no reason that matters (the allowance).

The detectable change is the smallest one that another comparison of the same length would find
with 80 % power, at the same level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torchmark.analyse.estimates import Verdict
from torchmark.analyse.mixed_model import FEWEST_CROSSOVERS, Fit, fit_replicates
from torchmark.analyse.student import quantile
from torchmark.model.result import PairedTiming
from torchmark.model.run import FEWEST_REPLICATES
from torchmark_probe.loops.intervals import Interval

FALSE_DISCOVERIES = 0.01
"""Of cases compared together, the share of changes, among those that are called one, that may be
none. So one in a hundred comparisons of a thing with itself, judged alone, may be called a change;
of twenty cases without a change the first has to be as unlikely as one in two thousand."""

SAME_WITHIN = 0.01
"""Two things are the same if the interval of their ratio lies within this of one."""

POWER = 0.8
"""How often a change of the detectable size is found."""

ALLOWANCE = 0.001
"""The log ratio that two environments may have for nothing though they load the same files: `x + x`
compared with itself, with one variable more in B, was 0.15 % slower on average over 45 trials."""

OTHER_FILES_ALLOWANCE = 0.005
"""The same where they load different files. Over 20 reports on overrides the ratios of 20 cases
that nobody had changed were 0.2 % from one (root mean square), and 0.5 % at most, each of them
steadily."""

_FUTILE_WITHIN = 0.005
_FUTILE = 0.05
"""A case needs no more replicates once it is the same, and a change of half a per cent is as
unlikely as this. It is a rule to stop, not a verdict: a change that small might be found with more
replicates, and is not to be given up early."""

_WELL_KNOWN = 0.005
_WELL_KNOWN_SHARE = 0.05
"""A change needs no more replicates once the half of its 95 % interval is this small, or this small
a share of the change. Without it a change of 10 % ends after five replicates, known to 2 %, and
the next comparison says 12 %."""

_MOST_LOG = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the replicates of a case say, judged together with other cases or alone."""

    ratio: float
    """B's time over A's."""

    interval: Interval
    """Where the ratio lies at the level, with the allowance: what the verdict follows from."""

    level: float
    """The confidence that the interval has and the verdict was reached at, as a share."""

    interval_95: Interval
    """Where the ratio lies with 95 % confidence: how well it is known, without the allowance."""

    verdict: Verdict
    detectable: float
    """The smallest change that is found with 80 % power at the level, as a share."""

    p: float
    """How likely such a ratio is where there is no difference beyond the allowance. The share of
    false alarms that the look may spend is in it."""

    replicates: int


def can_be_judged(timing: PairedTiming) -> bool:
    """Whether there is enough for a verdict: of a case that was cut short there may not be."""
    crossovers = sum(map(len, timing.replicates))
    return crossovers >= FEWEST_CROSSOVERS and len(timing.replicates) >= FEWEST_REPLICATES


def judge_times(timings: Sequence[PairedTiming]) -> list[Effect]:
    """An effect for each case, the false discovery rate held over all of them.

    >>> same, slower = (
    ...     PairedTiming(a_seconds=1e-6, replicates=(((log, log + 0.001),),) * 10)
    ...     for log in (0.0, 0.05)
    ... )
    >>> [effect.verdict.value for effect in judge_times([same, slower])]
    ['same', 'slower']
    """
    fits = [_fit(each) for each in timings]
    p_values = [_p_value(fit, each) for fit, each in zip(fits, timings, strict=True)]
    alarms = _discovery_limit(p_values)
    return [
        _effect(fit, each, alarms, p) for fit, each, p in zip(fits, timings, p_values, strict=True)
    ]


def judge_alone(timing: PairedTiming) -> Effect:
    """The effect of a case by itself."""
    return judge_times([timing])[0]


def is_decided(timing: PairedTiming, *, cases: int = 1, gives_up: bool = True) -> bool:
    """Whether more replicates would say nothing new, even if no other of the cases has changed.

    `gives_up` lets a case end as the same though more replicates might find a small change.
    """
    if len(timing.replicates) < FEWEST_REPLICATES:
        return False
    fit = _fit(timing)
    effect = _effect(fit, timing, FALSE_DISCOVERIES / cases, _p_value(fit, timing))
    if effect.verdict.is_change:
        return _is_well_known(effect)
    if not gives_up:
        return False
    small = math.log1p(_FUTILE_WITHIN)
    is_small = fit.below(small) - fit.below(-small) >= 1 - _FUTILE
    return effect.verdict is Verdict.SAME and is_small


def _is_well_known(effect: Effect) -> bool:
    half = math.log(effect.interval_95.high / effect.interval_95.low) / 2
    return half <= max(_WELL_KNOWN, _WELL_KNOWN_SHARE * abs(math.log(effect.ratio)))


class Forecast(NamedTuple):
    """What a case needs, by what its first replicates say."""

    crossovers: int
    """In all, with those that were taken."""

    detectable: float
    """The detectable change by then."""


def detectable_among(timing: PairedTiming, cases: int) -> float:
    """The detectable change where no other of the cases has changed."""
    return _detectable(_fit(timing), timing, FALSE_DISCOVERIES / cases)


def forecast(timing: PairedTiming, wanted: float, *, cases: int, most: int) -> Forecast:
    """How many crossovers make a change of the wanted size detectable; no more than `most`."""
    fit, alarms = _fit(timing), FALSE_DISCOVERIES / cases

    def detectable(count: int) -> float:
        return _detectable(fit.with_crossovers(count), timing, alarms)

    low = FEWEST_CROSSOVERS
    high = max(low, most)
    if detectable(high) <= wanted:
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if detectable(middle) <= wanted else (middle + 1, high)
    return Forecast(high, detectable(high))


def _fit(timing: PairedTiming) -> Fit:
    return fit_replicates(timing.replicates, same_files=timing.same_files)


def _allowance(timing: PairedTiming) -> float:
    return ALLOWANCE if timing.same_files else OTHER_FILES_ALLOWANCE


def _p_value(fit: Fit, timing: PairedTiming) -> float:
    """Twice the chance that the effect lies on the other side of the allowance."""
    allowance = _allowance(timing)
    other_side = min(fit.below(allowance), 1 - fit.below(-allowance))
    return min(1.0, 2 * other_side / timing.alpha_share)


def _effect(fit: Fit, timing: PairedTiming, alarms: float, p: float) -> Effect:
    """Judge a case where this share of false alarms is allowed."""
    allowance, at_level = _allowance(timing), alarms * timing.alpha_share
    low, high = fit.quantile(at_level / 2), fit.quantile(1 - at_level / 2)
    interval = Interval(_exp(low - allowance), _exp(high + allowance))
    return Effect(
        ratio=_exp(fit.centre),
        interval=interval,
        level=1 - alarms,
        interval_95=Interval(_exp(fit.quantile(0.025)), _exp(fit.quantile(0.975))),
        verdict=verdict_of(interval),
        detectable=_exp((high - low) / 2 + _beyond_for_power(fit, at_level) + allowance) - 1,
        p=p,
        replicates=fit.replicates,
    )


def _detectable(fit: Fit, timing: PairedTiming, alarms: float) -> float:
    at_level = alarms * timing.alpha_share
    half = (fit.quantile(1 - at_level / 2) - fit.quantile(at_level / 2)) / 2
    return _exp(half + _beyond_for_power(fit, at_level) + _allowance(timing)) - 1


def _beyond_for_power(fit: Fit, alarms: float) -> float:
    """How far beyond the half interval a change has to lie to be found with the power.

    Three things vary from one comparison to the next: the estimate, the half interval that it has
    to exceed, and the one from which this is said. A standard error that is known from n degrees of
    freedom varies by 1 / sqrt(2 n) of itself, and by 1 / sqrt(n) where the noise has tails like
    that of process pairs (an excess kurtosis of 2).
    """
    beyond = fit.quantile(POWER) - fit.quantile(0.5)
    half = quantile(1 - alarms, fit.freedom)
    of_power = quantile(2 * POWER - 1, fit.freedom)
    varies = (half**2 + (half + of_power) ** 2) / fit.freedom
    return beyond * math.sqrt(1 + varies)


def verdict_of(interval: Interval) -> Verdict:
    """What can be read off an interval.

    >>> [verdict_of(Interval(*ends)).value for ends in [(1.001, 1.2), (0.991, 1.009), (0.9, 1.1)]]
    ['slower', 'same', 'unclear']
    """
    if interval.low > 1:
        return Verdict.SLOWER
    if interval.high < 1:
        return Verdict.FASTER
    is_within = interval.low >= 1 / (1 + SAME_WITHIN) and interval.high <= 1 + SAME_WITHIN
    return Verdict.SAME if is_within else Verdict.UNCLEAR


def _exp(logarithm: float) -> float:
    """Where two replicates disagree wildly the interval has no end; a large number will do."""
    return math.exp(min(max(logarithm, -_MOST_LOG), _MOST_LOG))


def _discovery_limit(p_values: Sequence[float]) -> float:
    """The p-value up to which all are discoveries (Benjamini and Hochberg).

    Where there is none, what the first one would have to reach.
    """
    cases = len(p_values)
    share = FALSE_DISCOVERIES / max(1, cases)
    discoveries = [rank for rank, p in enumerate(sorted(p_values), start=1) if p < share * rank]
    return share * max(discoveries, default=1)
