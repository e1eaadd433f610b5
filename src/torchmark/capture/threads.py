"""Threads that are started during a capture have modes and labels of their own."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def watched_threads(
    captured: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Runs every thread that is started inside of `captured()`."""
    original = threading.Thread.start

    @functools.wraps(original)
    def start(thread: threading.Thread) -> None:
        # On the instance, because a class derived from Thread has a `run` of its own.
        before = vars(thread).get("run")
        vars(thread)["run"] = functools.partial(_run, thread, thread.run, before, captured)
        try:
            original(thread)
        except BaseException:
            _put_back(thread, before)
            raise

    threading.Thread.start = start  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]


def _run(
    thread: threading.Thread,
    run: Callable[[], Any],
    before: Callable[[], Any] | None,
    captured: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    _put_back(thread, before)
    with captured():
        run()


def _put_back(thread: threading.Thread, before: Callable[[], Any] | None) -> None:
    vars(thread).pop("run", None)
    if before is not None:
        vars(thread)["run"] = before
