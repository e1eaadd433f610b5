"""Processes that are started during a capture: none of them is captured, all are counted.

A forked one has a copy of the recorder. It must neither go on recording nor touch the trace's file.
"""

from __future__ import annotations

import contextlib
import functools
import os
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchmark.capture.record import Record

LOADER = "torch.utils.data._utils.worker"


@contextlib.contextmanager
def watched_processes(record: Record, in_child: Callable[[], None]) -> Iterator[None]:
    """Counts what is started; calls `in_child` in a process that was forked."""
    original_start = BaseProcess.start
    original_fork = os.fork
    starting = False

    @functools.wraps(original_start)
    def start(process: BaseProcess) -> None:
        nonlocal starting
        target = getattr(process, "_target", None)
        if getattr(target, "__module__", "") == LOADER:
            record.not_seen("{n} worker processes of a DataLoader: what they call is not in here")
        else:
            record.not_seen("{n} processes of multiprocessing: what they call is not in here")
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
            record.not_seen("{n} forked processes: what they call is not in here")
        return pid

    BaseProcess.start = start  # type: ignore[method-assign, assignment]
    os.fork = fork
    try:
        yield
    finally:
        BaseProcess.start = original_start  # type: ignore[method-assign]
        os.fork = original_fork
