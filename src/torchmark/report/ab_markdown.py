"""A/B comparisons in Markdown, for a pull request: the changes, and all else folded below them.

GitHub takes no comment of more than 65,536 characters, so what is longer is cut: first the rows of
tables, then whole comparisons, and the text says how many are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.run_differences import CountVerdict
from torchmark.report.ab_environments import descriptions, other_differences
from torchmark.report.ab_names import Names, cut, names_of
from torchmark.report.ab_words import (
    CHANGED_COUNTS,
    CHANGED_TIMES,
    CLOSE,
    SEES,
    control_sentence,
    count_text,
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
from torchmark.report.figures import printable, seconds_text
from torchmark.report.markdown import escaped, pipe_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import CountRow, TimeRow, Understood

LIMIT = 60_000
"""Characters of the whole text, with room for what somebody puts around it."""

_ROWS = (1000, 300, 100, 40, 15, 5)
"""What a table or a list may have; the first that makes the text fit is taken."""

_FUNCTIONS = 5
"""Of each sort, told for a case."""

_LONGEST_FUNCTION = 160
_LONGEST_TEXT = 400
"""Of a remark or a reason."""


def render(comparisons: Sequence[Understood]) -> str:
    if not comparisons:
        return "Nothing was compared.\n"
    parts = []
    for rows in _ROWS:
        parts = [_comparison(each, rows) for each in comparisons]
        text = _joined(parts)
        if len(text) <= LIMIT:
            return text
    return _first_that_fit(parts)


def _first_that_fit(parts: Sequence[str]) -> str:
    kept = list(parts)
    while True:
        kept.pop()
        text = _joined([*kept, *_left_out("{} more comparisons", len(parts) - len(kept))])
        if len(text) <= LIMIT:
            return text


def _joined(parts: Sequence[str]) -> str:
    return printable("\n\n---\n\n".join(parts)) + "\n"


def _comparison(comparison: Understood, rows: int) -> str:
    changes = [_time_table(comparison, rows, only_changes=True)]
    changes.append(_count_table(comparison, rows, only_changes=True))
    parts = [
        f"**{_line(summary(comparison))}**",
        _list(comparison.comparison.remarks, rows),
        *changes,
        _list([f"failed: {text}" for text in failure_texts(comparison)], rows),
        _details("All cases, environments and the control", _everything(comparison, rows)),
    ]
    return "\n\n".join(part for part in parts if part)


def _everything(comparison: Understood, rows: int) -> list[str]:
    record = comparison.comparison
    few = gap_texts(unjudged(comparison), otherwise="fewer than two pairs")
    return [
        _line(heading(comparison)),
        _list([*descriptions(record), other_differences(record)], rows),
        _time_table(comparison, rows, only_changes=False),
        _count_table(comparison, rows, only_changes=False),
        _functions(comparison, rows),
        _list([f"skipped: {text}" for text in skip_texts(comparison)], rows),
        _list([f"unclear: {text}" for text in few], rows),
        _line(control_sentence(comparison)),
    ]


def _time_table(comparison: Understood, most: int, *, only_changes: bool) -> str:
    names = names_of(comparison.times)
    rows = [
        (row, name)
        for row, name in zip(comparison.times, names.names, strict=True)
        if not only_changes or row.verdict in CHANGED_TIMES
    ]
    header = [*_environment_names(comparison), "ratio [95 %]", "verdict", "sees"]
    cells = [[name, *_time_cells(row)] for row, name in rows[:most]]
    if only_changes:
        header, cells = header[:-1], [row[:-1] for row in cells]
    return _table(names, "Times", header, cells, len(rows), note="" if only_changes else SEES)


def _time_cells(row: TimeRow) -> list[str]:
    return [
        seconds_text(row.a_seconds),
        seconds_text(row.b_seconds),
        ratio_text(row.effect),
        row.verdict.value,
        sees_text(row.effect),
    ]


def _count_table(comparison: Understood, most: int, *, only_changes: bool) -> str:
    names = names_of(comparison.counts)
    rows = [
        (row, name)
        for row, name in zip(comparison.counts, names.names, strict=True)
        if not only_changes or row.verdict in CHANGED_COUNTS
    ]
    header = [f"ΔI → {_environment_names(comparison)[1]} (%)", "verdict"]
    cells = [[name, count_text(row), row.verdict.value] for row, name in rows[:most]]
    has_close = any(row.verdict is CountVerdict.CLOSE for row, _ in rows)
    note = CLOSE if has_close else ""
    return _table(names, "Instructions", header, cells, len(rows), note=note)


def _table(
    names: Names,
    title: str,
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    total: int,
    *,
    note: str,
) -> str:
    if not cells:
        return ""
    parts = [pipe_table([names.under(title), *header], cells)]
    parts += _left_out("{} more cases", total - len(cells))
    parts += [escaped(note)] if note else []
    return "\n\n".join(parts)


def _functions(comparison: Understood, most: int) -> str:
    """The functions behind each change, biggest first."""
    counts = [row for row in comparison.counts if row.verdict in CHANGED_COUNTS]
    counted = {row.case.id for row in counts}
    changed: list[TimeRow | CountRow] = [
        *counts,
        *(
            row
            for row in comparison.times
            if row.verdict in CHANGED_TIMES and row.python and row.case.id not in counted
        ),
    ]
    if not changed:
        return ""
    lines = ["Functions behind the changes:", ""]
    for row, name in list(zip(changed, names_of(changed).names, strict=True))[:most]:
        lines.append(f"- {_line(name)}")
        found = functions_behind(row)
        lines += [
            f"  - {each.more} {each.unit}: {_line(each.function, _LONGEST_FUNCTION)}"
            for unit in ("instructions", "bytecodes")
            for each in [each for each in found if each.unit == unit][:_FUNCTIONS]
        ]
    return "\n".join([*lines, *_left_out("- {} more cases", len(changed) - most)])


def _list(texts: Sequence[str], most: int) -> str:
    told = [text for text in texts if text]
    lines = [f"- {_line(text)}" for text in told[:most]]
    return "\n".join([*lines, *_left_out("- {} more", len(told) - most)])


def _left_out(what: str, number: int) -> list[str]:
    return [f"{what.format(number)} are left out: the text is too long."] if number > 0 else []


def _details(title: str, parts: Sequence[str]) -> str:
    """Folded; the empty lines let GitHub read Markdown inside."""
    body = "\n\n".join(part for part in parts if part)
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _environment_names(comparison: Understood) -> list[str]:
    record = comparison.comparison
    return [cut(each.name, 30) for each in (record.a, record.b)]


def _line(text: str, longest: int = _LONGEST_TEXT) -> str:
    return escaped(cut(printable(text), longest))
