"""Quantiles and the interval of a median: pure functions of numbers.

Quantiles use the linear interpolation of torch and numpy, bit for bit. The interval is the widest
of several: the one from order statistics for independent samples, and those from the medians of
consecutive batches, because neighbouring samples on a shared machine are not independent. The
interval of a result is even wider: it also allows for differences between results, which cannot be
seen within one.
"""

import math
from typing import NamedTuple, Sequence, Tuple

_Z_95 = 1.959963984540054
"""Standard normal quantile of 0.975."""

_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
          2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093)  # fmt: skip
"""Student's t quantile of 0.975 for 1 to 19 degrees of freedom."""

_BATCHES = (20, 5)
"""Numbers of batches whose medians show drift between samples: fast drift, and slow. No interval
can show changes that are slower than a fifth of the samples."""

_BATCH_LENGTH = 5
"""Minimum number of samples for a median of a batch."""

FEWEST_SAMPLES = 5
"""Fewer samples give no interval: the range of five independent samples contains the median with
94 % probability, that of four with 88 %, and a single sample has no range."""

_LOOK_SECONDS = 2e-3
"""Samples taken within this time count as one independent sample of the machine, because
disturbances last longer."""

_BETWEEN_RESULTS = 0.01
"""How much repeated results differ on a quiet machine, as a share (95 %)."""

_BETWEEN_DISTURBED_RESULTS = 0.06
"""Added if all samples are disturbed: quiet samples are then partly disturbed too."""

_BETWEEN_UNSTEADY_RESULTS = 0.3
"""Added in proportion to how far the reference loop fell behind its best pace around the counted
samples. Tuned on 240 results of ten statements next to three to five busy processes: without it
the intervals contained 65 % of them, with it 94 % (`metrics/timer_vs_torch.py`)."""


class Interval(NamedTuple):
    """A range that contains the true value with 95 % confidence."""

    low: float
    high: float


def quantile_of_sorted(ordered: Sequence[float], fraction: float) -> float:
    """Return the value below which `fraction` of the ordered samples lie, interpolated linearly."""
    rank = fraction * (len(ordered) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    weight = rank - below
    low, high = ordered[below], ordered[above]
    # From the nearer end, which is how torch keeps the result inside [low, high].
    return low + weight * (high - low) if weight < 0.5 else high - (high - low) * (1 - weight)


def median(samples: Sequence[float]) -> float:
    return quantile_of_sorted(sorted(samples), 0.5)


def median_interval(samples: Sequence[float]) -> Interval:
    """Return the 95 % interval for the median of samples, which are in the order taken.

    Fewer than six samples do not allow 95 %: the interval is then their whole range.
    """
    ordered = _order_statistics_interval(sorted(samples))
    intervals = [ordered, *(_batch_interval(samples, batches) for batches in _BATCHES)]
    return Interval(min(each.low for each in intervals), max(each.high for each in intervals))


def result_interval(
    samples: Sequence[float], *, sample_seconds: float, disturbed: float, unsteady: float
) -> Interval:
    """Return the 95 % interval for the median of repeated results in the long run.

    `sample_seconds` is the time of one sample, and `disturbed` is the share of disturbed samples.
    `unsteady` says how far the reference loop fell behind its best pace around the other samples.
    The interval of these samples alone would be too narrow, because it does not include changes
    from one result to the next. Their size is estimated from the spread of the samples and from
    how disturbed the machine was.
    """
    ordered, centre = sorted(samples), median(samples)
    per_look = max(1.0, _LOOK_SECONDS / sample_seconds) if sample_seconds > 0 else 1.0
    reach = min(0.5, _Z_95 / 2 / math.sqrt(len(ordered) / per_look))
    within = median_interval(samples)
    low = min(within.low, quantile_of_sorted(ordered, 0.5 - reach))
    high = max(within.high, quantile_of_sorted(ordered, 0.5 + reach))
    between = centre * (
        _BETWEEN_RESULTS
        + _BETWEEN_DISTURBED_RESULTS * disturbed
        + _BETWEEN_UNSTEADY_RESULTS * unsteady
    )
    return Interval(
        max(0.0, centre - math.hypot(centre - low, between)),
        centre + math.hypot(high - centre, between),
    )


def merged_interval(centre: float, parts: Sequence[Tuple[float, Interval]]) -> Interval:
    """Return the 95 % interval for the median of several results, from medians and intervals.

    The errors of results are independent, so their share shrinks with the root of the number of
    results. The differences between the medians show what processes add.
    """
    count = len(parts)
    medians = [middle for middle, _ in parts]
    mean = math.fsum(medians) / count
    squares = math.fsum((middle - mean) ** 2 for middle in medians)
    apart = _Z_95 * math.sqrt(squares / max(1, count - 1) / count)

    def reach(errors: Sequence[float]) -> float:
        return math.hypot(math.sqrt(math.fsum(error**2 for error in errors)) / count, apart)

    below = reach([middle - interval.low for middle, interval in parts])
    above = reach([interval.high - middle for middle, interval in parts])
    return Interval(max(0.0, centre - below), centre + above)


def _order_statistics_interval(ordered: Sequence[float]) -> Interval:
    count = len(ordered)
    reach = _Z_95 * math.sqrt(count) / 2
    low = max(0, math.floor((count - 1) / 2 - reach))
    high = min(count - 1, math.ceil((count - 1) / 2 + reach))
    return Interval(ordered[low], ordered[high])


def _batch_interval(samples: Sequence[float], most: int) -> Interval:
    centre = median(samples)
    batches = min(most, len(samples) // _BATCH_LENGTH)
    if batches < 2:
        return Interval(centre, centre)
    edges = [round(index * len(samples) / batches) for index in range(batches + 1)]
    medians = [median(samples[start:stop]) for start, stop in zip(edges, edges[1:])]
    mean = math.fsum(medians) / batches
    variance = math.fsum((value - mean) ** 2 for value in medians) / (batches - 1)
    reach = _T_975[batches - 2] * math.sqrt(variance / batches)
    return Interval(centre - reach, centre + reach)
