"""A run in Markdown, for an issue or a pull request: a table for each group, then the failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.report.figures import (
    doubt_texts,
    environment_line,
    first_line,
    heading,
    printable,
    result_text,
)
from torchmark.report.markdown import escaped, pipe_table
from torchmark.report.run_table import table_of
from torchmark.report.run_text import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.result import Result
    from torchmark.model.run import Run


def render(run: Run, results: Sequence[Result]) -> str:
    table = table_of(run, results)
    kinds = table.kinds
    parts = [
        escaped(f"{heading(run)}: {table.summary()}."),
        escaped(environment_line(run.environment)),
    ]
    for group in table.groups:
        rows = [[row.name, *(result_text(row, kind) for kind in kinds)] for row in group.rows]
        parts.append(pipe_table([group.title, *(HEADINGS[kind] for kind in kinds)], rows))
    parts.append("\n".join(_failure(result) for result in table.failures))
    parts.append("\n".join(f"- (!) {escaped(text)}" for text in doubt_texts(table.results)))
    return printable("\n\n".join(part for part in parts if part)) + "\n"


def _failure(result: Result) -> str:
    reason = escaped(first_line(result.reason))
    return f"- **failed** {escaped(result.case.title)} ({result.kind.value}): {reason}"
