"""Cases, run as a runner does: models scripted once and saved, C++ compiled as one batch."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

import torch

from torchmark.define.snippets import MODULE_NAME, setup_with_model
from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.cache import Cache
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.machine import set_torch_threads
from torchmark.engine.zygote.cases import NativeCase
from torchmark_probe.loops.native import NativeLoop
from torchmark_probe.loops.snippets import PythonLoop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from torchmark.model.case import Case

NO_SCRIPT_WARNING = "ignore:.torch.jit:DeprecationWarning"
"""torch would rather see people use torch.compile; the cases are about TorchScript."""


def save_models(cases: Iterable[Case], folder: Path) -> None:
    """Script what the cases load, each model once."""
    for model in {case.model.id: case.model for case in cases if case.model}.values():
        source = folder / f"{model.id}.py"  # torch reads the text of what it scripts from its file
        source.write_text(model.source)
        names = runpy.run_path(str(source), run_name=MODULE_NAME)
        names["jit_model"].save(str(folder / f"{model.id}.pt"))


def setup_of(case: Case, folder: Path) -> str:
    if case.model is None:
        return case.setup
    return setup_with_model(case, str(folder / f"{case.model.id}.pt"))


def run_python(case: Case, folder: Path, check: str = "") -> None:
    """Run the case; what `check` asserts then sees its variables."""
    names: dict[str, Any] = {"torch": torch}
    with set_torch_threads(case.num_threads):
        PythonLoop(f"{case.stmt}\n{check}", setup_of(case, folder), globals=names).timeit(2)


def build_cpp(cases: Sequence[Case], folder: Path, checks: Sequence[str]) -> list[NativeCase]:
    """Compile all of them together; each statement is followed by its check."""
    results = build(
        [
            CppStatement(f"{case.stmt}\n;{check}", setup_of(case, folder), case.global_setup)
            for case, check in zip(cases, checks, strict=True)
        ],
        cache=Cache(folder / "builds"),
    )
    failures = [str(result) for result in results if not isinstance(result, NativeCase)]
    assert not failures, "\n".join(failures)
    return [result for result in results if isinstance(result, NativeCase)]


def run_cpp(case: Case, built: NativeCase) -> None:
    with set_torch_threads(case.num_threads):
        NativeLoop(str(built.library), built.symbol).run(2, 1)
