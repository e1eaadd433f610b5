"""Somebody's script or module, run in this process as `python SCRIPT` and `python -m MODULE` would.

It becomes `__main__`, with its own arguments and its own folder first on the path, and stays so
until the process ends: what it leaves behind (threads, functions for the exit, workers that are
spawned) finds it there.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torchmark.errors import ScriptNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, TracebackType


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
    spec = _spec_of(name)
    code = _code_of(spec)
    if spec is None or code is None:
        raise ScriptNotFoundError(
            f"there is no module {name} that can be run: `python -m {name}` does not find it either"
        )
    sys.argv[0] = spec.origin or name
    _execute(code, file=spec.origin, spec=spec, loader=spec.loader)


def users_traceback(error: BaseException) -> TracebackType | None:
    """Without the frames of those who ran the script: what Python itself would show."""
    shown = error.__traceback__
    while shown is not None:
        module = str(shown.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in ("torchmark", "importlib", "_frozen_importlib"):
            break
        shown = shown.tb_next
    return shown


def _first_on_path(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):  # which Python has from 3.11 on
        sys.path[0] = folder


def _spec_of(name: str) -> ModuleSpec | None:
    """Imports the packages that it is in, and nothing else; a package is run by its `__main__`."""
    if name.startswith("."):
        return None
    package = name.rpartition(".")[0]
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            package, name = name, f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ValueError:  # `__main__` itself has no spec
        return None
    except ModuleNotFoundError as error:
        if error.name is not None and f"{package}.".startswith(f"{error.name}."):
            return None  # one of its packages; any other is missing from their code
        raise
    return spec


def _code_of(spec: ModuleSpec | None) -> CodeType | None:
    get_code = getattr(spec and spec.loader, "get_code", None)
    code: CodeType | None = None if get_code is None or spec is None else get_code(spec.name)
    return code


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
