"""Two runs, case by case: what became slower or faster, and what takes more or fewer instructions.

Cases are matched by their ids, so only what is the same text is compared.

*Times* of two runs were not taken together, and no interval knows what the machine did between
them. The ratio of the medians has an interval that combines those of both on the logarithmic scale,
and a verdict needs that interval to lie beyond a threshold. An A/B run finds smaller changes and
can be believed more.

*Ratios* of two A/B runs are compared like times: B's time over A's, then and now. Each ratio was
taken within one run, so what the machine did between the runs is not in it.

*Counts* do not depend on how busy the machine is: they are the same or they are not. Of two A/B
runs those of B are compared.
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
"""The least change of a time that is called one, as a share. Ten runs of the same ten statements on
a busy machine, all 450 pairs: with 1 % a quarter was called a change, with 3 % an eighth, with 5 %
one in sixteen, nearly all of them memory-bound or with a backward pass."""

COUNT_THRESHOLD = 0.0
"""The largest change of a count that is still called close, as a share."""

RATIO_THRESHOLD = SAME_WITHIN
"""The least change of an A/B run's ratio that is called one, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is too small to be called a change, as shares: 0.01 is one per cent."""

    time: float = TIME_THRESHOLD
    count: float = COUNT_THRESHOLD
    ratio: float = RATIO_THRESHOLD
    """Of ratios that A/B runs found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChange:
    """The time of one case in two runs, or its ratio in two A/B runs."""

    case: Case
    before: MeasuredTime
    after: MeasuredTime
    interval: Interval
    """Where the ratio lies with 95 % confidence, as far as the samples of the two runs know."""

    verdict: Verdict
    is_of_ratios: bool = False
    """Whether `before` and `after` are B's time over A's and not seconds."""

    @property
    def ratio(self) -> float:
        """The median of the second over that of the first; above 1 is slower."""
        return self.after.median / self.before.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """A case without a pair of results to compare."""

    case: Case
    metric: Metric
    why: str
    """Such as "only in the first run"."""

    reason: str = ""
    """What the failure or the skip says of itself."""

    has_broken: bool = False
    """Whether it failed in the second run and had not failed in the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences(Compared):
    """All that differs, and all that does not, in the order of the second run."""

    times: tuple[TimeChange, ...]
    counts: tuple[CountChange, ...]
    unmatched: tuple[Unmatched, ...]
    thresholds: Thresholds

    @property
    def has_broken(self) -> bool:
        """Whether a case failed in the second run that had not failed in the first."""
        return any(each.has_broken for each in self.unmatched)


def compare_runs(first: Run, second: Run, thresholds: Thresholds | None = None) -> RunDifferences:
    """Compare the results of two runs; the first is what the second is compared with."""
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
    """All but controls, which say something of their run alone."""
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
    """None where neither ran, and for profiles, which have no figures."""
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
        why = "was not measured alike in both runs"
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
        return Unmatched(case=after.case, metric=after.metric, why="took no time on the clock")
    interval = ratio_interval(old, new)
    # Few samples have no interval that could be believed.
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
    """B's time over A's, as if it were a time."""
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
        # Where one run did not count the loop, both are compared with it.
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
    """Why there are no two results to compare; None where neither was done nor failed."""
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
