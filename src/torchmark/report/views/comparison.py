"""The view of `torchmark compare`: the changes between two runs, case by case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any, TypeVar

from torchmark.analyse.estimates import CountChange, MeasuredTime
from torchmark.analyse.run_differences import RunDifferences, TimeChange, Unmatched
from torchmark.analyse.score import ratios_between_runs
from torchmark.model.run import Environment, Run
from torchmark.model.units import first_line
from torchmark.report.figures import environment_facts, ratio_text, seconds_text
from torchmark.report.names import group_of, name_in_group, short_names
from torchmark.report.view import (
    Cell,
    Field,
    Kind,
    Row,
    Section,
    Table,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.charts import chart_ratios, ratio_dot
from torchmark.report.views.common import (
    fact_table,
    interval_values,
    run_line,
    verdict_cell,
    warning_mark,
)
from torchmark.report.views.score import score_section

Change = TypeVar("Change", TimeChange, CountChange)

_NOT_COMPARED = {"machine.load"}
"""Facts of the environment that differ between any two runs."""


_SCORE_FOOTNOTE = (
    "ratio: geometric mean. The interval does not include what differs from run to run, such as "
    "the state of the machine."
)


def make_view(first: Run, second: Run, differences: RunDifferences) -> View:
    """The view of a comparison of the second run with the first."""
    changes = [
        f"{name}: {first_line(old or 'none')} → {first_line(new or 'none')}"
        for name, (old, new) in environment_changes(first, second).items()
    ]
    return View(
        title="Comparison of two runs",
        lead=(f"before: {run_line(first)}", f"after: {run_line(second)}", *changes),
        summary=_summary(differences),
        sections=(
            *_times(differences, is_of_ratios=False),
            *_times(differences, is_of_ratios=True),
            *_counts(differences),
            score_section(
                ratios_between_runs(differences),
                "Score of the times",
                "score",
                footnotes=(_SCORE_FOOTNOTE,),
            ),
            _unmatched(differences),
        ),
        environments=fact_table([*_named("before", first), *_named("after", second)]),
        settings=tuple(
            (f"threshold of {name}", f"{share * 100:g} %")
            for name, share in asdict(differences.thresholds).items()
        ),
        data=_data(differences),
    )


def heading_of(first: Run, second: Run, differences: RunDifferences) -> dict[str, Any]:
    """The fields of a comparison in JSON, in addition to its table."""
    return {
        "torchmark": "run comparison",
        "version": 2,
        "before": first.id,
        "after": second.id,
        "thresholds": asdict(differences.thresholds),
        "environment": environment_changes(first, second),
    }


def environment_changes(first: Run, second: Run) -> dict[str, tuple[str | None, str | None]]:
    """Facts of the environments that differ, by name: before and after."""
    changes: dict[str, tuple[str | None, str | None]] = {}
    pairs = zip_longest(first.environments, second.environments, fillvalue=Environment())
    for before, after in pairs:
        old, new = dict(environment_facts(before.facts)), dict(environment_facts(after.facts))
        prefix = f"{after.name or before.name}: " if after.name or before.name else ""
        changes |= {
            f"{prefix}{name}": (old.get(name), new.get(name))
            for name in {**old, **new}
            if name not in _NOT_COMPARED and old.get(name) != new.get(name)
        }
    return changes


def _named(when: str, run: Run) -> Iterator[Environment]:
    for each in run.environments:
        yield Environment(name=f"{when} {each.name}".strip(), facts=each.facts)


def _times(differences: RunDifferences, *, is_of_ratios: bool) -> list[Section]:
    changes = [each for each in differences.times if each.is_of_ratios is is_of_ratios]
    if not changes:
        return []
    limits = differences.thresholds
    limit = limits.ratio if is_of_ratios else limits.time
    kind, text_of = (Kind.RATIO, ratio_text) if is_of_ratios else (Kind.SECONDS, seconds_text)
    name, title = ("ratios", "Ratios (B's time over A's)") if is_of_ratios else ("times", "Times")
    fields: list[Field[TimeChange]] = [
        field("case", lambda each: name_in_group(each.case)),
        field("before", lambda each: _median_cell(each.before), kind),
        field("after", lambda each: _median_cell(each.after), kind),
        field("change", _change_cell, Kind.CHANGE, "With its 95 % interval"),
        field("verdict", lambda each: verdict_cell(each.verdict), Kind.VERDICT),
    ]
    dots = []
    for each, case_name in zip(changes, short_names([each.case for each in changes]), strict=True):
        sides = {"before": each.before, "after": each.after}
        told: dict[str, Value] = {
            side: f"{text_of(time.median)}, {time.samples} samples" for side, time in sides.items()
        }
        dots.append(ratio_dot(case_name, each.ratio, each.interval, each.verdict, told))
    chart = chart_ratios(
        dots,
        title="After divided by before",
        axis="change",
        same_within=limit,
        chart_id=f"changes-of-{name}",
    )
    return [Section(name, title, chart=chart, table=_table(changes, fields))]


def _change_cell(change: TimeChange) -> Cell:
    """The change and the longer side of its interval, in per cent of the first run's time."""
    low, high = change.interval
    reach = max(high - change.ratio, change.ratio - low)
    reach_text = f"{reach * 100:.1f}" if math.isfinite(reach) else "∞"
    text = f"{(change.ratio - 1) * 100:+.1f} ± {reach_text} %"
    return Cell(change.ratio - 1, text, (low - 1, high - 1))


def _median_cell(time: MeasuredTime) -> Cell:
    hint = "; ".join(map(str, time.warnings))
    return Cell(time.median, mark=warning_mark(time), hint=hint)


def _counts(differences: RunDifferences) -> list[Section]:
    if not differences.counts:
        return []
    kind = Kind.INSTRUCTIONS
    fields: list[Field[CountChange]] = [
        field("case", lambda each: name_in_group(each.case)),
        field("before", lambda each: float(each.before), kind, is_wide_only=True),
        field("instructions", lambda each: float(each.after), kind, "Of one run, after"),
        field("difference", _difference_cell, kind),
        field(
            "change",
            lambda each: Cell(each.share, f"{each.share * 100:+.3f} %" if each.difference else ""),
            Kind.CHANGE,
        ),
        field("verdict", lambda each: verdict_cell(each.verdict), Kind.VERDICT),
    ]
    return [Section("instructions", "Instructions", table=_table(differences.counts, fields))]


def _difference_cell(change: CountChange) -> Cell:
    difference = float(change.difference)
    return Cell(difference, f"{difference:+,.2f}" if difference else "0")


def _table(changes: Sequence[Change], fields: Sequence[Field[Change]]) -> Table:
    quiet = sum(not each.verdict.is_change for each in changes)
    return make_table(
        changes,
        fields,
        lambda each: Row(group=group_of(each.case), is_quiet=not each.verdict.is_change),
        quiet_text=f"{quiet} more cases without a clear change",
    )


def _unmatched(differences: RunDifferences) -> Section:
    lines = [
        f"{each.case.title} ({each.metric.value}) {each.why}"
        f"{f': {first_line(each.reason)}' if each.reason else ''}"
        for each in differences.unmatched
    ]
    return Section("unmatched", "Not compared", listing=tuple(lines))


def _summary(differences: RunDifferences) -> str:
    limits = differences.thresholds
    times = [each for each in differences.times if not each.is_of_ratios]
    ratios = [each for each in differences.times if each.is_of_ratios]
    parts = []
    for name, changes, limit in (("times", times, limits.time), ("ratios", ratios, limits.ratio)):
        if changes:
            verdicts = _count(each.verdict.value for each in changes)
            parts.append(f"{name}: {verdicts} (changes up to {limit * 100:g} % are ignored)")
    if differences.counts:
        parts.append(f"instructions: {_count(each.verdict.value for each in differences.counts)}")
    if differences.unmatched:
        parts.append(f"{len(differences.unmatched)} not compared")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else "The runs have no results to compare."


def _count(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())


_DATA = (
    "case", "title", "metric", "verdict", "before", "before_low", "before_high", "before_samples",
    "after", "after_low", "after_high", "after_samples", "ratio", "ratio_low", "ratio_high",
    "difference", "share", "warnings", "reason",
)  # fmt: skip


def _data(differences: RunDifferences) -> Table:
    """A row for each case and metric; times in seconds, instructions of one run."""
    found = [
        *((each.case, _time_values(each)) for each in differences.times),
        *((each.case, _count_values(each)) for each in differences.counts),
        *((each.case, _unmatched_values(each)) for each in differences.unmatched),
    ]
    rows = ({"case": case.id, "title": case.title, **values} for case, values in found)
    return data_table(_DATA, rows)


def _time_values(change: TimeChange) -> dict[str, Value]:
    before, after = change.before, change.after
    warnings = dict.fromkeys(each.kind.value for each in (*before.warnings, *after.warnings))
    return {
        "metric": "ratio" if change.is_of_ratios else "time",
        "verdict": change.verdict.value,
        **interval_values("before", before.median, before.interval),
        "before_samples": before.samples,
        **interval_values("after", after.median, after.interval),
        "after_samples": after.samples,
        **interval_values("ratio", change.ratio, change.interval),
        "warnings": "; ".join(warnings),
    }


def _count_values(change: CountChange) -> dict[str, Value]:
    return {
        "metric": "instructions",
        "verdict": change.verdict.value,
        "before": float(change.before),
        "after": float(change.after),
        "difference": float(change.difference),
        "share": change.share,
    }


def _unmatched_values(each: Unmatched) -> dict[str, Value]:
    return {"metric": each.metric.value, "verdict": each.why, "reason": first_line(each.reason)}
