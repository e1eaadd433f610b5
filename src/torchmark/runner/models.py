"""Scripted models of a run: built once in the environment under test, loaded by every case.

They lie in the user's cache under a name that follows from their source and from torch, so that
the text of a compiled case, which has the path in it, is the same in the next run; and a copy is
kept beside the run.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from typing import TYPE_CHECKING

from torchmark.errors import CaseFailedError
from torchmark.expand.model_files import MODULE_NAME
from torchmark.run.private_directories import private_directory
from torchmark.run.user_directories import cache_directory
from torchmark.run.zygote import PythonCase

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.model.case import ScriptedModel
    from torchmark.runner.workers import Workers

_BUILD = """
import os, runpy
part = {path!r} + ".part" + str(os.getpid())
runpy.run_path({source!r}, run_name={name!r})["jit_model"].save(part)
os.replace(part, {path!r})
"""


class Models:
    """The saved models, each made at its first use."""

    def __init__(self, workers: Workers, *, kept: Path | None, time_limit: float) -> None:
        """`kept` is the directory beside the run that gets a copy, if there is one."""
        self._workers = workers
        self._kept = kept
        self._private: Path | None = None
        self._time_limit = time_limit
        self._failures: dict[str, CaseFailedError] = {}
        self._paths: dict[str, Path] = {}

    def path_of(self, model: ScriptedModel) -> Path:
        """Where the model lies; the CaseFailedError of its making, if it could not be made."""
        if model.id in self._failures:
            raise self._failures[model.id]
        if model.id not in self._paths:
            try:
                self._paths[model.id] = self._made(model)
            except CaseFailedError as error:
                self._failures[model.id] = error
                raise
        return self._paths[model.id]

    def _made(self, model: ScriptedModel) -> Path:
        facts = self._workers.facts()
        environment = hashlib.sha256(
            f"{facts['torch']}\n{facts['executable']}".encode()
        ).hexdigest()[:16]
        folder = self._writable(cache_directory() / "models" / environment)
        path = folder / f"{model.id}.pt"
        if not path.exists():
            source = folder / f"{model.id}.py"
            source.write_text(model.source, encoding="utf-8")
            script = _BUILD.format(path=str(path), source=str(source), name=MODULE_NAME)
            zygote = self._workers.started(1, under_callgrind=False)
            zygote.run(PythonCase(stmt=script), time_limit=self._time_limit)
        if self._kept is not None:
            with contextlib.suppress(OSError):  # the run goes on without the copy
                self._kept.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self._kept / path.name)
        return path

    def _writable(self, folder: Path) -> Path:
        """The folder, or one of this run alone where the cache cannot be written."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / "probe").touch()
            (folder / "probe").unlink(missing_ok=True)
        except OSError:
            if self._private is None:
                self._private = private_directory()
            return self._private
        return folder

    def close(self) -> None:
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
