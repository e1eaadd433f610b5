"""Prepares cases for measurement: builds their scripted models and compiles their C++ code.

Python cases without a model are ready at once, so measuring starts while models are built and C++
is compiled. C++ statements are compiled together, in at most as many units as there are cores.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torchmark.define.snippets import MODULE_NAME, setup_with_model
from torchmark.engine.cores import begin
from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.compiler import Toolchain, find_toolchain
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.files import discard, make_private_directory
from torchmark.engine.under_test import Workers
from torchmark.engine.zygote.cases import PythonCase, Ready, with_torch
from torchmark.errors import CaseFailedError, TorchmarkError
from torchmark.files import PRIVATE, cache_directory, make_folder, write_whole
from torchmark.model.case import Case, Language, ScriptedModel

_FEWEST_IN_UNIT = 24
"""Statements that justify a separate unit: parsing torch's headers takes as long as compiling
them."""

_BUILD = """
import runpy
runpy.run_path({source!r}, run_name={name!r})["jit_model"].save({path!r})
"""


@dataclass
class Models:
    """Scripted models, each built once in the environment under test; call `close` in the end.

    Each run builds its models again, because the modules they import may have changed. A model is
    stored in the user's cache under a name derived from its source and from torch. So the text of a
    compiled case, which contains the path, is the same in the next run.
    """

    workers: Workers
    cores: Collection[int]
    kept: Path | None
    """The run's directory for copies of the models, if the run has one."""

    time_limit: float

    def __post_init__(self) -> None:
        self._private = make_private_directory()
        self._made: dict[str, Path | CaseFailedError] = {}

    def path_of(self, model: ScriptedModel) -> Path:
        """Return the path of the model; raise CaseFailedError if it could not be built."""
        if model.id not in self._made:
            try:
                self._made[model.id] = self._keep(self._build(model))
            except CaseFailedError as error:
                self._made[model.id] = error
        made = self._made[model.id]
        if isinstance(made, CaseFailedError):
            raise made
        return made

    def close(self) -> None:
        discard(self._private)

    def _build(self, model: ScriptedModel) -> Path:
        source, path = (self._private / f"{model.id}.{ending}" for ending in ("py", "pt"))
        try:
            source.write_text(model.source, encoding="utf-8")
        except OSError as error:
            raise CaseFailedError(
                f"the scripted model cannot be written to {source}: {error.strerror}", kind="lost"
            ) from error
        script = _BUILD.format(path=str(path), source=str(source), name=MODULE_NAME)
        zygote = self.workers.start(1, under_callgrind=False)
        zygote.run(PythonCase(stmt=script), cores=self.cores, time_limit=self.time_limit)
        return path

    def _keep(self, made: Path) -> Path:
        """Move the model to the cache; if that is not writable, it stays in the private folder."""
        facts = self.workers.facts()
        environment = hashlib.sha256(f"{facts['torch']}\n{facts['executable']}".encode())
        with contextlib.suppress(OSError):
            if self.kept is not None:
                _copy(made, self.kept)
        try:
            return _copy(made, cache_directory() / "models" / environment.hexdigest()[:16])
        except OSError:
            return made


def _copy(made: Path, folder: Path) -> Path:
    copy = make_folder(folder) / made.name
    write_whole(copy, made.read_bytes(), mode=PRIVATE)  # atomically: nobody loads half a model
    return copy


class PreparedCase(NamedTuple):
    """A case with what a zygote needs to run it, or with the error that prevents it."""

    case: Case
    ready: Ready | TorchmarkError


def prepare_cases(
    cases: Iterable[Case],
    models: Models,
    *,
    units_at_once: int,
    stage: Callable[[str], AbstractContextManager[None]],
    toolchain: Callable[[], Toolchain] = find_toolchain,
) -> Iterator[PreparedCase]:
    """Yield every case as soon as it can be measured; `stage` reports slow steps.

    `toolchain` finds the compiler and flags for C++; for another environment, pass `toolchain_of`
    its facts. It is only called if there are C++ cases, so a missing compiler or header fails only
    those.
    """
    waiting = list(cases)
    to_compile: dict[str, Case] = {}
    for case in sorted(waiting, key=lambda case: case.model is not None):  # models are slow
        filled = case
        if case.model is not None:
            try:
                path = models.path_of(case.model)
            except TorchmarkError as error:
                yield PreparedCase(case, error)
                continue
            filled = replace(case, setup=setup_with_model(case, str(path)))
        if case.language is Language.PYTHON:
            yield PreparedCase(case, with_torch(filled))
        else:
            to_compile[case.id] = filled
    to_build = [(case, to_compile[case.id]) for case in waiting if case.id in to_compile]
    if to_build:
        number = len(to_build)
        what = "a C++ statement" if number == 1 else f"{number} C++ statements"
        with stage(f"compiling {what}"):
            yield from _build_all(to_build, units_at_once, toolchain)


def _build_all(
    cases: Sequence[tuple[Case, Case]], units_at_once: int, toolchain: Callable[[], Toolchain]
) -> Iterator[PreparedCase]:
    """Build pairs of a planned case and the case to compile, which has the model's path in it."""
    units = max(1, min(units_at_once, math.ceil(len(cases) / _FEWEST_IN_UNIT)))
    shares = [cases[start::units] for start in range(units)]
    building = {begin(partial(_build, share, toolchain), "compiling"): share for share in shares}
    for built in as_completed(building):
        for (case, _), result in zip(building[built], built.result(), strict=True):
            yield PreparedCase(case, result)


def _build(
    share: Sequence[tuple[Case, Case]], toolchain: Callable[[], Toolchain]
) -> Sequence[Ready | TorchmarkError]:
    statements = [CppStatement(case.stmt, case.setup, case.global_setup) for _, case in share]
    try:
        return build(statements, toolchain=toolchain())
    except TorchmarkError as error:  # no compiler, no header, or no writable directory
        return [error] * len(share)
