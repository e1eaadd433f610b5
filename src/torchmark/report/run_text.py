"""A run for a terminal or a pipe: a table of its results, then doubts, failures and skips."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchmark.model.result import Metric
from torchmark.model.units import ordered_unique
from torchmark.report.columns import lined_up
from torchmark.report.figures import (
    doubt_texts,
    environment_line,
    first_line,
    heading,
    printable,
    result_text,
)
from torchmark.report.run_table import RunTable, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.case import Case
    from torchmark.model.result import Result
    from torchmark.model.run import Run

HEADINGS = {Metric.TIME: "time", Metric.INSTRUCTIONS: "instructions"}

_REASON_LINES = 12
"""Of a failure that are shown; the export has all of it, and what the case printed."""


def render(run: Run, results: Sequence[Result], *, width: int = 80) -> str:
    """The text, without escapes, in lines of at most `width` where words allow."""
    table = table_of(run, results)
    parts = [
        _wrapped([heading(run), environment_line(run.environment)], width),
        _table(table, width),
        _wrapped([f"DOUBT {text}" for text in doubt_texts(table.results)], width),
        _failures(table, width),
        _wrapped(_skips(table), width),
        [f"{table.summary()}."],
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _table(table: RunTable, width: int) -> list[str]:
    kinds = table.kinds
    sections = [
        (
            group.title,
            [(row.name, [result_text(row, kind) for kind in kinds]) for row in group.rows],
        )
        for group in table.groups
    ]
    return lined_up([HEADINGS[kind] for kind in kinds], sections, width)


def _failures(table: RunTable, width: int) -> list[str]:
    """Each failure with its reason; one that has it in timing and counting alike is told once."""
    kinds: dict[tuple[Case, str], list[str]] = {}
    for result in table.failures:
        kinds.setdefault((result.case, result.reason), []).append(result.metric.value)
    lines = []
    for (case, reason), names in kinds.items():
        lines += _wrapped([f"FAILED {case.title} ({' and '.join(names)})"], width)
        lines += _reason(reason, width)
    if any(result.stdout or result.stderr for result in table.failures):
        lines.append(f"What they printed: torchmark export {table.run.id} --format json")
    return lines


def _reason(reason: str, width: int) -> list[str]:
    given = printable(reason).strip().splitlines()
    lines = []
    for line in given[:_REASON_LINES]:
        lines += textwrap.wrap(
            line, width, initial_indent="  ", subsequent_indent="    ", drop_whitespace=False
        ) or [""]
    if len(given) > _REASON_LINES:
        lines.append(f"  … {len(given) - _REASON_LINES} more lines")
    return lines


def _skips(table: RunTable) -> list[str]:
    """One line for each reason."""
    lines = []
    for reason in ordered_unique(first_line(skip.reason) for skip in table.skips):
        same = [skip for skip in table.skips if first_line(skip.reason) == reason]
        name = same[0].case.title if len(same) == 1 else f"{len(same)} measurements"
        lines.append(f"SKIPPED {name}: {reason}")
    return lines


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return lines
