"""What the tables and charts of a sweep say in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.sweep import EAGER, RowStatus, config_of, measured
from torchmark.model.run_settings import dims_text
from torchmark.model.units import ordered_unique
from torchmark.report.figures import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.analyse.sweep import Subject, SweepRow

_MOST_NAMES = 3
"""Configs or points that are named with a reason; more are counted."""


def fixed_text(rows: Iterable[SweepRow], varying: Sequence[str]) -> str:
    """The dimensions that have one size in the whole sweep."""
    sizes = {name: size for row in rows for name, size in row.dims if name not in varying}
    return dims_text(tuple(sizes.items()))


def subject_text(subject: Subject) -> str:
    """
    >>> from torchmark.analyse.sweep import Subject
    >>> subject_text(Subject("Linear", 1)), subject_text(Subject("Linear", 4))
    ('Linear, 1 thread', 'Linear, 4 threads')
    """
    return f"{subject.model}, {subject.threads} thread{'' if subject.threads == 1 else 's'}"


def summary_of(rows: Sequence[SweepRow], missing: int) -> str:
    """How many cases there are, and what came of them."""
    counts = [(sum(row.status is status for row in rows), status.value) for status in RowStatus]
    told = [f"{count:,} {word}" for count, word in [*counts, (missing, "not measured")] if count]
    total = len(rows) + missing
    return f"{total:,} case{'' if total == 1 else 's'}: {', '.join(told)}." if told else "No cases."


def reason_texts(rows: Iterable[SweepRow], status: RowStatus) -> tuple[str, ...]:
    """A line for each reason: which cases, and why; of measured rows, why they are doubtful."""
    found: dict[str, list[SweepRow]] = {}
    for row in rows:
        if row.status is status and (row.reason or status is not RowStatus.MEASURED):
            found.setdefault(first_line(row.reason) or "no reason was given", []).append(row)
    return tuple(f"{_cases_text(members)}: {reason}" for reason, members in found.items())


def _cases_text(rows: Sequence[SweepRow]) -> str:
    configs = ordered_unique(str(config_of(row)) for row in rows)
    phases = ordered_unique(row.phase.value for row in rows)
    named = _names_text(configs)
    if len(rows) == 1:
        return " ".join(part for part in (named, phases[0], dims_text(rows[0].dims)) if part)
    return f"{len(rows)} cases ({named}; {_names_text(phases)})"


def _names_text(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def error_texts(rows: Iterable[SweepRow]) -> list[str]:
    """The largest difference from eager's result for each config that was compared."""
    worst: dict[str, float] = {}
    for row in measured(rows):
        if row.max_error is not None and row.backend != EAGER:
            name = str(config_of(row))
            worst[name] = max(row.max_error, worst.get(name, 0.0))
    return [f"{name} {error:.2g}" for name, error in worst.items()]
