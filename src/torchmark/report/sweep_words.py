"""What a sweep's table in a terminal and its page say in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.sweep import EAGER, config_of, measured
from torchmark.model.sweep_record import RowStatus
from torchmark.model.units import ordered_unique
from torchmark.report.figures import first_line, seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.analyse.sweep import Subject
    from torchmark.model.sweep_record import Dims, SweepRow

_MOST_NAMES = 3
"""Configs or points that are named with a reason; more are counted."""


def dims_text(dims: Dims, names: Sequence[str] | None = None) -> str:
    """
    >>> dims = (("batch", 8), ("width", 64))
    >>> dims_text(dims), dims_text(dims, ["width"])
    ('batch=8 width=64', 'width=64')
    """
    return " ".join(f"{name}={size}" for name, size in dims if names is None or name in names)


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


def short_seconds(seconds: float) -> str:
    """Three figures, which is what a table of many has room for.

    >>> short_seconds(1.2345e-6), short_seconds(0.0123456), short_seconds(0.0)
    ('1.23 us', '12.3 ms', '0 ns')
    """
    number, unit = seconds_text(float(f"{seconds:.3g}")).split()
    return f"{f'{float(number):#.3g}'.rstrip('.') if seconds else '0'} {unit}"


def times_text(ratio: float) -> str:
    """
    >>> times_text(0.0123), times_text(1.237), times_text(45.67), times_text(1234.5)
    ('0.012×', '1.24×', '45.7×', '1234×')
    """
    decimals = 3 if ratio < 0.1 else 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:.{decimals}f}×"


def summary(rows: Sequence[SweepRow]) -> str:
    """How many cases there are, and what came of them."""
    counts = [(sum(row.status is status for row in rows), status.value) for status in RowStatus]
    told = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    return f"{len(rows):,} case{'' if len(rows) == 1 else 's'}: {told}" if rows else "no cases"


def reason_texts(rows: Iterable[SweepRow], status: RowStatus) -> list[str]:
    """One text for each reason: whom it holds for, and what it is; of measured rows, doubts."""
    found: dict[str, list[SweepRow]] = {}
    for row in rows:
        if row.status is status and (row.reason or status is not RowStatus.MEASURED):
            found.setdefault(first_line(row.reason) or "no reason was given", []).append(row)
    return [f"{_whom(members)}: {reason}" for reason, members in found.items()]


def _whom(rows: Sequence[SweepRow]) -> str:
    configs = ordered_unique(str(config_of(row)) for row in rows)
    phases = ordered_unique(row.phase.value for row in rows)
    named = _named(configs)
    if len(rows) == 1:
        return " ".join(part for part in (named, phases[0], dims_text(rows[0].dims)) if part)
    return f"{len(rows)} cases ({named}; {_named(phases)})"


def _named(names: Sequence[str]) -> str:
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


def case_hint(row: SweepRow) -> str:
    """A measured case in full, as one reads it beside its mark."""
    time, low, high = (
        seconds_text(seconds if seconds is not None else row.median_s or 0.0)
        for seconds in (row.median_s, row.low_s, row.high_s)
    )
    return (
        f"{config_of(row)}, {row.phase.value}, {dims_text(row.dims) or 'no dimensions'}: "
        f"{time}, 95 % {low} to {high}"
    )
