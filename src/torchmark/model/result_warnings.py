"""Warnings about a result, derived from its samples.

A warning is a value: its kind, its figures, and a sentence that also says what to do.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import correlation

from torchmark.model.units import select_unit
from torchmark_probe.loops.intervals import Interval, median, quantile_of_sorted
from torchmark_probe.loops.measurement import IQR_DOUBTFUL
from torchmark_probe.loops.sampling import MIN_QUIET, MIN_SAMPLES, Sampling

_COARSE_STEPS = 100
"""A block of fewer steps of the clock has a reading error of 1 % or more."""

_MODE_SHARE = 0.15
"""The smaller of two groups is a mode, not outliers, if it has this share of the samples."""

_MODE_DISTANCE = 0.05
"""Groups that are closer than this share of the median are not worth a warning."""

_MODE_SEPARATION = 6.0
"""Distance of two groups over their pooled deviation. The best split of a normal distribution
gives 2.7, of a uniform one 3.5, and of the most skewed ones seen here 5."""

_WIDE_INTERVAL = 0.1
"""Distance from the median to the farther end of its interval, as a share of the median. With a
wider interval not even the second digit of a time is known. Sampling aims at a tenth of this."""

_DRIFT_SIZE = 0.02
"""The change from the first to the last third of the samples, as a share of the median."""

_DRIFT_Z = 4.0
"""Standard score of the rank correlation with time; chance reaches 4 once in 16,000 results."""


class WarningKind(enum.Enum):
    """Why a result is doubtful."""

    TOO_FEW_SAMPLES = "too few samples"
    COARSE_CLOCK = "clock too coarse"
    HIGH_IQR = "high IQR"
    BIMODAL = "bimodal"
    DRIFTING = "drifting"
    DISTURBED = "disturbed"
    WIDE_INTERVAL = "wide interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultWarning:
    """A reason to be careful with a result."""

    kind: WarningKind
    figures: Mapping[str, float] = field(hash=False)
    """The figures by name; times in seconds, shares as fractions (0.1 is 10 %)."""

    text: str
    """A sentence with the figures and what to do."""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"


def find_warnings(samples: Sequence[float]) -> tuple[ResultWarning, ...]:
    """Warnings about the samples that count; `samples` are in the order they were taken."""
    found = (_too_few(samples), _high_iqr(samples), _bimodal(samples), _drifting(samples))
    return tuple(warning for warning in found if warning is not None)


def find_sampling_warnings(sampling: Sampling) -> tuple[ResultWarning, ...]:
    """Warnings about how the samples were taken: the clock and the load of the machine."""
    found = (_coarse_clock(sampling), _disturbed(sampling))
    return tuple(warning for warning in found if warning is not None)


def find_interval_warnings(centre: float, interval: Interval) -> tuple[ResultWarning, ...]:
    """A warning if the interval of the median is wide."""
    reach = max(interval.high - centre, centre - interval.low)
    if centre <= 0 or reach < _WIDE_INTERVAL * centre:
        return ()
    low, high = _seconds(max(0.0, interval.low)), _seconds(interval.high)
    warning = ResultWarning(
        kind=WarningKind.WIDE_INTERVAL,
        figures={"share": reach / centre, "low": interval.low, "high": interval.high},
        text=f"the 95 % interval of the median {_seconds(centre)} is {low} to {high}; measure "
        "longer or on an idle machine",
    )
    return (warning,)


def kinds_text(warnings: Iterable[ResultWarning]) -> str:
    """The kinds of warnings, for the cell of a table."""
    return "; ".join(warning.kind.value for warning in warnings)


def _too_few(samples: Sequence[float]) -> ResultWarning | None:
    if len(samples) >= MIN_SAMPLES:
        return None
    found = f"only {len(samples)} sample{'' if len(samples) == 1 else 's'}"
    return ResultWarning(
        kind=WarningKind.TOO_FEW_SAMPLES,
        figures={"samples": len(samples), "recommended": MIN_SAMPLES},
        text=f"{found} ({MIN_SAMPLES} recommended); measure longer",
    )


def _high_iqr(samples: Sequence[float]) -> ResultWarning | None:
    ordered = sorted(samples)
    centre = quantile_of_sorted(ordered, 0.5)
    spread = quantile_of_sorted(ordered, 0.75) - quantile_of_sorted(ordered, 0.25)
    if centre <= 0 or spread / centre < IQR_DOUBTFUL:
        return None
    return ResultWarning(
        kind=WarningKind.HIGH_IQR,
        figures={"share": spread / centre},
        text=f"the interquartile range is {spread / centre * 100:.0f} % of the median; "
        "close other programs and measure again",
    )


def _bimodal(samples: Sequence[float]) -> ResultWarning | None:
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
    return ResultWarning(
        kind=WarningKind.BIMODAL,
        figures={"share": share, "low": low_centre, "high": high_centre},
        text=f"{share * 100:.0f} % of the samples are near {_seconds(low_centre)}, "
        f"the others near {_seconds(high_centre)}; the median describes only one of these "
        "groups, so look at the samples",
    )


def _best_split(ordered: Sequence[float]) -> tuple[Sequence[float], Sequence[float]] | None:
    """The split into two groups with the largest variance between them (Otsu's method)."""
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


def _drifting(samples: Sequence[float]) -> ResultWarning | None:
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
    return ResultWarning(
        kind=WarningKind.DRIFTING,
        figures={"share": change / centre},
        text=f"the last third of the samples is {abs(change) / centre * 100:.1f} % "
        f"{'slower' if change > 0 else 'faster'} than the first third; "
        "the statement or the machine had not settled, so measure again",
    )


def _rank_correlation_with_time(samples: Sequence[float]) -> float:
    """Spearman's rank correlation; equal samples share the mean of their ranks."""
    ordered = sorted(samples)
    if ordered[0] == ordered[-1]:
        return 0.0
    ranks = [(bisect_left(ordered, each) + bisect_right(ordered, each) - 1) / 2 for each in samples]
    return correlation(range(len(samples)), ranks)


def _coarse_clock(sampling: Sampling) -> ResultWarning | None:
    block, resolution = median(sampling.wall), sampling.clock_resolution
    if block >= _COARSE_STEPS * resolution:
        return None
    return ResultWarning(
        kind=WarningKind.COARSE_CLOCK,
        figures={"block": block, "resolution": resolution},
        text=f"a block takes {_seconds(block)}, less than {_COARSE_STEPS} steps of the clock "
        f"({_seconds(resolution)}); put more work into the statement",
    )


def _disturbed(sampling: Sampling) -> ResultWarning | None:
    """A warning if too few samples are undisturbed; a busy machine alone is no reason."""
    quiet, taken = sum(sampling.quiet()), len(sampling.wall)
    if quiet >= MIN_SAMPLES or quiet == taken:
        return None
    used = "so the least disturbed are used" if quiet < MIN_QUIET else "and only those are used"
    found = f"only {quiet} of {taken} samples were" if quiet else f"none of {taken} samples was"
    return ResultWarning(
        kind=WarningKind.DISTURBED,
        figures={"undisturbed": quiet, "samples": taken},
        text=f"{found} undisturbed, {used}; close other programs or measure longer",
    )


def _seconds(seconds: float) -> str:
    unit, scale = select_unit(seconds)
    return f"{seconds / scale:.3g} {unit}"
