"""Loads a suite by name: one of torchmark's own, a Python file, a folder of `bench_*.py` files, a
module, or a trace of operator calls, whose distinct calls are its cases.

What a file defines:

- `SUITE`, if there is this name, and nothing else. Otherwise `BENCHMARKS` or `ADHOC_BENCHMARKS`,
  the names in PyTorch's instruction-count suite. These names are not part of labels.
- Otherwise every variable that has definitions (a single one, a list, a dictionary, the result of
  GroupedVariants), labelled by the variable's name. Names that start with an underscore are
  ignored.

If a file cannot be loaded, only its own definitions are missing, and the failure is returned. The
name of a file is not part of labels, so renaming it does not affect results.

A file contains the user's code. The caller chooses the process that runs it: `read_here` uses this
process, `torchmark.engine.user_files` another one.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from torchmark.analyse.devices import devices_of, warn_of_devices
from torchmark.capture.traces.loading import is_named_like_a_trace, load_trace
from torchmark.define.expansion import (
    ConditionalCase,
    Suite,
    expand,
    features_asked,
    holds_a_definition,
    judge_skips,
)
from torchmark.define.recorded import definitions_of
from torchmark.define.skips import NOTHING_KNOWN, EnvironmentFacts
from torchmark.define.suites import SHIPPED
from torchmark.errors import DefinitionError, SuiteFileError, SuiteNotFoundError, TorchmarkError
from torchmark.model.case import Case
from torchmark_probe.zygote.handlers import full_text

PATTERN = "bench_*.py"
"""The files that a folder of benchmarks loads."""

_SUITE_NAMES = ("SUITE", "BENCHMARKS", "ADHOC_BENCHMARKS")

Source: TypeAlias = Path | str
"""A file, or the name of a module."""

CasesOfFile: TypeAlias = tuple[ConditionalCase, ...]

Reader: TypeAlias = Callable[[Sequence[Source]], Iterable[CasesOfFile | SuiteFileError]]
"""Returns what each source defines, in order, or why that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSuite:
    """The result of loading a suite."""

    name: str
    """The name that was asked for."""

    parts: tuple[CasesOfFile, ...]
    """The cases of each file that was loaded."""

    failures: tuple[SuiteFileError, ...] = ()
    """The error of each file that was not."""

    notes: tuple[str, ...] = ()
    """Notes for the report: what a trace lacks, and on which other devices it ran."""

    def features_asked(self) -> frozenset[str]:
        """Return the features of torch that skip conditions depend on."""
        return frozenset[str]().union(*map(features_asked, self.parts))


def read_here(sources: Sequence[Source]) -> Iterator[CasesOfFile | SuiteFileError]:
    """Run the files in this process, and import the modules."""
    for source in sources:
        try:
            module = run_file(source) if isinstance(source, Path) else _import(source)
            yield _cases_in(module, file=str(source))
        except SuiteFileError as error:
            yield error


def load_suite(name: str, read: Reader = read_here) -> LoadedSuite:
    """Return the suite of this name; raise SuiteNotFoundError if there is none.

    A name that ends like a trace's is never tried as a module: if the file is missing, Python must
    not import something else.
    """
    if name in SHIPPED:
        return _load_parts(name, [SHIPPED[name]], read_here)
    path = Path(name)
    if path.is_dir():
        files = sorted(path.glob(PATTERN))
        if not files:
            raise SuiteNotFoundError(f"the folder {name} has no {PATTERN} files")
        return _load_parts(name, files, read)
    if is_named_like_a_trace(name) or (path.is_file() and path.suffix != ".py"):
        trace = load_trace(path)
        notes = [f"{name} lacks: {sentence}" for sentence in trace.unseen]
        notes += [f"{name}: {said}" for said in warn_of_devices([*map(devices_of, trace.calls)])]
        return LoadedSuite(name=name, parts=(expand(definitions_of(trace)),), notes=tuple(notes))
    if path.suffix == ".py" or os.sep in name:
        if not path.exists():
            raise SuiteNotFoundError(f"there is no file or folder {name}")
        return _load_parts(name, [path], read)
    return _load_parts(name, [name], read)


def cases_of(
    suites: Iterable[LoadedSuite], *, facts: EnvironmentFacts = NOTHING_KNOWN
) -> tuple[Case, ...]:
    """Return the cases of several suites; a case that is in two of them is returned once."""
    cases = {
        case.id: case
        for suite in suites
        for part in suite.parts
        for case in judge_skips(part, facts)
    }
    return tuple(cases.values())


def _load_parts(name: str, sources: Sequence[Source], read: Reader) -> LoadedSuite:
    found = list(read(sources))
    return LoadedSuite(
        name=name,
        parts=tuple(each for each in found if not isinstance(each, SuiteFileError)),
        failures=tuple(each for each in found if isinstance(each, SuiteFileError)),
    )


def _cases_in(module: ModuleType, *, file: str) -> CasesOfFile:
    """Return the definitions of the module as cases."""
    names = vars(module)
    chosen = next((name for name in _SUITE_NAMES if name in names), None)
    if chosen is not None:
        suite: Suite = names[chosen]
    else:
        suite = {
            name: value
            for name, value in names.items()
            if not name.startswith("_") and holds_a_definition(value)
        }
    try:
        cases = expand(suite)
    except DefinitionError as error:
        raise SuiteFileError(str(error), file=file) from error
    if not cases:
        raise SuiteFileError(
            "no benchmarks are defined; define a dictionary SUITE, or variables that hold "
            "GroupedStmts, GroupedModules, GroupedVariants or TimerArgs",
            file=file,
        )
    return cases


def run_file(path: Path) -> ModuleType:
    """Run the file as a module; it is compiled here, so that nothing is written next to it."""
    module = ModuleType(f"torchmark_suite_{path.stem}")
    module.__file__ = str(path)
    with _failing_as(str(path)), _importing_from(path.parent):
        code = compile(path.read_bytes(), str(path), "exec")
        sys.modules[module.__name__] = module  # dataclasses look up their module there
        exec(code, vars(module))  # noqa: S102 - running the user's file is what was asked
    return module


def _import(name: str) -> ModuleType:
    with _failing_as(name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise SuiteNotFoundError(
                f"there is no suite {name!r}: it is not a file, a folder, a module that can be "
                f"imported, or one of torchmark's own ({', '.join(SHIPPED)})"
            ) from error


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let the file import modules in its folder, as if Python ran it."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)


@contextmanager
def _failing_as(file: str) -> Iterator[None]:
    """Turn any error of the user's file into a SuiteFileError with the place in that file."""
    try:
        yield
    except SuiteNotFoundError:
        raise
    except SyntaxError as error:
        raise SuiteFileError(
            f"SyntaxError: {error.msg}",
            file=error.filename or file,
            line=error.lineno,
            text=error.text or "",
            column=error.offset,
        ) from error
    except (Exception, SystemExit) as error:
        line, text = _place_of(error, file)
        # The class name of a TorchmarkError adds nothing to its message.
        said = str(error) if isinstance(error, TorchmarkError) else full_text(error)
        raise SuiteFileError(said, file=file, line=line, text=text) from error


def _place_of(error: BaseException, file: str) -> tuple[int | None, str]:
    """Return the innermost line of this file in the traceback, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if not lines or lines[-1] is None:
        return None, ""
    linecache.checkcache(file)
    return lines[-1], linecache.getline(file, lines[-1])
