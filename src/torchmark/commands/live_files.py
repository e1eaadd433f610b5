"""A file that has what a run knows so far, written while it goes on.

What kills the process leaves the rows that were there, at most some seconds old. The store has
them too: such a file is a rendering of the run, and is never read back.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import msgspec

from torchmark.engine.files import write_whole
from torchmark.model.result import Result
from torchmark.model.run import Run
from torchmark.report import render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchmark.commands.spine import Listener
    from torchmark.model.result import ResultKey
    from torchmark.model.run import Progress

_SECONDS = 2.0
"""Between two times that the file is written."""

_SHARE = 0.1
"""Of the time at most that writing takes: a rendering grows with the run."""


class LiveFile:
    """Hears of a run and writes it in one format, at most every two seconds and at the end.

    What it hears it tells `listener`; without a file it does nothing else.
    """

    def __init__(
        self,
        file: Path | None,
        form: str,
        listener: Listener,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file, self._form, self._listener, self._clock = file, form, listener, clock
        self._run: Run | None = None
        self._results: dict[ResultKey, Result] = {}
        self._next = 0.0

    def __enter__(self) -> LiveFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def hear(self, news: Run | Progress) -> None:
        if isinstance(news, Run):
            self._results = {result.key: result for result in news.results} | self._results
            self._run = news
        elif isinstance(news, Result):
            self._results[news.key] = news
            if self._clock() >= self._next:
                self._write()
        self._listener(news)

    def _write(self) -> None:
        if self._run is None or self._file is None:
            return
        start = self._clock()
        run = msgspec.structs.replace(self._run, results=tuple(self._results.values()))
        with contextlib.suppress(OSError):  # whoever writes it in the end says what is wrong
            write_whole(self._file, render(run, self._form).encode())
        took = self._clock() - start
        self._next = start + took + max(_SECONDS, took / _SHARE)
