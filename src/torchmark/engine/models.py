"""Scripted models of a run: built once in the environment under test, loaded by every case.

Each run makes its models anew, since what they import may have changed, and puts them under a name
in the user's cache that follows from their source and from torch: so the text of a compiled case,
which has the path in it, is the same in the next run. A copy is kept beside the run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from torchmark.define.snippets import MODULE_NAME
from torchmark.engine.files import cache_directory, discard, make_private_directory
from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import CaseFailedError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from torchmark.engine.workers import Workers
    from torchmark.model.case import ScriptedModel

_BUILD = """
import runpy
runpy.run_path({source!r}, run_name={name!r})["jit_model"].save({path!r})
"""


class Models:
    """The saved models, each made at its first use; `close` in the end."""

    def __init__(
        self, workers: Workers, *, cores: Collection[int], kept: Path | None, time_limit: float
    ) -> None:
        """`kept` is the directory beside the run that gets a copy, if there is one."""
        self._workers = workers
        self._cores = cores
        self._kept = kept
        self._time_limit = time_limit
        self._private = make_private_directory()
        self._failures: dict[str, CaseFailedError] = {}
        self._paths: dict[str, Path] = {}

    def path_of(self, model: ScriptedModel) -> Path:
        """Where the model lies; the CaseFailedError of its making, if it could not be made."""
        if model.id in self._failures:
            raise self._failures[model.id]
        if model.id not in self._paths:
            try:
                self._paths[model.id] = self._placed(model.id, self._made(model))
            except CaseFailedError as error:
                self._failures[model.id] = error
                raise
        return self._paths[model.id]

    def close(self) -> None:
        discard(self._private)

    def _made(self, model: ScriptedModel) -> Path:
        source, path = (self._private / f"{model.id}.{ending}" for ending in ("py", "pt"))
        try:
            source.write_text(model.source, encoding="utf-8")
        except OSError as error:
            raise CaseFailedError(
                f"the scripted model cannot be written to {source}: {error.strerror}", kind="lost"
            ) from error
        script = _BUILD.format(path=str(path), source=str(source), name=MODULE_NAME)
        zygote = self._workers.start(1, under_callgrind=False)
        zygote.run(PythonCase(stmt=script), cores=self._cores, time_limit=self._time_limit)
        return path

    def _placed(self, name: str, made: Path) -> Path:
        """The model under its lasting name; where the cache cannot be written it stays here."""
        facts = self._workers.facts()
        environment = hashlib.sha256(f"{facts['torch']}\n{facts['executable']}".encode())
        place = cache_directory() / "models" / environment.hexdigest()[:16] / f"{name}.pt"
        with contextlib.suppress(OSError):
            if self._kept is not None:
                _copy(made, self._kept / made.name)
        try:
            _copy(made, place)
        except OSError:
            return made
        return place


def _copy(made: Path, place: Path) -> None:
    """Copy beside it and rename, so that nobody loads half a model."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = place.with_name(f"{place.name}.part{os.getpid()}")
    try:
        shutil.copyfile(made, part)
        os.replace(part, place)
    except OSError:
        part.unlink(missing_ok=True)
        raise
