"""Compare two runs case by case: times, ratios of A/B runs, and instruction counts.

Cases are matched by ID, so only cases with the same text are compared.

*Times* of two runs were not measured together, and their intervals do not include changes of the
machine between the runs. The interval of the ratio of the medians combines both intervals on the
logarithmic scale. A case has changed if this interval lies beyond a threshold. An A/B run finds
smaller changes and is more reliable.

*Ratios* (B's time over A's) of two A/B runs are compared in the same way. Each ratio was measured
within one run, so changes of the machine between the runs do not affect it.

*Counts* do not depend on the load of the machine: they are equal or not. For two A/B runs, the
counts of B are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from torchmark.analyse.ab import judge_counts
from torchmark.analyse.estimates import (
    Compared,
    CountChange,
    MeasuredTime,
    Verdict,
    counted_its_loop,
    instructions_of,
    relative_change,
    time_of,
)
from torchmark.analyse.pairs import SAME_WITHIN, can_be_judged, judge_alone
from torchmark.analyse.ratios import FEWEST_ROUNDS, judge_time, ratio_interval
from torchmark.model.case import Case
from torchmark.model.result import (
    Counts,
    Metric,
    PairedCounts,
    PairedTiming,
    Payload,
    Result,
    ResultKey,
    Status,
)
from torchmark.model.run import FEWEST_REPLICATES, Run
from torchmark.model.units import ordered_unique
from torchmark_probe.loops.intervals import Interval

TIME_THRESHOLD = 0.05
"""Smaller changes of a time are ignored, as a share. In all 450 pairs of ten runs of the same ten
statements on a busy machine, a threshold of 1 % called a quarter a change, 3 % an eighth, and 5 %
one in sixteen; nearly all of these were memory-bound or had a backward pass."""

COUNT_THRESHOLD = 0.0
"""Changes of a count up to this share are called close."""

RATIO_THRESHOLD = SAME_WITHIN
"""Smaller changes of an A/B run's ratio are ignored, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Changes up to these shares are ignored: 0.01 is 1 %."""

    time: float = TIME_THRESHOLD
    count: float = COUNT_THRESHOLD
    ratio: float = RATIO_THRESHOLD
    """For the ratios of A/B runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChange:
    """The time of one case in two runs, or its ratio in two A/B runs."""

    case: Case
    before: MeasuredTime
    after: MeasuredTime
    interval: Interval
    """The 95 % interval of the ratio, from the samples of both runs."""

    verdict: Verdict
    is_of_ratios: bool = False
    """Whether `before` and `after` are ratios (B's time over A's) instead of seconds."""

    @property
    def ratio(self) -> float:
        """The median after over the median before; above 1 is slower."""
        return self.after.median / self.before.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """A case that cannot be compared."""

    case: Case
    metric: Metric
    why: str
    """Such as "only in the first run"."""

    reason: str = ""
    """The reason of the failure or skip."""

    has_broken: bool = False
    """Whether it failed in the second run and had not failed in the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences(Compared):
    """The comparison of two runs, in the order of the second run."""

    times: tuple[TimeChange, ...]
    counts: tuple[CountChange, ...]
    unmatched: tuple[Unmatched, ...]
    thresholds: Thresholds

    @property
    def has_broken(self) -> bool:
        """Whether a case failed in the second run that had not failed in the first."""
        return any(each.has_broken for each in self.unmatched)


def compare_runs(first: Run, second: Run, thresholds: Thresholds | None = None) -> RunDifferences:
    """Compare the second run with the first."""
    limits = thresholds if thresholds is not None else Thresholds()
    before, after = map(_compared_results, (first, second))
    found = [
        _compare(before.get(key), after.get(key), limits)
        for key in ordered_unique([*after, *before])
    ]
    return RunDifferences(
        times=tuple(each for each in found if isinstance(each, TimeChange)),
        counts=tuple(each for each in found if isinstance(each, CountChange)),
        unmatched=tuple(each for each in found if isinstance(each, Unmatched)),
        thresholds=limits,
    )


def _compared_results(run: Run) -> dict[ResultKey, Result]:
    """The results of a run without controls, which only concern their own run."""
    return {each.key: each for each in run.results if each.metric is not Metric.CONTROL}


def judge_count(before: Fraction, after: Fraction, threshold: float) -> Verdict:
    if before == after:
        return Verdict.SAME
    if abs(relative_change(before, after)) <= threshold:
        return Verdict.CLOSE
    return Verdict.MORE if after > before else Verdict.FEWER


def _compare(
    before: Result | None, after: Result | None, limits: Thresholds
) -> TimeChange | CountChange | Unmatched | None:
    """None if neither was measured, and for profiles, which have no figures."""
    if before is None or after is None or {before.status, after.status} != {Status.DONE}:
        return _explain_gap(before, after)
    if after.metric is Metric.PROFILE:
        return None
    change: TimeChange | CountChange | Unmatched | None
    if after.metric is Metric.INSTRUCTIONS:
        change = _compare_counts(before, after, limits)
    else:
        change = _compare_times(before, after, limits)
    if change is None:
        why = "was measured differently in the two runs"
        return Unmatched(case=after.case, metric=after.metric, why=why)
    return change


def _compare_times(
    before: Result, after: Result, limits: Thresholds
) -> TimeChange | Unmatched | None:
    is_of_ratios = isinstance(before.payload, PairedTiming)
    if is_of_ratios is not isinstance(after.payload, PairedTiming):
        return None
    old, new = (_ratio_of(each) if is_of_ratios else time_of(each) for each in (before, after))
    if old is None or new is None:
        return None
    if not (old.median and new.median):
        return Unmatched(case=after.case, metric=after.metric, why="has a time of 0 s")
    interval = ratio_interval(old, new)
    # The interval of few samples is not reliable.
    has_enough = min(old.samples, new.samples) >= (
        FEWEST_REPLICATES if is_of_ratios else FEWEST_ROUNDS
    )
    threshold = limits.ratio if is_of_ratios else limits.time
    return TimeChange(
        case=after.case,
        before=old,
        after=new,
        interval=interval,
        verdict=judge_time(interval, threshold) if has_enough else Verdict.UNCLEAR,
        is_of_ratios=is_of_ratios,
    )


def _ratio_of(result: Result) -> MeasuredTime | None:
    """B's time over A's, in the same form as a time."""
    times = result.payload
    if not isinstance(times, PairedTiming) or not can_be_judged(times):
        return None
    effect = judge_alone(times)
    return MeasuredTime(
        median=effect.ratio, interval=effect.interval_95, samples=len(times.replicates)
    )


def _compare_counts(before: Result, after: Result, limits: Thresholds) -> CountChange | None:
    old, new = before.payload, after.payload
    if isinstance(old, Counts) and isinstance(new, Counts):
        # If one run did not count the loop, both counts include it.
        with_loop = not (counted_its_loop(old) and counted_its_loop(new))
        few, many = (instructions_of(each, with_loop=with_loop) for each in (old, new))
        verdict = judge_count(few, many, limits.count)
    elif _has_both(old) and _has_both(new):
        first, second = judge_counts(before), judge_counts(after)
        few, many = first.after, second.after
        verdict = judge_count(few, many, limits.count)
        if verdict.is_change and abs(many - few) <= max(first.spread, second.spread):
            verdict = Verdict.CLOSE
    else:
        return None
    return CountChange(case=after.case, before=few, after=many, verdict=verdict)


def _has_both(payload: Payload | None) -> bool:
    return isinstance(payload, PairedCounts) and bool(payload.a and payload.b)


def _explain_gap(before: Result | None, after: Result | None) -> Unmatched | None:
    """Why there are not two results to compare; None if neither is done or failed."""
    runs = {"first": before, "second": after}
    present = {name: each for name, each in runs.items() if each is not None}
    found = {name: each.status for name, each in present.items()}
    failed = [name for name, status in found.items() if status is Status.FAILED]
    if failed:
        why = f"failed in {'both runs' if len(failed) == 2 else f'the {failed[0]} run'}"
    elif Status.DONE not in found.values():
        return None
    elif Status.SKIPPED in found.values():
        why = f"skipped in the {'first' if found['first'] is Status.SKIPPED else 'second'} run"
    else:
        why = f"only in the {next(iter(found))} run"
    latest_first = list(reversed(present.values()))
    return Unmatched(
        case=latest_first[0].case,
        metric=latest_first[0].metric,
        why=why,
        reason=next((each.reason for each in latest_first if each.reason), ""),
        has_broken=failed == ["second"],
    )
