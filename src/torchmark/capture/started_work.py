"""Threads and processes that start during a capture.

Threads are captured, with modes and labels of their own. Processes are not: each is counted, so
that the trace can say what it lacks. A forked one has a copy of the recorder, which must neither go
on recording nor touch the trace's file.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchmark.capture.record import Record


@contextlib.contextmanager
def watch_threads(
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


LOADER = "torch.utils.data._utils.worker"


@contextlib.contextmanager
def watch_processes(record: Record, in_child: Callable[[], None]) -> Iterator[None]:
    """Counts what is started; calls `in_child` in a process that was forked."""
    original_start = BaseProcess.start
    original_fork = os.fork
    starting = False

    @functools.wraps(original_start)
    def start(process: BaseProcess) -> None:
        nonlocal starting
        target = getattr(process, "_target", None)
        if getattr(target, "__module__", "") == LOADER:
            record.note_unseen(
                "{n} worker processes of a DataLoader: what they call is not in here"
            )
        else:
            record.note_unseen("{n} processes of multiprocessing: what they call is not in here")
        starting = True
        try:
            original_start(process)
        finally:
            starting = False

    @functools.wraps(original_fork)
    def fork() -> int:
        pid = original_fork()
        if pid == 0:
            in_child()
        elif not starting:
            record.note_unseen("{n} forked processes: what they call is not in here")
        return pid

    BaseProcess.start = start  # type: ignore[method-assign, assignment]
    os.fork = fork
    try:
        yield
    finally:
        BaseProcess.start = original_start  # type: ignore[method-assign]
        os.fork = original_fork
