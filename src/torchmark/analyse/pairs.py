"""Two things compared by pairs: a start of both, with a few couples of their processes.

Within a pair fresh processes of the two take turns in short blocks, so what changes on the machine
changes for both, and the median of their log ratios is very steady. But it belongs to them: where
the memory of either lies moves it by half a per cent, and of two processes the one that was started
first is the slower one by one or two per cent where memory is the limit. So processes are taken
twice, once in each order, and both environments are started anew for every pair. What is said of
the two things follows from how couples and pairs of them spread (`agreement.py`).

Looking several times costs: a p-value is multiplied by the penalty of the look that ended the
measurement, and over several cases the false discovery rate is held (Benjamini and Hochberg). Who
stops at the look at which a change is clear stops more often where it looks larger than it is and
steadier than it is, so the interval is wider after such a look too.

Two environments that load different files differ in places where nobody changed anything: their
objects lie elsewhere in memory, and no number of starts brings them to the same places. A change of
theirs has to lie beyond that.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.agreement import agreement_of
from torchmark.analyse.student import quantile, two_sided_p
from torchmark.errors import EmptyMeasurementError
from torchmark_probe.loops.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.ab_record import PairedTimes, Turn

FALSE_ALARMS = 0.005
"""The share of comparisons of a thing with itself, each judged alone, that may be called a change:
half of the one in a hundred that we promise."""

FALSE_DISCOVERIES = 0.01
"""Of cases compared together, the share of changes, among those that are called one, that may be
none. Of twenty cases without a change the first has to be as unlikely as one in two thousand."""

SAME_WITHIN = 0.01
"""Two things are the same if the interval of their ratio lies within this of one."""

SURELY_SAME_WITHIN = 0.005
"""Two things need no more pairs if the interval of their ratio lies within this of one and has one
in it: a change of half a per cent would be seen with more of them, and is not to be given up
early."""

SMALLEST_CHANGE = 0.002
"""Below this no ratio is called a change, whatever its interval."""

LAYOUT_EFFECT = 0.003
"""The log ratio that two environments may have for nothing, because they load different files. Over
20 reports on overrides the ratios of 20 cases that nobody had changed were 0.2 % from one (root
mean square), and 0.5 % at most, each of them steadily."""

FEWEST_PAIRS = 5
"""Before that many pairs nothing is said: their spread is not known well enough."""

_MISSES = 0.05
"""The share of intervals that may miss the truth. It is divided by the root of the penalty for
looking: with made-up pairs that are taken until a change of 0.3 to 1 % is clear, intervals then
hold it in 95 to 97 % of all trials. Undivided they would in 89 to 94 %, and divided by the whole of
the penalty, which is more than enough for looks at the same pairs, in 97 to 98 %."""

_MOST_LOG = 700.0
_POWER_T = 0.84
"""What 80 % of all trials exceed, in standard errors: to be found as often as that."""


class Verdict(enum.Enum):
    """What can be said of B beside A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEffect:
    """What many pairs say."""

    ratio: float
    """B's time over A's."""

    interval: Interval
    """The 95 % interval of the ratio."""

    p: float
    """How likely such a ratio is where there is no difference, with the penalty for looking."""

    pairs: int
    """Starts of both."""

    smallest: float
    """The smallest change that four trials in five would have found, as a share."""


def effect_in(times: PairedTimes) -> PairEffect:
    """The ratio that the times of a case show, judged in the way that they were taken."""
    return effect_of(times.pairs, penalty=times.penalty, layout_effect=times.layout_effect)


def effect_of(
    pairs: Sequence[Sequence[Turn]], *, penalty: float = 1.0, layout_effect: float = 0.0
) -> PairEffect:
    """The ratio that the pairs agree on; p-value and interval have the penalty for looking in them.

    The p-value says how likely such a ratio is where nothing but the layout of memory makes a
    difference.
    """
    if len(pairs) < 2:
        raise EmptyMeasurementError("an interval needs at least two pairs")
    centre, error, freedom = agreement_of(pairs)
    half = quantile(1 - _MISSES / math.sqrt(penalty), freedom) * error
    beyond = max(0.0, abs(centre) - layout_effect)
    p = two_sided_p(beyond / error if error else math.inf, freedom) if beyond else 1.0
    needed = quantile(1 - FALSE_ALARMS, freedom) + _POWER_T
    return PairEffect(
        ratio=_exp(centre),
        interval=Interval(_exp(centre - half), _exp(centre + half)),
        p=min(1.0, p * penalty),
        pairs=len(pairs),
        smallest=max(SMALLEST_CHANGE, _exp(layout_effect + needed * error) - 1),
    )


def _exp(logarithm: float) -> float:
    """Two pairs that disagree wildly have an interval beyond all numbers; a large one will do."""
    return math.exp(min(max(logarithm, -_MOST_LOG), _MOST_LOG))


def is_decided(effect: PairEffect, *, cases: int = 1) -> bool:
    """Whether more pairs would say nothing new, even if no other of so many cases has changed."""
    if effect.pairs < FEWEST_PAIRS:
        return False
    verdict = _verdict(effect, _share_of_false(cases) / cases)
    if verdict in (Verdict.FASTER, Verdict.SLOWER):
        return True
    low, high = effect.interval
    return low <= 1 <= high and _is_within(effect, SURELY_SAME_WITHIN)


def verdicts_of(effects: Sequence[PairEffect]) -> list[Verdict]:
    """One for each case, the false discovery rate held over all of them.

    >>> same, slower = ([[(log, log + 0.001)]] * 10 for log in (0.0, 0.05))
    >>> [verdict.value for verdict in verdicts_of([effect_of(same), effect_of(slower)])]
    ['same', 'slower']
    """
    limit = _discovery_limit([effect.p for effect in effects])
    return [_verdict(effect, limit) for effect in effects]


def _verdict(effect: PairEffect, p_limit: float) -> Verdict:
    change = abs(math.log(effect.ratio))
    if effect.pairs >= FEWEST_PAIRS and effect.p <= p_limit and change >= SMALLEST_CHANGE:
        return Verdict.SLOWER if effect.ratio > 1 else Verdict.FASTER
    is_near = _is_within(effect, SAME_WITHIN)
    return Verdict.SAME if is_near and effect.pairs >= FEWEST_PAIRS else Verdict.UNCLEAR


def _is_within(effect: PairEffect, share: float) -> bool:
    return effect.interval.low >= 1 / (1 + share) and effect.interval.high <= 1 + share


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
