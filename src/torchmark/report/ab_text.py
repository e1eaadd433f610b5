"""An A/B comparison for a terminal or a pipe.

First what sets the environments apart, then times, instructions and what is missing, then the
control; the last line is all of it in one sentence.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from torchmark.analyse.pairs import Verdict
from torchmark.analyse.run_differences import CountVerdict
from torchmark.report.ab_environments import descriptions, other_differences
from torchmark.report.ab_names import cut, names_of
from torchmark.report.ab_words import (
    CHANGED_COUNTS,
    CHANGED_TIMES,
    CLOSE,
    SEES,
    changed_counts,
    control_sentence,
    count_parts,
    failure_texts,
    functions_behind,
    gap_texts,
    heading,
    ratio_text,
    sees_text,
    skip_texts,
    summary,
    unjudged,
)
from torchmark.report.columns import blocks
from torchmark.report.figures import printable, seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.analyse.ab import CountRow, TimeRow, Understood

_MOST_QUIET = 12
"""Cases without a change that are shown one by one, unless there are no others."""

_MOST_FUNCTIONS = 5
"""Of each sort, shown below a case; the page and the JSON have more."""

_LONGEST_HEADING = 8
"""As wide as a time, so that the name of an environment takes no room from the cases."""


def render(comparisons: Sequence[Understood], *, width: int = 80) -> str:
    """The text, without escapes, in lines of at most `width` where words allow."""
    if not comparisons:
        return "Nothing was compared.\n"
    return "\n\n".join(_comparison(each, width) for each in comparisons)


def _comparison(comparison: Understood, width: int) -> str:
    record = comparison.comparison
    parts = [
        _wrapped([heading(comparison)], width),
        _wrapped([*descriptions(record), other_differences(record)], width),
        _wrapped([f"NOTE {remark}" for remark in record.remarks], width),
        _times(comparison, width),
        _counts(comparison, width),
        _wrapped(_gaps(comparison), width),
        _wrapped([control_sentence(comparison)], width),
        _wrapped([summary(comparison)], width),
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _times(comparison: Understood, width: int) -> list[str]:
    rows, names = comparison.times, names_of(comparison.times)
    if not rows:
        return []
    is_short = _is_short(row.verdict is Verdict.SAME for row in rows)
    shown = [
        (row, name)
        for row, name in zip(rows, names.names, strict=True)
        if not is_short or row.verdict is not Verdict.SAME
    ]
    told_with_counts = {row.case.id for row in changed_counts(comparison)}
    lines = _wrapped([names.under("Times")], width) + _table(
        [*_environment_names(comparison), "ratio [95 %]", "", "sees"],
        [(name, _time_cells(row)) for row, name in shown],
        [[] if row.case.id in told_with_counts else _functions(row, width) for row, _ in shown],
        width,
    )
    if is_short:
        same = [row.effect for row in rows if row.verdict is Verdict.SAME]
        most = sees_text(max(same, key=lambda each: each.smallest))
        lines.append(f"  {len(same)} cases are the same (each sees {most} or less)")
    return [*lines, *_wrapped([SEES], width)]


def _time_cells(row: TimeRow) -> list[str]:
    return [
        seconds_text(row.a_seconds),
        seconds_text(row.b_seconds),
        ratio_text(row.effect),
        row.verdict.value,
        "" if row.verdict in CHANGED_TIMES else sees_text(row.effect),
    ]


def _counts(comparison: Understood, width: int) -> list[str]:
    rows, names = comparison.counts, names_of(comparison.counts)
    if not rows:
        return []
    is_short = _is_short(row.verdict not in CHANGED_COUNTS for row in rows)
    shown = [
        (row, name)
        for row, name in zip(rows, names.names, strict=True)
        if not is_short or row.verdict in CHANGED_COUNTS
    ]
    cells = _lined_up_counts([row for row, _ in shown])
    lines = _wrapped([names.under("Instructions")], width) + _table(
        [f"ΔI → {_environment_names(comparison)[1]} (%)", ""],
        [(name, [cell, row.verdict.value]) for (row, name), cell in zip(shown, cells, strict=True)],
        [_functions(row, width) for row, _ in shown],
        width,
    )
    verdicts = Counter(row.verdict for row in rows)
    if is_short:
        same, close = verdicts[CountVerdict.SAME], verdicts[CountVerdict.CLOSE]
        told = [f"{same} cases are the same"] if same else []
        lines.append(f"  {', '.join([*told, *([f'{close} are close'] if close else [])])}")
    return [*lines, *_wrapped([CLOSE if verdicts[CountVerdict.CLOSE] else ""], width)]


def _lined_up_counts(rows: Sequence[CountRow]) -> list[str]:
    """The arrows stand below each other, and so do the figures on both sides."""
    parts = [count_parts(row) for row in rows]
    more, final, share = (max(map(len, column)) for column in zip(*parts, strict=True))
    return [f"{a.rjust(more)} → {b.rjust(final)} {c.rjust(share)}" for a, b, c in parts]


def _functions(row: TimeRow | CountRow, width: int) -> list[str]:
    """The functions behind a change, a line each; names are cut and not wrapped."""
    if row.verdict not in (*CHANGED_TIMES, *CHANGED_COUNTS):
        return []
    found, lines = functions_behind(row), []
    for unit in ("instructions", "bytecodes"):
        of_unit = [each for each in found if each.unit == unit]
        figures = [f"{each.more} {unit}" for each in of_unit[:_MOST_FUNCTIONS]]
        room = max(map(len, figures), default=0)
        for figure, each in zip(figures, of_unit, strict=False):
            lead = f"      {figure.rjust(room)}  "
            lines.append(lead + cut(printable(each.function), max(width - len(lead), 20)))
        if len(of_unit) > _MOST_FUNCTIONS:
            lines.append(f"      {len(of_unit) - _MOST_FUNCTIONS} more functions differ")
    return lines


def _table(
    headings: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    notes: Sequence[Sequence[str]],
    width: int,
) -> list[str]:
    """Lined-up rows, each with its notes below it."""
    plain = [(printable(name), [printable(cell) for cell in cells]) for name, cells in rows]
    first, *rest = blocks(headings, [("case", plain)], width)
    for block, note in zip(rest, notes, strict=True):
        first += [*block, *note]
    return first


def _gaps(comparison: Understood) -> list[str]:
    few = gap_texts(unjudged(comparison), otherwise="fewer than two pairs")
    return [
        *(f"FAILED {text}" for text in failure_texts(comparison)),
        *(f"SKIPPED {text}" for text in skip_texts(comparison)),
        *(f"UNCLEAR {text}" for text in few),
    ]


def _is_short(quiet: Iterable[bool]) -> bool:
    """Whether so many cases have nothing to tell that they are only counted."""
    found = list(quiet)
    return sum(found) > _MOST_QUIET and not all(found)


def _environment_names(comparison: Understood) -> list[str]:
    record = comparison.comparison
    return [cut(printable(each.name), _LONGEST_HEADING) for each in (record.a, record.b)]


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return lines
