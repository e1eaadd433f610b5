"""Judge paired times: ratio, interval, verdict and detectable change of each case.

All four come from one fit (`torchmark.analyse.mixed_model`) at one level. The verdict follows from
the interval: *slower* if it lies above one, *faster* if it lies below one, *same* if it contains
one and lies within 1 % of it, otherwise *unclear*. The interval includes three corrections:

- Results are checked at several looks, and each look may spend a share of alpha.
- The false discovery rate over all cases is controlled (Benjamini and Hochberg), and all cases are
  shown at the resulting level.
- The allowance: two environments may differ a little for reasons other than the code.

The detectable change is the smallest change that a comparison of the same length finds with 80 %
power, at the same level.
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
"""The false discovery rate: of the cases that are called a change, the share that may be false. So
one in a hundred A/A comparisons of a single case may be called a change; of twenty cases without a
change, the first is called one only if its p-value is below 1/2000."""

SAME_WITHIN = 0.01
"""Two times are the same if the interval of their ratio lies within this distance of one."""

POWER = 0.8
"""Probability that a change of the detectable size is found."""

ALLOWANCE = 0.001
"""The log ratio that two environments may have for nothing though they load the same files: `x + x`
compared with itself, with one variable more in B, was 0.15 % slower on average over 45 trials."""

OTHER_FILES_ALLOWANCE = 0.005
"""The same where they load different files. Over 20 reports on overrides the ratios of 20 cases
that nobody had changed were 0.2 % from one (root mean square), and 0.5 % at most, each of them
steadily."""

_FUTILE_WITHIN = 0.005
_FUTILE = 0.02
"""A case needs no more replicates once it is the same, and a change of half a per cent is as
unlikely as this. It is checked at every look; with 5 %, one in ten changes of that size was given
up. It is a rule to stop, not a verdict: a change that small might be found with more
replicates, and is not to be given up early."""

_PRECISE = 0.003
"""A case that gets time from others needs no more once a change of this size is detectable, without
the allowance: a change of half a per cent is then found in 98 %, for the same files."""

_WELL_KNOWN = 0.005
_WELL_KNOWN_SHARE = 0.05
"""A change needs no more replicates once the half of its 95 % interval is this small, or this small
a share of the change. Without it a change of 10 % ends after five replicates, known to 2 %, and
the next comparison says 12 %."""

_MOST_LOG = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The ratio of a case with its interval and verdict."""

    ratio: float
    """B's time over A's."""

    interval: Interval
    """The interval of the ratio at `level`, with the allowance; the verdict follows from it."""

    level: float
    """The confidence level of the interval and the verdict, as a share."""

    interval_95: Interval
    """The 95 % interval of the ratio, without the allowance: how well the ratio is known."""

    verdict: Verdict
    detectable: float
    """The smallest change that is found with 80 % power at `level`, as a share."""

    p: float
    """The p-value of a difference beyond the allowance, corrected for the share of alpha that the
    last look may spend."""

    replicates: int


def can_be_judged(timing: PairedTiming) -> bool:
    """Whether there are enough replicates for a verdict."""
    crossovers = sum(map(len, timing.replicates))
    return crossovers >= FEWEST_CROSSOVERS and len(timing.replicates) >= FEWEST_REPLICATES


def judge_times(timings: Sequence[PairedTiming]) -> list[Effect]:
    """The effect of each case, with the false discovery rate controlled over all cases.

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
    """The effect of a case that is judged without others."""
    return judge_times([timing])[0]


def is_decided(timing: PairedTiming, *, cases: int = 1, gives_up: bool = True) -> bool:
    """Whether a case needs no more replicates, assuming that no other case has changed.

    With `gives_up`, a case may end as the same although more replicates might find a small change.
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


def is_precise(timing: PairedTiming, *, cases: int) -> bool:
    """Whether more replicates are not worth their time: `_PRECISE` beyond the allowance is
    detectable.

    This does not depend on the ratio, so it may be checked without spending alpha.
    """
    worth_it = math.log1p(_PRECISE) + _allowance(timing)
    return math.log1p(detectable_among(timing, cases)) <= worth_it


class Forecast(NamedTuple):
    """The number of crossovers that a case needs, predicted from its first replicates."""

    crossovers: int
    """The total number, including those that were measured."""

    detectable: float
    """The detectable change with this number."""


def detectable_among(timing: PairedTiming, cases: int) -> float:
    """The detectable change if no other of the cases has changed."""
    return _detectable(_fit(timing), timing, FALSE_DISCOVERIES / cases)


def forecast(timing: PairedTiming, wanted: float, *, cases: int, most: int) -> Forecast:
    """The number of crossovers, at most `most`, that makes a change of `wanted` detectable."""
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
    """Twice the probability that the effect lies on the other side of the allowance."""
    allowance = _allowance(timing)
    other_side = min(fit.below(allowance), 1 - fit.below(-allowance))
    return min(1.0, 2 * other_side / timing.alpha_share)


def _effect(fit: Fit, timing: PairedTiming, alarms: float, p: float) -> Effect:
    """Judge a case at a level of 1 - `alarms`."""
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
    """The distance beyond the half interval at which a change is found with 80 % power.

    Three things vary between comparisons: the estimate, the half interval that it must exceed, and
    the half interval that this is computed from. A standard error with n degrees of freedom varies
    by 1 / sqrt(2 n) of its value, and by 1 / sqrt(n) if the noise has tails like that of process
    pairs (an excess kurtosis of 2).
    """
    beyond = fit.quantile(POWER) - fit.quantile(0.5)
    half = quantile(1 - alarms, fit.freedom)
    of_power = quantile(2 * POWER - 1, fit.freedom)
    varies = (half**2 + (half + of_power) ** 2) / fit.freedom
    return beyond * math.sqrt(1 + varies)


def verdict_of(interval: Interval) -> Verdict:
    """The verdict that follows from an interval.

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
    """`math.exp`, limited: the ends of an interval may be infinite if replicates differ a lot."""
    return math.exp(min(max(logarithm, -_MOST_LOG), _MOST_LOG))


def _discovery_limit(p_values: Sequence[float]) -> float:
    """The p-value up to which all cases are discoveries (Benjamini and Hochberg).

    If there are none, the p-value that a first one would need.
    """
    cases = len(p_values)
    share = FALSE_DISCOVERIES / max(1, cases)
    discoveries = [rank for rank, p in enumerate(sorted(p_values), start=1) if p < share * rank]
    return share * max(discoveries, default=1)
