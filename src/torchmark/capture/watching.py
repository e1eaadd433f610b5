"""What a program does meanwhile: it imports a module, starts threads, starts processes.

Threads are captured, with modes and labels of their own. Processes are not: each is counted, so
that the trace can say what it lacks. A forked one has a copy of the recorder, which must neither go
on recording nor touch the trace's file. No torch is imported here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import threading
from importlib.abc import MetaPathFinder
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_LOADER = "torch.utils.data._utils.worker"


@contextlib.contextmanager
def replace_attribute(owner: object, name: str, replacement: Any) -> Iterator[None]:
    """Until the end of the block."""
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def when_imported(name: str, then: Callable[[ModuleType], None]) -> Iterator[None]:
    """Calls `then` with the module: now if it is there, else right after its first import."""
    if name in sys.modules:
        then(sys.modules[name])
        yield
        return
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds nothing itself: lets the others find the module, and waits at its loader."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002 - those who find it are asked by its name
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                del loader.exec_module  # of this loader alone: the class has its own
                execute(module)
                self._then(module)

            loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def watch_threads(
    captured: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Runs every thread that is started inside of `captured()`."""
    original = threading.Thread.start

    @functools.wraps(original)
    def start(thread: threading.Thread) -> None:
        # On the instance, because a class derived from Thread has a `run` of its own.
        own = vars(thread)
        before = {"run": own["run"]} if "run" in own else {}
        run = thread.run

        def put_back() -> None:
            own.pop("run", None)
            own.update(before)

        def run_captured() -> None:
            put_back()
            with captured():
                run()

        own["run"] = run_captured
        try:
            original(thread)
        except BaseException:
            put_back()
            raise

    with replace_attribute(threading.Thread, "start", start):
        yield


@contextlib.contextmanager
def watch_processes(note: Callable[[str], None], in_child: Callable[[], None]) -> Iterator[None]:
    """Notes what is started, as a sentence; calls `in_child` in a process that was forked."""
    original_start = BaseProcess.start
    original_fork = os.fork
    starting = False

    @functools.wraps(original_start)
    def start(process: BaseProcess) -> None:
        nonlocal starting
        target = getattr(process, "_target", None)
        if getattr(target, "__module__", "") == _LOADER:
            note("{n} worker processes of a DataLoader: what they call is not in here")
        else:
            note("{n} processes of multiprocessing: what they call is not in here")
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
            note("{n} forked processes: what they call is not in here")
        return pid

    with replace_attribute(BaseProcess, "start", start), replace_attribute(os, "fork", fork):
        yield
