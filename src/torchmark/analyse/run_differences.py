"""Two runs, case by case: what became slower or faster, and what takes more or fewer instructions.

Cases are matched by their ids, so only what is the same text is compared.

*Times* of two runs were not taken side by side, so the machine may have been another one between
them, and no interval of one measurement can know that. The ratio of the medians has an interval
that holds the uncertainty of both (their own 95 % intervals, combined on the logarithmic scale),
and a verdict needs that interval to lie beyond a threshold. An A/B run with interleaved pairs sees
smaller changes and can be believed more.

*Counts* do not depend on how busy the machine is: they are the same or they are not.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.instructions import counted_its_loop, instructions_per_run
from torchmark.analyse.ratios import FEWEST_ROUNDS
from torchmark.model.result import Metric, Status
from torchmark.model.units import ordered_unique
from torchmark_probe.loops.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from torchmark.model.case import Case
    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result

TIME_THRESHOLD = 0.05
"""The least change of a time that is called one, as a share. Ten runs of the same ten statements on
a busy machine, all 450 pairs: with 1 % a quarter was called a change, with 3 % an eighth, with 5 %
one in sixteen, nearly all of them memory-bound or with a backward pass."""

COUNT_THRESHOLD = 0.0
"""The largest change of a count that is still called close, as a share."""


class TimeVerdict(enum.Enum):
    """What became of the time of a case."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """The whole interval of the ratio is within the threshold."""

    UNCLEAR = "unclear"
    """The interval is too wide to tell, or there are too few samples for one."""


class CountVerdict(enum.Enum):
    """What became of the instructions of a case."""

    FEWER = "fewer"
    MORE = "more"
    SAME = "same"
    """Equal to the instruction."""

    CLOSE = "close"
    """Not equal, but within the threshold that was asked for."""


class Gap(enum.Enum):
    """Why a case has no verdict."""

    ONLY_IN_FIRST = "only in the first run"
    ONLY_IN_SECOND = "only in the second run"
    FAILED_IN_FIRST = "failed in the first run"
    FAILED_IN_SECOND = "failed in the second run"
    FAILED_IN_BOTH = "failed in both runs"
    SKIPPED_IN_FIRST = "skipped in the first run"
    SKIPPED_IN_SECOND = "skipped in the second run"
    NO_TIME = "took no time on the clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is too small to be called a change, as shares: 0.01 is one per cent."""

    time: float = TIME_THRESHOLD
    """Of times."""

    count: float = COUNT_THRESHOLD
    """Of counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChange:
    """The time of one case in two runs."""

    case: Case
    before: Measurement
    """In the first run."""

    after: Measurement
    """In the second run."""

    ratio: float
    """The median of the second over that of the first; above 1 is slower."""

    interval: Interval
    """Where the ratio lies with 95 % confidence, as far as the samples of the two runs know."""

    verdict: TimeVerdict

    @property
    def is_doubtful(self) -> bool:
        """Whether either measurement has a doubt of its own."""
        return bool(self.before.doubts or self.after.doubts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """The instructions of one case in two runs."""

    case: Case
    before: Fraction
    """Instructions of one execution in the first run."""

    after: Fraction
    """Instructions of one execution in the second run."""

    verdict: CountVerdict

    @property
    def difference(self) -> Fraction:
        """Instructions that the second run has more for one execution."""
        return self.after - self.before

    @property
    def share(self) -> float:
        """The difference as a share of the first run; infinite where that has none."""
        return _share(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomparable:
    """A case that has no pair of results."""

    case: Case
    kind: Metric
    gap: Gap
    reason: str = ""
    """What the failure or the skip says of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences:
    """All that differs, and all that does not, in the order of the second run."""

    times: tuple[TimeChange, ...]
    counts: tuple[CountChange, ...]
    incomparable: tuple[Incomparable, ...]
    thresholds: Thresholds

    @property
    def got_slower(self) -> bool:
        """Whether a case takes longer, or more instructions."""
        return any(change.verdict is TimeVerdict.SLOWER for change in self.times) or any(
            change.verdict is CountVerdict.MORE for change in self.counts
        )

    @property
    def changed(self) -> bool:
        """Whether a case takes another time or another number of instructions."""
        return (
            self.got_slower
            or any(change.verdict is TimeVerdict.FASTER for change in self.times)
            or any(change.verdict is CountVerdict.FEWER for change in self.counts)
        )

    @property
    def broke(self) -> bool:
        """Whether a case failed in the second run that had not failed in the first."""
        return any(each.gap is Gap.FAILED_IN_SECOND for each in self.incomparable)


def differences_of(
    first: Sequence[Result],
    second: Sequence[Result],
    thresholds: Thresholds | None = None,
) -> RunDifferences:
    """Compare the results of two runs; the first is what the second is compared with."""
    limits = thresholds if thresholds is not None else Thresholds()
    before = {(result.case.id, result.metric): result for result in first}
    after = {(result.case.id, result.metric): result for result in second}
    found: list[TimeChange | CountChange | Incomparable] = []
    for key in ordered_unique([*after, *before]):
        compared = _compared(before.get(key), after.get(key), limits)
        found += [compared] if compared is not None else []
    return RunDifferences(
        times=tuple(each for each in found if isinstance(each, TimeChange)),
        counts=tuple(each for each in found if isinstance(each, CountChange)),
        incomparable=tuple(each for each in found if isinstance(each, Incomparable)),
        thresholds=limits,
    )


def time_verdict(interval: Interval, fewest_samples: int, threshold: float) -> TimeVerdict:
    """What an interval of the ratio says; few samples have none that could be believed."""
    if fewest_samples < FEWEST_ROUNDS:
        return TimeVerdict.UNCLEAR
    if interval.low > 1 + threshold:
        return TimeVerdict.SLOWER
    if interval.high < 1 / (1 + threshold):
        return TimeVerdict.FASTER
    if interval.low >= 1 / (1 + threshold) and interval.high <= 1 + threshold:
        return TimeVerdict.SAME
    return TimeVerdict.UNCLEAR


def count_verdict(before: Fraction, after: Fraction, threshold: float) -> CountVerdict:
    if before == after:
        return CountVerdict.SAME
    if abs(_share(before, after)) <= threshold:
        return CountVerdict.CLOSE
    return CountVerdict.MORE if after > before else CountVerdict.FEWER


def ratio_interval(before: Measurement, after: Measurement) -> Interval:
    """The 95 % interval of after.median / before.median, of measurements that are independent.

    On the logarithmic scale the distance from each median to the end of its interval is taken,
    the two that push the ratio the same way are added as squares, and so for the other way.
    """
    low_before, high_before = _reach(before)
    low_after, high_after = _reach(after)
    ratio = after.median / before.median
    low = math.hypot(low_after, high_before)
    high = math.hypot(high_after, low_before)
    return Interval(ratio * math.exp(-low), ratio * math.exp(high))


def _reach(measurement: Measurement) -> tuple[float, float]:
    """How far the interval reaches below and above the median, as logarithms."""
    centre, (low, high) = measurement.median, measurement.median_interval
    # An interval of few, scattered samples may reach below zero: then nothing is known that way.
    return math.log(centre / low) if low > 0 else math.inf, math.log(high / centre)


def _compared(
    before: Result | None, after: Result | None, limits: Thresholds
) -> TimeChange | CountChange | Incomparable | None:
    """None where both were skipped, or nothing was asked of them."""
    present = after if after is not None else before
    assert present is not None
    gap, reason = _gap(before, after)
    if gap is not None:
        return Incomparable(case=present.case, kind=present.kind, gap=gap, reason=reason)
    if before is None or after is None:
        return None
    if before.measurement is not None and after.measurement is not None:
        return _time_change(after.case, before.measurement, after.measurement, limits.time)
    if before.counts is not None and after.counts is not None:
        # Where one run did not count the loop, both are compared with it.
        with_loop = not (counted_its_loop(before.counts) and counted_its_loop(after.counts))
        old = instructions_per_run(before.counts, with_loop=with_loop)
        new = instructions_per_run(after.counts, with_loop=with_loop)
        verdict = count_verdict(old, new, limits.count)
        return CountChange(case=after.case, before=old, after=new, verdict=verdict)
    return None


def _time_change(
    case: Case, before: Measurement, after: Measurement, threshold: float
) -> TimeChange | Incomparable:
    samples = min(len(before.raw_times), len(after.raw_times))
    if not samples or not before.median or not after.median:
        return Incomparable(case=case, metric=Metric.TIME, gap=Gap.NO_TIME)
    interval = ratio_interval(before, after)
    return TimeChange(
        case=case,
        before=before,
        after=after,
        ratio=after.median / before.median,
        interval=interval,
        verdict=time_verdict(interval, samples, threshold),
    )


_DONE, _FAILED, _SKIPPED = Status.DONE, Status.FAILED, Status.SKIPPED
_GAPS: dict[tuple[Status | None, Status | None], Gap] = {
    (_FAILED, _FAILED): Gap.FAILED_IN_BOTH,
    (None, _FAILED): Gap.FAILED_IN_SECOND,
    (_DONE, _FAILED): Gap.FAILED_IN_SECOND,
    (_SKIPPED, _FAILED): Gap.FAILED_IN_SECOND,
    (_FAILED, None): Gap.FAILED_IN_FIRST,
    (_FAILED, _DONE): Gap.FAILED_IN_FIRST,
    (_FAILED, _SKIPPED): Gap.FAILED_IN_FIRST,
    (_DONE, None): Gap.ONLY_IN_FIRST,
    (None, _DONE): Gap.ONLY_IN_SECOND,
    (_DONE, _SKIPPED): Gap.SKIPPED_IN_SECOND,
    (_SKIPPED, _DONE): Gap.SKIPPED_IN_FIRST,
}
"""By what came of a case in the first and in the second run; None where it has no result."""


def _gap(before: Result | None, after: Result | None) -> tuple[Gap | None, str]:
    """Why the two cannot be compared, with what the failure or the skip says of itself."""
    outcomes = (before.status if before else None, after.status if after else None)
    reasons = [result.reason for result in (after, before) if result and result.reason]
    return _GAPS.get(outcomes), reasons[0] if reasons else ""


def _share(before: Fraction, after: Fraction) -> float:
    if before == after:
        return 0.0
    return float((after - before) / before) if before else math.copysign(math.inf, after)
