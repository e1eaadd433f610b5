"""Progress of a run: what is being measured, how far the run is, failures, and the time left.

On a terminal a block of lines is updated in place. Elsewhere, and if TERM is dumb, each result is a
line. `--quiet` shows nothing. Progress goes to stderr, so that stdout has only the result.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Self

import click

from torchmark.cli.shell import echo
from torchmark.model.case import Case
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Began, Note, Progress, Run, Stage
from torchmark.printable import printable
from torchmark.report.names import headline_of

if TYPE_CHECKING:
    from rich.console import RenderableType


_CLEAR_LINE = "\r\033[K"

_DOING = {
    Metric.TIME: "timing  ",
    Metric.INSTRUCTIONS: "counting",
    Metric.PROFILE: "sampling",
    Metric.CONTROL: "control ",
}


class Display:
    """Hears everything that happens in a run, beginning with the run, and shows nothing."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._planned = 0
        self._run_id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def hear(self, news: Run | Progress) -> None:
        if isinstance(news, Run):
            if news.id != self._run_id:
                self._run_id, self._total = news.id, len(news.missing())
                self._begin(news)
            else:  # the plan has grown since the run began
                self._total += len(news.plan) - self._planned
            self._planned = len(news.plan)
        elif isinstance(news, Result):
            # Controls are not in the plan, and partial results are not done.
            self._done += news.metric is not Metric.CONTROL and news.status is not Status.PARTIAL
            self._show_result(news)
        elif isinstance(news, Stage):
            self._show_stage(news)
        elif isinstance(news, Note):
            self._show_note(news)
        else:
            self._show_beginning(news)

    def _begin(self, run: Run) -> None: ...

    def _show_result(self, result: Result) -> None: ...

    def _show_stage(self, stage: Stage) -> None: ...

    def _show_note(self, note: Note) -> None: ...

    def _show_beginning(self, began: Began) -> None: ...


def make_display(*, quiet: bool) -> Display:
    """Make the display for the kind of stderr. The command shows errors at its end in any case."""
    if quiet:
        return Display()
    return _Terminal() if _can_move_cursor() else _Lines()


def _can_move_cursor() -> bool:
    """Whether stderr is a terminal that can overwrite its lines."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


class _Lines(Display):
    """Prints one line per result."""

    def _begin(self, run: Run) -> None:
        what = "1 measurement" if self._total == 1 else f"{self._total or 'no'} measurements"
        left = " left" if run.results else ""
        echo(f"run {run.id}: {what}{left}", err=True)

    def _show_result(self, result: Result) -> None:
        echo(f"[{self._done}/{self._total}] {headline_of(result)}", err=True)

    def _show_stage(self, stage: Stage) -> None:
        if not stage.is_over:
            echo(stage.text, err=True)

    def _show_note(self, note: Note) -> None:
        echo(note.text, err=True)


class _Terminal(_Lines):
    """Shows a progress bar, what is being measured below it, and failures above it."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only where there is a terminal
        from rich.live import Live  # noqa: PLC0415

        super().__init__()
        self._failed = 0
        self._start = time.monotonic()
        self._running: dict[tuple[str, Metric], Case] = {}
        self._stages: set[str] = set()
        self._console = Console(stderr=True)
        self._live = Live(
            console=self._console, get_renderable=self._picture, refresh_per_second=4,
            transient=True,
        )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _begin(self, run: Run) -> None:
        super()._begin(run)
        # Not earlier: its thread may only use the cores on which nothing is timed.
        self._live.start()

    def _show_stage(self, stage: Stage) -> None:
        if not self._live.is_started:
            super()._show_stage(stage)
        elif stage.is_over:
            self._stages.discard(stage.text)
        else:
            self._stages.add(stage.text)

    def _show_note(self, note: Note) -> None:
        self._console.print(printable(note.text), markup=False, highlight=False)

    def _show_beginning(self, began: Began) -> None:
        self._running[began.case.id, began.metric] = began.case

    def _show_result(self, result: Result) -> None:
        self._running.pop((result.case.id, result.metric), None)
        if result.status is Status.FAILED:
            self._failed += 1
            self._console.print(headline_of(result), style="red", markup=False, highlight=False)

    def _picture(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - only where there is a terminal
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        head = Table.grid(padding=(0, 1))
        failed = f", {self._failed} failed" if self._failed else ""
        # While something is prepared, the rate so far does not predict the time left.
        elapsed = time.monotonic() - self._start
        left = "" if self._stages else remaining_text(self._done, self._total, elapsed)
        head.add_row(
            ProgressBar(total=self._total, completed=self._done, width=24),
            Text(f"{self._done} of {self._total}{failed}{left}"),
        )
        doing = [
            *sorted(self._stages),
            *(f"{_DOING[metric]} {case.title}" for (_, metric), case in [*self._running.items()]),
        ]
        lines = [
            Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis")
            for line in doing[:8]
        ]
        return Group(head, *lines)


def remaining_text(done: int, total: int, elapsed: float) -> str:
    """Say how much time is left at the rate so far, from the fifth measurement on.

    >>> remaining_text(10, 40, 60.0)
    ', about 3 min left'
    >>> remaining_text(39, 40, 60.0)
    ', a few seconds left'
    >>> remaining_text(1, 40, 9.0)
    ''
    """
    if done < 5 or done >= total:
        return ""
    seconds = elapsed / done * (total - done)
    if seconds < 10:
        return ", a few seconds left"
    if seconds < 60:
        return f", about {seconds:.0f} s left"
    return f", about {seconds / 60:.0f} min left"


class StatusLine:
    """One line of progress, for commands without a run that is shown in a `Display`.

    The line is erased at the end, also after an error. A terminal that cannot overwrite lines gets
    each text as a line. A pipe gets them only with `shows_lines`.
    """

    def __init__(self, *, shows_lines: bool = False) -> None:
        self._shows_lines = shows_lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if _can_move_cursor():
            click.echo(_CLEAR_LINE, nl=False, err=True)

    def tell(self, text: str) -> None:
        line = " ".join(printable(text).split())
        if _can_move_cursor():
            click.echo(f"{_CLEAR_LINE}{line} …", nl=False, err=True)
        elif self._shows_lines or sys.stderr.isatty():
            echo(line, err=True)
