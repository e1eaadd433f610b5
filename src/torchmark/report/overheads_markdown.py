"""The ladders of a run in Markdown, for an issue or a pull request: a table for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.report.figures import doubt_texts, environment_line, heading, printable
from torchmark.report.markdown import escaped, pipe_table
from torchmark.report.overheads_text import (
    NO_FIGURE,
    failure_texts,
    instructions_cell,
    micro,
    more_cell,
    ratio_cell,
    results_in,
    time_cell,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.overheads import Ladder, Rung
    from torchmark.model.run import Run

_HEADINGS = ("time (us)", "overhead (us), 95 % interval", "ratio", "instructions", "more")


def render(run: Run, ladders: Sequence[Ladder]) -> str:
    parts = [escaped(heading(run)), escaped(environment_line(run.environment))]
    parts += [
        pipe_table([ladder.stmt, *_HEADINGS], [[rung.kind, *_cells(rung)] for rung in ladder.rungs])
        for ladder in ladders
    ]
    parts.append("\n".join(f"- **failed** {escaped(text)}" for text in failure_texts(ladders)))
    parts.append("\n".join(f"- (!) {escaped(text)}" for text in doubt_texts(results_in(ladders))))
    return printable("\n\n".join(part for part in parts if part)) + "\n"


def _cells(rung: Rung) -> list[str]:
    return [
        time_cell(rung), _overhead(rung), ratio_cell(rung), instructions_cell(rung),
        more_cell(rung),
    ]  # fmt: skip


def _overhead(rung: Rung) -> str:
    if rung.time_overhead is None:
        return NO_FIGURE
    low, high = map(micro, rung.time_overhead.interval)
    return f"{micro(rung.time_overhead.seconds, sign='+')} [{low}, {high}]"
