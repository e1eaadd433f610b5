"""A sweep for a terminal or a pipe: a line for each point, a column for each backend."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING

from torchmark.analyse.sweep import (
    EAGER,
    backends_in,
    dtypes_in,
    eager_of,
    phases_in,
    ratio_to,
    subject_of,
    subjects_in,
    varying_dims,
)
from torchmark.model.sweep_record import RowStatus
from torchmark.report.columns import lined_up
from torchmark.report.figures import printable
from torchmark.report.sweep_words import (
    dims_text,
    error_texts,
    fixed_text,
    reason_texts,
    short_seconds,
    subject_text,
    summary,
    times_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.analyse.sweep import Subject
    from torchmark.model.sweep_record import Dims, Phase, SweepRow
    from torchmark.report.columns import Section

_MISSING = "–"
_MOST_POINTS = 60
"""Of a section that are shown; the CSV has all, and the pictures more than one can read."""

_NOTE = f"Times are medians of one run; × is how many times as fast as {EAGER}, same dtype."


def render(rows: Sequence[SweepRow], width: int = 80) -> str:
    """The text, without escapes, in lines of at most `width` where names allow."""
    eager = eager_of(rows)
    has_ratios = any(ratio_to(eager, row) for row in rows)
    parts = [
        *(_subject(subject, rows, width) for subject in subjects_in(rows)),
        _wrapped([_NOTE] if has_ratios else [], width),
        _wrapped([f"Largest difference from {EAGER}: {', '.join(texts)}"], width)
        if (texts := error_texts(rows))
        else [],
        _wrapped([f"DOUBT {text}" for text in reason_texts(rows, RowStatus.MEASURED)], width),
        _wrapped([f"FAILED {text}" for text in reason_texts(rows, RowStatus.FAILED)], width),
        _wrapped([f"SKIPPED {text}" for text in reason_texts(rows, RowStatus.SKIPPED)], width),
        [f"{summary(rows)}."],
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _subject(subject: Subject, every: Sequence[SweepRow], width: int) -> list[str]:
    """A section for each phase and dtype, so that the columns of all backends fit a line."""
    rows = [row for row in every if subject_of(row) == subject]
    varying, backends = varying_dims(rows), backends_in(rows)
    has_eager = EAGER in backends
    headings = []
    for backend in backends:
        headings += [backend, "×"] if has_eager and backend != EAGER else [backend]
    sections: list[Section] = []
    for phase, dtype in itertools.product(phases_in(rows), dtypes_in(rows)):
        lines = _lines(rows, phase, dtype, backends, varying)
        left_out = len(lines) - _MOST_POINTS
        more = [(f"… {left_out:,} more: see the CSV", [""] * len(headings))] if left_out > 0 else []
        if lines:
            sections.append((f"{phase.value}, {dtype}", [*lines[:_MOST_POINTS], *more]))
    fixed = fixed_text(rows, varying) if varying else ""
    title = ": ".join(part for part in (subject_text(subject), fixed) if part)
    return [*_wrapped([title], width), *lined_up(headings, sections, width)]


def _lines(
    rows: Sequence[SweepRow],
    phase: Phase,
    dtype: str,
    backends: Sequence[str],
    varying: Sequence[str],
) -> list[tuple[str, list[str]]]:
    here = [row for row in rows if row.phase is phase and row.dtype == dtype]
    placed = {(row.dims, row.backend): row for row in here}
    eager = eager_of(here)
    return [
        (dims_text(dims, varying or None), _cells(placed, eager, dims, backends))
        for dims in sorted({row.dims for row in here}, key=_sizes)
    ]


def _sizes(dims: Dims) -> list[int]:
    """As people read them: rows come in the order that is quickest to measure."""
    return [size for _, size in dims]


def _cells(
    placed: Mapping[tuple[Dims, str], SweepRow],
    eager: Mapping[tuple[object, ...], SweepRow],
    dims: Dims,
    backends: Sequence[str],
) -> list[str]:
    cells = []
    for backend in backends:
        row = placed.get((dims, backend))
        cells.append(_time(row))
        if EAGER in backends and backend != EAGER:
            ratio = ratio_to(eager, row) if row else None
            cells.append(times_text(ratio.value) if ratio else "")
    return cells


def _time(row: SweepRow | None) -> str:
    if row is None:
        return _MISSING
    if row.status is RowStatus.MEASURED:
        mark = " (!)" if row.reason else ""
        return _MISSING if row.median_s is None else short_seconds(row.median_s) + mark
    return str(row.status.value)


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return lines
