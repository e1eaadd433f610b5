"""What a case needs before it can be measured: its scripted model, and in C++ its library.

Python cases without a model are ready at once, so that measuring begins while models are made and
C++ is compiled. C++ statements are compiled together, in as many units as there are cores for it.
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
"""Statements that are worth a unit of their own: parsing torch's headers costs as much as they."""

_BUILD = """
import runpy
runpy.run_path({source!r}, run_name={name!r})["jit_model"].save({path!r})
"""


@dataclass
class Models:
    """Scripted models, each built once in the environment under test; `close` in the end.

    Each run makes its models anew, since what they import may have changed, and puts them under a
    name in the user's cache that follows from their source and from torch: so the text of a
    compiled case, which has the path in it, is the same in the next run.
    """

    workers: Workers
    cores: Collection[int]
    kept: Path | None
    """The directory beside the run that gets a copy, if there is one."""

    time_limit: float

    def __post_init__(self) -> None:
        self._private = make_private_directory()
        self._made: dict[str, Path | CaseFailedError] = {}

    def path_of(self, model: ScriptedModel) -> Path:
        """Where the model lies; the CaseFailedError of its making, if it could not be made."""
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
        """The model under its lasting name; where the cache cannot be written it stays here."""
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
    write_whole(copy, made.read_bytes(), mode=PRIVATE)  # nobody loads half a model
    return copy


class PreparedCase(NamedTuple):
    """A case and what a zygote is given, or why there is nothing to give."""

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
    """Every case, as soon as it can be measured; `stage` hears of what takes its time.

    `toolchain` finds what C++ is built with: for another environment, `toolchain_of` its facts.
    It is asked where C++ cases are, so a compiler or header that is missing costs them alone.
    """
    waiting = list(cases)
    to_compile: dict[str, Case] = {}
    for case in sorted(waiting, key=lambda case: case.model is not None):  # models take their time
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
    """Pairs of a case as it is planned and as it is compiled, with the model's path in it."""
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
    except TorchmarkError as error:  # there is no compiler, no header, or nowhere to write
        return [error] * len(share)
