"""What makes a result doubtful, found in its samples. A doubt is a value; reports print it."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark_probe.loops.intervals import median, quantile_of_sorted
from torchmark_probe.loops.sampling import MIN_QUIET, MIN_SAMPLES, Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

IQR_DOUBTFUL = 0.1
"""The share of the median above which torch warns of the interquartile range."""

_COARSE_STEPS = 100
"""A block of fewer steps of the clock is read with an error of a per cent or more."""

_MODE_SHARE = 0.15
"""The smaller of two groups must hold this share of the samples to be a mode, not outliers."""

_MODE_DISTANCE = 0.05
"""Groups closer than this share of the median do not matter to anyone."""

_MODE_SEPARATION = 6.0
"""Distance of two groups over their pooled deviation. Splitting one bell curve at its best
point gives 2.7, a flat distribution 3.5 and the skewest ones seen here 5."""

_DRIFT_SIZE = 0.02
"""The change from the first to the last third of the samples, as a share of the median."""

_DRIFT_Z = 4.0
"""Standard scores of the rank correlation with time; chance reaches 4 once in 16,000 runs."""


class DoubtKind(enum.Enum):
    """What is doubtful."""

    TOO_FEW_SAMPLES = "too few samples"
    COARSE_CLOCK = "clock too coarse"
    HIGH_IQR = "high IQR"
    BIMODAL = "bimodal"
    DRIFTING = "drifting"
    DISTURBED = "disturbed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A reason to be careful with a result."""

    kind: DoubtKind
    """What is doubtful."""

    text: str
    """The figures, and what to do about it."""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"


def doubts_of(samples: Sequence[float]) -> tuple[Doubt, ...]:
    """Doubts about the samples that count, in the order they were taken."""
    found = (_too_few(samples), _high_iqr(samples), _bimodal(samples), _drifting(samples))
    return tuple(doubt for doubt in found if doubt is not None)


def doubts_of_sampling(sampling: Sampling) -> tuple[Doubt, ...]:
    """Doubts about the way the samples were taken: the clock, and the machine meanwhile."""
    found = (_coarse_clock(sampling), _disturbed(sampling))
    return tuple(doubt for doubt in found if doubt is not None)


def _too_few(samples: Sequence[float]) -> Doubt | None:
    if len(samples) >= MIN_SAMPLES:
        return None
    return Doubt(
        kind=DoubtKind.TOO_FEW_SAMPLES,
        text=f"{len(samples)} of the {MIN_SAMPLES} that a median needs; give it more time",
    )


def _high_iqr(samples: Sequence[float]) -> Doubt | None:
    ordered = sorted(samples)
    centre = quantile_of_sorted(ordered, 0.5)
    spread = quantile_of_sorted(ordered, 0.75) - quantile_of_sorted(ordered, 0.25)
    if centre <= 0 or spread / centre < IQR_DOUBTFUL:
        return None
    return Doubt(
        kind=DoubtKind.HIGH_IQR,
        text=f"the middle half of the samples spans {spread / centre:.0%} of the median; "
        "something else uses the machine",
    )


def _bimodal(samples: Sequence[float]) -> Doubt | None:
    split = _best_split(sorted(samples))
    if split is None:
        return None
    low, high = split
    share = len(low) / len(samples)
    low_centre, high_centre = median(low), median(high)
    pooled = math.sqrt((_variance(low) + _variance(high)) / 2)
    distance = high_centre - low_centre
    if not _MODE_SHARE <= share <= 1 - _MODE_SHARE:
        return None
    if distance < _MODE_DISTANCE * median(samples) or distance < _MODE_SEPARATION * pooled:
        return None
    return Doubt(
        kind=DoubtKind.BIMODAL,
        text=f"{share:.0%} of the samples lie around {low_centre:.3g} s, "
        f"the others around {high_centre:.3g} s; the median is one of two answers",
    )


def _best_split(ordered: Sequence[float]) -> tuple[Sequence[float], Sequence[float]] | None:
    """The two halves that differ most from each other and least within themselves (Otsu)."""
    count = len(ordered)
    if count < MIN_SAMPLES:
        return None
    total = math.fsum(ordered)
    below, best, best_at = 0.0, 0.0, 0
    for at in range(1, count):
        below += ordered[at - 1]
        between = (below / at - (total - below) / (count - at)) ** 2 * at * (count - at)
        if between > best:
            best, best_at = between, at
    return (ordered[:best_at], ordered[best_at:]) if best_at else None


def _variance(samples: Sequence[float]) -> float:
    mean = math.fsum(samples) / len(samples)
    return math.fsum((value - mean) ** 2 for value in samples) / len(samples)


def _drifting(samples: Sequence[float]) -> Doubt | None:
    count = len(samples)
    if count < MIN_SAMPLES:
        return None
    third = count // 3
    centre = median(samples)
    change = median(samples[-third:]) - median(samples[:third])
    if centre <= 0 or abs(change) < _DRIFT_SIZE * centre:
        return None
    if abs(_rank_correlation_with_time(samples)) * math.sqrt(count - 1) < _DRIFT_Z:
        return None
    return Doubt(
        kind=DoubtKind.DRIFTING,
        text=f"the last third of the samples is {change / centre:+.1%} off the first; "
        "the statement or the machine was still changing",
    )


def _rank_correlation_with_time(samples: Sequence[float]) -> float:
    """Spearman's; samples that are equal share the mean of their ranks."""
    order = sorted(range(len(samples)), key=samples.__getitem__)
    ranks = [0.0] * len(samples)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and samples[order[stop]] == samples[order[start]]:
            stop += 1
        for index in order[start:stop]:
            ranks[index] = (start + stop - 1) / 2
        start = stop
    middle = (len(samples) - 1) / 2
    time_variance = math.fsum((time - middle) ** 2 for time in range(len(samples)))
    rank_variance = math.fsum((rank - middle) ** 2 for rank in ranks)
    if rank_variance == 0:
        return 0.0
    covariance = math.fsum((time - middle) * (rank - middle) for time, rank in enumerate(ranks))
    return covariance / math.sqrt(time_variance * rank_variance)


def _coarse_clock(sampling: Sampling) -> Doubt | None:
    block, resolution = median(sampling.wall), sampling.clock_resolution
    if block >= _COARSE_STEPS * resolution:
        return None
    return Doubt(
        kind=DoubtKind.COARSE_CLOCK,
        text=f"a block of {block:.3g} s is read with a clock that steps by {resolution:.3g} s",
    )


def _disturbed(sampling: Sampling) -> Doubt | None:
    """A disturbed machine is no doubt as long as it left enough quiet samples."""
    quiet, taken = sum(sampling.quiet()), len(sampling.wall)
    if quiet >= MIN_SAMPLES or quiet == taken:
        return None
    counted = "all samples count" if quiet < MIN_QUIET else "only those count"
    return Doubt(
        kind=DoubtKind.DISTURBED,
        text=f"the core kept its pace around {quiet} of {taken} samples, {counted}; "
        "something else slowed it, so try again or give it more time",
    )
