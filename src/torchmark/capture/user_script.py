"""Somebody's script or module, run in this process as `python SCRIPT` and `python -m MODULE` would.

It becomes `__main__`, with its own arguments and its own folder first on the path, and stays so
until the process ends: what it leaves behind (threads, functions for the exit, workers that are
spawned) finds it there.
"""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torchmark.errors import ScriptNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, TracebackType


_OF_THE_RUN = ("torchmark", "runpy", "importlib", "_frozen_importlib")
"""Packages of those who run the script."""


def require_script(file: str) -> None:
    """Before anything is begun for it."""
    if Path(file).is_dir():
        raise ScriptNotFoundError(f"{file} is a folder; give the script in it")
    try:
        Path(file).open("rb").close()
    except OSError as error:
        raise ScriptNotFoundError(
            f"cannot open {file}: {error.strerror}; give the path of a Python script, "
            "or -m and the name of a module"
        ) from error


def run_script(file: str, args: Sequence[str]) -> None:
    """As `python FILE ARGS…` until it ends; what it raises comes out of here."""
    _first_on_path(str(Path(file).resolve().parent))
    sys.argv[:] = [file, *args]
    file = os.path.abspath(file)  # as Python has it; `resolve` would follow links
    with io.open_code(file) as source:
        text = source.read()
    code = compile(text, file, "exec", dont_inherit=True)
    _execute(code, file=file, spec=None, loader=SourceFileLoader("__main__", file))


def run_module(name: str, args: Sequence[str]) -> None:
    """As `python -m NAME ARGS…` until it ends; what it raises comes out of here."""
    _first_on_path(str(Path.cwd()))
    sys.argv[:] = ["-m", *args]
    try:
        # What `python -m` itself asks; it imports the packages that the module is in.
        _, spec, code = runpy._get_module_details(name, _NotRunnableError)  # type: ignore[attr-defined]
    except _NotRunnableError as error:
        raise ScriptNotFoundError(f"there is no module {name} that can be run: {error}") from error
    sys.argv[0] = spec.origin or name
    _execute(code, file=spec.origin, spec=spec, loader=spec.loader)


class _NotRunnableError(Exception):
    """There is no such module, or it cannot be run."""


def users_traceback(error: BaseException) -> TracebackType | None:
    """Without the frames of those who ran the script: what Python itself would show."""
    shown = error.__traceback__
    while shown is not None:
        module = str(shown.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in _OF_THE_RUN:
            break
        shown = shown.tb_next
    return shown


def _first_on_path(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):  # which Python has from 3.11 on
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
