"""Two runs compared, for people: what changed, case by case, in plain text and as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

from torchmark.report.columns import lined_up
from torchmark.report.figures import (
    environment_facts,
    first_line,
    heading,
    printable,
    seconds_text,
)
from torchmark.report.run_json import time_figures
from torchmark.report.run_table import group_of, name_in_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    from torchmark.analyse.run_differences import (
        CountChange,
        Incomparable,
        RunDifferences,
        TimeChange,
    )
    from torchmark.model.run import Run

    Change = TypeVar("Change", TimeChange, CountChange, Incomparable)

VERSION = 1

_NOT_COMPARED = {"machine.load"}
"""Facts of the environment that differ between any two runs."""


def render(first: Run, second: Run, differences: RunDifferences, *, width: int = 80) -> str:
    """The text, without escapes, in lines of at most `width` where words allow."""
    parts = [
        _wrapped([f"before: {heading(first)}", f"after: {heading(second)}"], width),
        _wrapped(_environment(first, second), width),
        _times(differences, width),
        _counts(differences, width),
        _incomparable(differences, width),
        _wrapped([_summary(differences)], width),
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def environment_changes(first: Run, second: Run) -> dict[str, tuple[str | None, str | None]]:
    """The facts of the environment that are not the same, by name: before and after."""
    before, after = (dict(environment_facts(run.environment)) for run in (first, second))
    names = [name for name in {**before, **after} if name not in _NOT_COMPARED]
    return {
        name: (before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    }


def _environment(first: Run, second: Run) -> list[str]:
    changes = environment_changes(first, second)
    return [
        f"{name}: {first_line(old or 'none')} → {first_line(new or 'none')}"
        for name, (old, new) in changes.items()
    ]


def _times(differences: RunDifferences, width: int) -> list[str]:
    if not differences.times:
        return []
    sections = _sections(differences.times, _time_cells)
    return lined_up(["before", "after", "change", ""], sections, width)


def _time_cells(change: TimeChange) -> list[str]:
    mark = " (!)" if change.is_doubtful else ""
    return [
        seconds_text(change.before.median),
        seconds_text(change.after.median),
        _percent_text(change),
        f"{change.verdict.value}{mark}",
    ]


def _percent_text(change: TimeChange) -> str:
    """The change and the longer side of its interval, both of the first run's time."""
    reach = max(change.interval.high - change.ratio, change.ratio - change.interval.low)
    reach_text = f"{reach * 100:.1f}" if math.isfinite(reach) else "∞"
    return f"{(change.ratio - 1) * 100:+.1f} ± {reach_text} %"


def _counts(differences: RunDifferences, width: int) -> list[str]:
    if not differences.counts:
        return []
    sections = _sections(differences.counts, _count_cells)
    return lined_up(["instructions", "difference", "", ""], sections, width)


def _count_cells(change: CountChange) -> list[str]:
    difference = float(change.difference)
    return [
        f"{float(change.after):,.1f}",
        f"{difference:+,.2f}" if difference else "0",
        f"{change.share * 100:+.3f} %" if difference and math.isfinite(change.share) else "",
        change.verdict.value,
    ]


def _incomparable(differences: RunDifferences, width: int) -> list[str]:
    lines = []
    for each in differences.incomparable:
        reason = f": {first_line(each.reason)}" if each.reason else ""
        lines.append(f"{each.case.title} ({each.kind.value}) {each.gap.value}{reason}")
    return _wrapped(lines, width)


def _summary(differences: RunDifferences) -> str:
    limits = differences.thresholds
    parts = []
    if differences.times:
        counted = _counted(change.verdict.value for change in differences.times)
        parts.append(f"Times: {counted} (changes up to {limits.time * 100:g} % are not called one)")
    if differences.counts:
        counted = _counted(change.verdict.value for change in differences.counts)
        parts.append(f"instructions: {counted}")
    if differences.incomparable:
        parts.append(f"{len(differences.incomparable)} without a pair")
    return "; ".join(parts) + "." if parts else "The runs have no results to compare."


def _counted(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())


def _sections(
    changes: Sequence[Change], cells: Callable[[Change], Sequence[str]]
) -> list[tuple[str, list[tuple[str, Sequence[str]]]]]:
    """Changes under the first of their labels, in the order given."""
    groups: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for change in changes:
        row = (name_in_group(change.case), cells(change))
        groups.setdefault(group_of(change.case), []).append(row)
    return list(groups.items())


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return lines


def render_json(first: Run, second: Run, differences: RunDifferences) -> str:
    """JSON text; times in seconds, shares as numbers, an interval without an end has null."""
    limits = differences.thresholds
    record = {
        "torchmark": "run comparison",
        "version": VERSION,
        "before": first.id,
        "after": second.id,
        "thresholds": {"time": limits.time, "count": limits.count},
        "environment": {
            name: list(values) for name, values in environment_changes(first, second).items()
        },
        "times": [_time_record(change) for change in differences.times],
        "counts": [_count_record(change) for change in differences.counts],
        "incomparable": [
            {**_names(each), "kind": each.kind.value, "why": each.gap.value, "reason": each.reason}
            for each in differences.incomparable
        ],
    }
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def _time_record(change: TimeChange) -> dict[str, Any]:
    return {
        **_names(change),
        "before": time_figures(change.before),
        "after": time_figures(change.after),
        "ratio": change.ratio,
        "interval": [_finite(end) for end in change.interval],
        "verdict": change.verdict.value,
    }


def _count_record(change: CountChange) -> dict[str, Any]:
    return {
        **_names(change),
        "before": float(change.before),
        "after": float(change.after),
        "difference": float(change.difference),
        "share": _finite(change.share),
        "verdict": change.verdict.value,
    }


def _names(change: TimeChange | CountChange | Incomparable) -> dict[str, Any]:
    return {"case": change.case.id, "title": change.case.title}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
