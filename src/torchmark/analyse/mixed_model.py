"""The statistical model of paired timing: replicates with random effects, fitted once.

A crossover is two process pairs, one started A-first and one B-first. Let y be the log of B's time
over A's. The mean z of the two has no order effect, and half their difference d shows the noise:

    z = effect + u + v      u ~ N(0, between · s²)   one for every replicate
    d = order effect + w    v ~ N(0, within · s²)    one for every crossover
                            w ~ N(0, s²)

`within` is 1 if the two process pairs are independent, and less if they are negatively correlated:
the second pair often gets the memory pages of the first with the sides exchanged. `between` says
how much launches differ beyond that. A few replicates cannot determine either, and a fit with the
most likely values gives intervals that are too narrow or too wide. So the fit averages over both,
with weights from recorded A/A comparisons. For each pair of values, the effect follows Student's t
around its generalised least squares estimate; the fit is the mixture of these distributions.
Verdict, interval and detectable change all come from this mixture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

from torchmark.analyse.student import lower_tail, quantile
from torchmark.errors import EmptyMeasurementError
from torchmark.model.result import Crossover
from torchmark_probe.loops.intervals import median

_Weights: TypeAlias = Mapping[tuple[float, float], float]
"""By (within, between); they add up to one."""


def _weights(within: Mapping[float, float], between: Mapping[float, float]) -> _Weights:
    return {(w, b): within[w] * between[b] for w in within for b in between}


SAME_FILES = _weights(
    {0.6: 0.15, 1.0: 0.6, 1.6: 0.25},
    {0.0: 0.5, 0.3: 0.15, 1.0: 0.15, 3.0: 0.1, 10.0: 0.05, 100.0: 0.03, 1e3: 0.01, 1e4: 0.01},
)
"""Where both sides load the same files, at the same addresses: launches differ little. Fitted to
recorded comparisons of 20 ops with themselves, idle and busy (metrics/tune_pairs.py), and rounded
outwards."""

OTHER_FILES = _weights(
    {0.3: 0.1, 0.6: 0.15, 1.0: 0.45, 1.6: 0.2, 2.5: 0.1},
    {0.0: 0.2, 0.3: 0.1, 1.0: 0.15, 3.0: 0.15, 10.0: 0.15, 30.0: 0.1, 1e2: 0.1}
    | {1e3: 0.04, 1e4: 0.01},
)
"""Where they do not, every launch has a layout of its own: of torch 1.13 and 2.13 launches of `x +
x` spread nine times as much as their process pairs explain. The values are spread widely, so that
the data decide."""

FEWEST_CROSSOVERS = 2
"""With one there is nothing to tell its noise from."""

_FENCE = 3.0
"""Process pairs that lie further out, in standard deviations, were disturbed and are moved to the
fence. The few of a first look hardly know their own deviation, so it is further out for them."""

_FENCE_OF_FEW = 25.0
"""Over the number of process pairs, how much further: 5.5 in all for ten of them, 4.25 for
twenty."""

_DEVIATIONS = 1.4826
"""One standard deviation, in median deviations, where nothing is disturbed."""

_RESOLUTION = 1e-7
"""Of a log ratio: 0.00001 %."""

_NEGLIGIBLE = 1e-3
"""A component with less of the weight changes no figure that is shown."""

_SMALLEST_SQUARES = 1e-18
"""Sums of squares below this are those of a clock's steps: replicates that agree to the last digit
are no proof that there is no noise."""


@dataclass(frozen=True, slots=True)
class Component:
    """The effect for one pair of values of `within` and `between`: Student's t."""

    weight: float
    centre: float
    error: float
    """The standard error of the centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The posterior of the log ratio: a mixture of Student's t distributions."""

    components: tuple[Component, ...]
    freedom: float
    """Degrees of freedom of all components."""

    replicates: int

    @property
    def centre(self) -> float:
        """The estimate of the log ratio."""
        return math.fsum(each.weight * each.centre for each in self.components)

    @property
    def crossovers(self) -> float:
        return self.freedom / 2 + 1

    def with_crossovers(self, count: int) -> Fit:
        """The fit that `count` crossovers would give if they spread like these."""
        scale = math.sqrt(self.crossovers / count)
        components = (replace(each, error=each.error * scale) for each in self.components)
        return replace(self, components=tuple(components), freedom=2 * count - 2)

    def below(self, value: float) -> float:
        """The probability that the effect lies below the value."""
        return math.fsum(
            each.weight * lower_tail((value - each.centre) / each.error, self.freedom)
            for each in self.components
        )

    def quantile(self, share: float) -> float:
        """The value that the effect lies below with this probability."""
        away = math.copysign(quantile(abs(2 * share - 1), self.freedom), share - 0.5)
        ends = [each.centre + each.error * away for each in self.components]
        return _root(lambda value: self.below(value) - share, min(ends), max(ends))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """The zero of an increasing function, by the Illinois variant of false position."""
    at_low, at_high = function(low), function(high)
    while high - low > _RESOLUTION * (1 + abs(high)) and at_low < 0 < at_high:
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at_middle = function(middle)
        if abs(at_middle) < _RESOLUTION * min(-at_low, at_high, 1e-3):
            return middle
        if at_middle > 0:
            high, at_high, at_low = middle, at_middle, at_low / 2
        else:
            low, at_low, at_high = middle, at_middle, at_high / 2
    return (low + high) / 2


def fit_replicates(replicates: Sequence[Sequence[Crossover]], *, same_files: bool = True) -> Fit:
    """Fit the model to the crossovers of each replicate; needs at least two crossovers."""
    count = sum(map(len, replicates))
    if count < FEWEST_CROSSOVERS:
        raise EmptyMeasurementError("an interval needs at least two crossovers")
    means, noise = _means_and_noise(_within_a_fence(replicates))
    found = [
        (weight, *_least_squares(means, noise, within=within, between=between))
        for (within, between), weight in (SAME_FILES if same_files else OTHER_FILES).items()
    ]
    freedom = 2 * count - 2
    best = max(likelihood for _, likelihood, _, _ in found)
    raw = [
        Component(weight * math.exp(likelihood - best), centre, error)
        for weight, likelihood, centre, error in found
    ]
    total = math.fsum(each.weight for each in raw)
    kept = [each for each in raw if each.weight > _NEGLIGIBLE * total]
    total = math.fsum(each.weight for each in kept)
    components = (Component(each.weight / total, each.centre, each.error) for each in kept)
    return Fit(components=tuple(components), freedom=freedom, replicates=len(replicates))


def _means_and_noise(
    replicates: Sequence[Sequence[Crossover]],
) -> tuple[list[list[float]], float]:
    """The means of the crossovers by replicate, and the sum of squares of the noise."""
    means = [[(one + other) / 2 for one, other in each] for each in replicates if each]
    halves = [(other - one) / 2 for each in replicates for one, other in each]
    order = fmean(halves)
    return means, math.fsum((half - order) ** 2 for half in halves)


def _least_squares(
    means: Sequence[Sequence[float]], noise: float, *, within: float, between: float
) -> tuple[float, float, float]:
    """Log likelihood, effect and its standard error for given `within` and `between`."""
    weights = [1 / (between + within / len(each)) for each in means]
    middles = list(map(fmean, means))
    total = math.fsum(weights)
    centre = math.fsum(w * m for w, m in zip(weights, middles, strict=True)) / total
    inside = math.fsum(
        (z - middle) ** 2 for each, middle in zip(means, middles, strict=True) for z in each
    )
    across = math.fsum(w * (m - centre) ** 2 for w, m in zip(weights, middles, strict=True))
    squares = max(_SMALLEST_SQUARES, noise + inside / within + across)
    count = sum(map(len, means))
    freedom = 2 * count - 2
    likelihood = (
        math.fsum(map(math.log, weights))
        - math.log(total)
        - (count - len(means)) * math.log(within)
        - freedom * math.log(squares)
    ) / 2
    return likelihood, centre, math.sqrt(squares / freedom / total)


def _within_a_fence(replicates: Sequence[Sequence[Crossover]]) -> list[list[Crossover]]:
    """The replicates with outliers (after subtracting the order effect) moved to the fence."""
    first = median([(other - one) / 2 for each in replicates for one, other in each])
    pairs = [y for each in replicates for one, other in each for y in (one + first, other - first)]
    middle = median(pairs)
    fence = _FENCE + _FENCE_OF_FEW / len(pairs)
    away = fence * _DEVIATIONS * median([abs(pair - middle) for pair in pairs])
    if away == 0:
        return [list(each) for each in replicates]

    def fenced(value: float, order: float) -> float:
        return min(max(value - order, middle - away), middle + away) + order

    return [
        [(fenced(one, -first), fenced(other, first)) for one, other in each] for each in replicates
    ]
