"""Run the user's program in this process as Python would, and watch what it starts.

A script or a module becomes `__main__`, with its own arguments and its own folder first on the
path. It stays `__main__` until the process ends, because threads, exit functions and spawned
workers that it leaves behind look it up there.

The threads of the program are captured, with their own modes and labels. Its processes are not
captured but counted, so the trace says what it lacks. A forked process has a copy of the recorder,
which must stop recording and must not write to the trace's file. This module does not import torch.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib.util
import io
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from torchmark.errors import ScriptNotFoundError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_OF_THE_RUN = ("torchmark", "runpy", "importlib", "_frozen_importlib")
"""Packages whose frames are below those of the script."""

_LOADER = "torch.utils.data._utils.worker"


def require_script(file: str) -> None:
    """Raise if the script cannot be opened, before anything is started for it."""
    if Path(file).is_dir():
        raise ScriptNotFoundError(f"{file} is a folder; give the path of a script in it")
    try:
        Path(file).open("rb").close()
    except OSError as error:
        raise ScriptNotFoundError(
            f"cannot open {file}: {error.strerror}; give the path of a Python script, "
            "or -m and the name of a module"
        ) from error


def run_script(file: str, args: Sequence[str]) -> None:
    """Run `python FILE ARGS…` in this process until it ends; pass its exceptions on."""
    _first_on_path(str(Path(file).resolve().parent))
    sys.argv[:] = [file, *args]
    file = os.path.abspath(file)  # as Python does; `resolve` would follow links
    with io.open_code(file) as source:
        text = source.read()
    code = compile(text, file, "exec", dont_inherit=True)
    _execute(code, file=file, spec=None, loader=SourceFileLoader("__main__", file))


def run_module(name: str, args: Sequence[str]) -> None:
    """Run `python -m NAME ARGS…` in this process until it ends; pass its exceptions on."""
    _first_on_path(str(Path.cwd()))
    sys.argv[:] = ["-m", *args]
    try:
        # The same function as in `python -m`. It imports the parent packages of the module.
        _, spec, code = runpy._get_module_details(name, _NotRunnableError)  # type: ignore[attr-defined]
    except _NotRunnableError as error:
        raise ScriptNotFoundError(
            f"the module {name} cannot be run: {error}; run the command in the folder that "
            "contains it, or set PYTHONPATH"
        ) from error
    sys.argv[0] = spec.origin or name
    _execute(code, file=spec.origin, spec=spec, loader=spec.loader)


class _NotRunnableError(Exception):
    """There is no such module, or it cannot be run."""


def users_traceback(error: BaseException) -> TracebackType | None:
    """The traceback that Python would show: without our frames, which run the script."""
    shown = error.__traceback__
    while shown is not None:
        module = str(shown.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in _OF_THE_RUN:
            break
        shown = shown.tb_next
    return shown


def _first_on_path(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):  # new in Python 3.11
        sys.path[0] = folder


def _execute(code: CodeType, *, file: str | None, spec: ModuleSpec | None, loader: Any) -> None:
    main = ModuleType("__main__")
    main.__dict__.update(
        __builtins__=builtins,
        __file__=file,
        __spec__=spec,
        __package__=None if spec is None else spec.parent,
        __loader__=loader,
        __cached__=None if spec is None else spec.cached,
    )
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102 - the user's own script, as they asked


@contextlib.contextmanager
def replace_attribute(owner: object, name: str, replacement: Any) -> Iterator[None]:
    """Replace an attribute until the end of the block."""
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def when_imported(name: str, then: Callable[[ModuleType], None]) -> Iterator[None]:
    """Call `then` with the module: now if it is imported, otherwise right after its import."""
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
    """Finds no module itself: lets the other finders find it, and wraps `exec_module`."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the other finders are asked by name
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                del loader.exec_module  # only of this loader; the class keeps its own
                execute(module)
                self._then(module)

            loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def watch_threads(
    captured: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Run every thread that is started from now on inside of `captured()`."""
    original = threading.Thread.start

    @functools.wraps(original)
    def start(thread: threading.Thread) -> None:
        # On the instance, because a class derived from Thread may have its own `run`.
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
    """Note every process that is started, and call `in_child` in forked processes."""
    original_start = BaseProcess.start
    original_fork = os.fork
    starting = False

    @functools.wraps(original_start)
    def start(process: BaseProcess) -> None:
        nonlocal starting
        target = getattr(process, "_target", None)
        if getattr(target, "__module__", "") == _LOADER:
            note("the calls of worker processes of a DataLoader ({n})")
        else:
            note("the calls of processes started with multiprocessing ({n})")
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
            note("the calls of forked processes ({n})")
        return pid

    with replace_attribute(BaseProcess, "start", start), replace_attribute(os, "fork", fork):
        yield
