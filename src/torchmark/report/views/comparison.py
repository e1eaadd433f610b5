"""Two runs compared: what changed, case by case."""

from __future__ import annotations

import math
from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from torchmark.model.run import Environment
from torchmark.report.figures import (
    environment_facts,
    first_line,
    ratio_text,
    seconds_text,
)
from torchmark.report.view import Cell, Column, ColumnKind, Mark, Row, Section, Table, View
from torchmark.report.views.common import (
    data_table,
    fact_table,
    group_of,
    name_in_group,
    short_names,
    title_of,
    verdict_cell,
)
from torchmark.report.views.dots import chart_ratios, ratio_dot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchmark.analyse.estimates import MeasuredTime
    from torchmark.analyse.run_differences import (
        CountChange,
        RunDifferences,
        TimeChange,
        Unmatched,
    )
    from torchmark.model.run import Run
    from torchmark.report.view import Value

_NOT_COMPARED = {"machine.load"}
"""Facts of the environment that differ between any two runs."""


def make_view(first: Run, second: Run, differences: RunDifferences) -> View:
    """The first run is what the second is compared with."""
    changes = [
        f"{name}: {first_line(old or 'none')} → {first_line(new or 'none')}"
        for name, (old, new) in environment_changes(first, second).items()
    ]
    return View(
        title="Two runs compared",
        lead=(f"before: {_heading(first)}", f"after: {_heading(second)}", *changes),
        summary=_summary(differences),
        sections=(
            *_times(differences, is_of_ratios=False),
            *_times(differences, is_of_ratios=True),
            *_counts(differences),
            *_unmatched(differences),
        ),
        environments=fact_table([*_named("before", first), *_named("after", second)]),
        settings=tuple(
            (f"threshold of {name}", f"{share * 100:g} %")
            for name, share in thresholds_of(differences).items()
        ),
        data=_data(differences),
    )


def heading_of(first: Run, second: Run, differences: RunDifferences) -> dict[str, Any]:
    """What JSON says of a comparison beside its table."""
    return {
        "torchmark": "run comparison",
        "version": 2,
        "before": first.id,
        "after": second.id,
        "thresholds": thresholds_of(differences),
        "environment": environment_changes(first, second),
    }


def thresholds_of(differences: RunDifferences) -> dict[str, float]:
    limits = differences.thresholds
    return {"time": limits.time, "count": limits.count, "ratio": limits.ratio}


def environment_changes(first: Run, second: Run) -> dict[str, tuple[str | None, str | None]]:
    """The facts of the environments that are not the same, by name: before and after."""
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


def _heading(run: Run) -> str:
    return f"{title_of(run)}, {run.state.value}, started {run.started}"


def _named(when: str, run: Run) -> Iterator[Environment]:
    for each in run.environments:
        yield Environment(name=f"{when} {each.name}".strip(), facts=each.facts)


def _times(differences: RunDifferences, *, is_of_ratios: bool) -> tuple[Section, ...]:
    changes = [each for each in differences.times if each.is_of_ratios is is_of_ratios]
    if not changes:
        return ()
    limits = differences.thresholds
    limit = limits.ratio if is_of_ratios else limits.time
    kind = ColumnKind.RATIO if is_of_ratios else ColumnKind.SECONDS
    name, title = ("ratios", "Times of B over those of A") if is_of_ratios else ("times", "Times")
    columns = (
        Column(name="case"),
        Column(name="before", kind=kind),
        Column(name="after", kind=kind),
        Column(name="change", kind=ColumnKind.CHANGE, hint="With its 95 % interval"),
        Column(name="verdict", kind=ColumnKind.VERDICT),
    )
    rows = [_row(each, _time_cells(each)) for each in changes]
    names = short_names([each.case for each in changes])
    dots = [
        ratio_dot(name, each.ratio, each.interval, each.verdict, _medians(each, kind))
        for each, name in zip(changes, names, strict=True)
    ]
    chart = chart_ratios(
        dots,
        title="After over before",
        axis="change",
        same_within=limit,
        chart_id=f"changes-of-{name}",
    )
    return (Section(id=name, title=title, charts=(chart,), table=_table(columns, rows)),)


def _medians(change: TimeChange, kind: ColumnKind) -> dict[str, Value]:
    shown = seconds_text if kind is ColumnKind.SECONDS else ratio_text
    sides = {"before": change.before, "after": change.after}
    return {name: f"{shown(time.median)}, {time.samples} samples" for name, time in sides.items()}


def _time_cells(change: TimeChange) -> tuple[Cell, ...]:
    low, high = change.interval
    return (
        _measured(change.before),
        _measured(change.after),
        Cell(value=change.ratio - 1, text=_change_text(change), interval=(low - 1, high - 1)),
    )


def _change_text(change: TimeChange) -> str:
    """The change and the longer side of its interval, both of the first run's time."""
    reach = max(change.interval.high - change.ratio, change.ratio - change.interval.low)
    reach_text = f"{reach * 100:.1f}" if math.isfinite(reach) else "∞"
    return f"{(change.ratio - 1) * 100:+.1f} ± {reach_text} %"


def _measured(time: MeasuredTime) -> Cell:
    mark = Mark.DOUBTFUL if time.warnings else Mark.PLAIN
    return Cell(value=time.median, mark=mark, hint="; ".join(map(str, time.warnings)))


def _counts(differences: RunDifferences) -> tuple[Section, ...]:
    if not differences.counts:
        return ()
    columns = (
        Column(name="case"),
        Column(name="before", kind=ColumnKind.INSTRUCTIONS, is_wide_only=True),
        Column(name="instructions", kind=ColumnKind.INSTRUCTIONS, hint="Of one run, after"),
        Column(name="difference", kind=ColumnKind.INSTRUCTIONS),
        Column(name="change", kind=ColumnKind.CHANGE),
        Column(name="verdict", kind=ColumnKind.VERDICT),
    )
    rows = [_row(each, _count_cells(each)) for each in differences.counts]
    return (Section(id="instructions", title="Instructions", table=_table(columns, rows)),)


def _count_cells(change: CountChange) -> tuple[Cell, ...]:
    difference = float(change.difference)
    return (
        Cell(value=float(change.before)),
        Cell(value=float(change.after)),
        Cell(value=difference, text=f"{difference:+,.2f}" if difference else "0"),
        Cell(value=change.share, text=f"{change.share * 100:+.3f} %" if difference else ""),
    )


def _row(change: TimeChange | CountChange, cells: Sequence[Cell]) -> Row:
    return Row(
        cells=(
            Cell(value=name_in_group(change.case)), *cells, verdict_cell(change.verdict)
        ),
        group=group_of(change.case),
        is_quiet=not change.verdict.is_change,
    )  # fmt: skip


def _table(columns: tuple[Column, ...], rows: Sequence[Row]) -> Table:
    quiet = sum(row.is_quiet for row in rows)
    return Table(
        columns=columns, rows=tuple(rows), quiet_text=f"{quiet} more cases without a clear change"
    )


def _unmatched(differences: RunDifferences) -> tuple[Section, ...]:
    if not differences.unmatched:
        return ()
    lines = []
    for each in differences.unmatched:
        reason = f": {first_line(each.reason)}" if each.reason else ""
        lines.append(f"{each.case.title} ({each.metric.value}) {each.why}{reason}")
    return (Section(id="unmatched", title="Not compared", listing=tuple(lines)),)


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
        *map(_time_values, differences.times),
        *map(_count_values, differences.counts),
        *map(_unmatched_values, differences.unmatched),
    ]
    return data_table(_DATA, found)


def _names(change: TimeChange | CountChange | Unmatched) -> dict[str, Value]:
    return {"case": change.case.id, "title": change.case.title}


def _time_values(change: TimeChange) -> dict[str, Value]:
    before, after = change.before, change.after
    warnings = dict.fromkeys(each.kind.value for each in (*before.warnings, *after.warnings))
    return {
        **_names(change),
        "metric": "ratio" if change.is_of_ratios else "time",
        "verdict": change.verdict.value,
        "before": before.median,
        "before_low": before.interval.low,
        "before_high": before.interval.high,
        "before_samples": before.samples,
        "after": after.median,
        "after_low": after.interval.low,
        "after_high": after.interval.high,
        "after_samples": after.samples,
        "ratio": change.ratio,
        "ratio_low": change.interval.low,
        "ratio_high": change.interval.high,
        "warnings": "; ".join(warnings),
    }


def _count_values(change: CountChange) -> dict[str, Value]:
    return {
        **_names(change),
        "metric": "instructions",
        "verdict": change.verdict.value,
        "before": float(change.before),
        "after": float(change.after),
        "difference": float(change.difference),
        "share": change.share,
    }


def _unmatched_values(each: Unmatched) -> dict[str, Value]:
    return {
        **_names(each),
        "metric": each.metric.value,
        "verdict": each.why,
        "reason": each.reason,
    }
