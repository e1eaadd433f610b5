"""What a person sees while a run goes on: what runs, how far it is, failures, time left.

On a terminal one block of lines is kept up to date; elsewhere each result is a line; `--quiet`
shows nothing. All of it goes to stderr, so that stdout has the result alone.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

import click

from torchmark.analyse.ab import count_row
from torchmark.analyse.pairs import effect_of
from torchmark.engine.execution import Stage
from torchmark.model.ab_record import Compared
from torchmark.model.result import Metric, Result, Status
from torchmark.report.figures import first_line, printable, seconds_text

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.console import RenderableType

    from torchmark.engine.execution import News
    from torchmark.engine.paired.comparing import News as ABNews
    from torchmark.model.case import Case

_DOING = {Metric.TIME: "timing  ", Metric.INSTRUCTIONS: "counting"}


class Display(Protocol):
    """Hears of everything that happens in a run."""

    def __enter__(self) -> Self:
        """The run begins."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """The run has ended, one way or another."""

    def show(self, news: News | ABNews) -> None:
        """Something began, or a result is there."""


def display_for(total: int, *, quiet: bool) -> Display:
    """The display that fits where stderr goes."""
    if quiet:
        return _Silent()
    return _Terminal(total) if sys.stderr.isatty() else _Lines(total)


class _Silent:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, news: News | ABNews) -> None:
        """Errors are shown by whoever ends the command."""


class _Lines(_Silent):
    """One line for every result."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def show(self, news: News | ABNews) -> None:
        if isinstance(news, Result | Compared):
            self._done += 1
            click.echo(f"[{self._done}/{self._total}] {line_of(news)}", err=True)
        elif isinstance(news, Stage) and not news.is_over:
            click.echo(news.text, err=True)


class _Terminal(_Silent):
    """A bar, and below it what runs now; failures scroll by above."""

    def __init__(self, total: int) -> None:
        from rich.console import Console  # noqa: PLC0415 - only where there is a terminal
        from rich.live import Live  # noqa: PLC0415

        self._total = total
        self._done = 0
        self._failed = 0
        self._start = time.monotonic()
        self._running: dict[tuple[str, Metric], Case] = {}
        self._stages: set[str] = set()
        self._console = Console(stderr=True)
        self._live = Live(
            console=self._console, get_renderable=self._picture, refresh_per_second=4,
            transient=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, news: News | ABNews) -> None:
        if isinstance(news, Stage):
            (self._stages.discard if news.is_over else self._stages.add)(news.text)
            return
        key = (news.case.id, news.metric)
        if not isinstance(news, Result | Compared):
            self._running[key] = news.case
            return
        self._running.pop(key, None)
        self._done += 1
        if news.status is Status.FAILED:
            self._failed += 1
            self._console.print(line_of(news), style="red", markup=False, highlight=False)

    def _picture(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - only where there is a terminal
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        head = Table.grid(padding=(0, 1))
        failed = f", {self._failed} failed" if self._failed else ""
        # While something is prepared the pace says little about what comes after it.
        elapsed = time.monotonic() - self._start
        left = "" if self._stages else remaining_text(self._done, self._total, elapsed)
        head.add_row(
            ProgressBar(total=self._total, completed=self._done, width=24),
            Text(f"{self._done} of {self._total}{failed}{left}"),
        )
        doing = [
            *sorted(self._stages),
            *(f"{_DOING[kind]} {case.title}" for (_, kind), case in [*self._running.items()]),
        ]
        lines = [
            Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis")
            for line in doing[:8]
        ]
        return Group(head, *lines)


def line_of(result: Result | Compared) -> str:
    """A result in one line."""
    title = f"{result.metric.value:<5}  {printable(result.case.title)}"
    if result.status is not Status.DONE:
        return f"{title}: {result.status.value}: {printable(first_line(result.reason))}"
    if isinstance(result, Compared):
        return f"{title}: {_compared_text(result)}"
    if result.measurement is not None:
        return f"{title}: {seconds_text(result.measurement.median)}"
    if result.counts is None:
        return f"{title}: {result.status.value}"
    instructions = result.counts.without_loop().sum() / result.counts.number_per_run
    return f"{title}: {instructions:,.0f} instructions"


def _compared_text(result: Compared) -> str:
    if result.times is not None:
        return f"{effect_of(result.times.pairs).ratio:.4f}"
    row = count_row(result)
    return f"{row.share * 100:+.3f} % instructions"


def remaining_text(done: int, total: int, elapsed: float) -> str:
    """What is left at the pace so far, once there is one to go by.

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
