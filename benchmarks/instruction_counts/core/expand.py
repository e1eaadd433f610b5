"""Definitions become statements: `materialize` as the instruction-count suite has it."""

from __future__ import annotations

import runpy
from pathlib import Path

from core.api import AutogradMode, AutoLabels, Language, RuntimeMode, TimerArgs
from core.types import FlatDefinition, FlatIntermediateDefinition
from core.utils import get_temp_dir

import torchmark
from torchmark.define.snippets import MODULE_NAME, setup_with_model
from torchmark.model.case import Autograd, Case, Runtime, ScriptedModel

_RUNTIMES = {
    Runtime.EAGER: RuntimeMode.EAGER,
    Runtime.TORCHSCRIPT: RuntimeMode.JIT,
    Runtime.COMPILED: RuntimeMode.COMPILED,
    Runtime.EXPLICIT: RuntimeMode.EXPLICIT,
}
_PASSES = {
    Autograd.FORWARD: AutogradMode.FORWARD,
    Autograd.FORWARD_BACKWARD: AutogradMode.FORWARD_BACKWARD,
    Autograd.EXPLICIT: AutogradMode.EXPLICIT,
}


def materialize(benchmarks: FlatIntermediateDefinition) -> FlatDefinition:
    """Every statement with its label and its derived labels; models are scripted and saved.

    The order is the original's: by runtime, then pass, then language, then threads.
    """
    return tuple(
        (case.label, _labels_of(case), _arguments_of(case))
        for label, definition in benchmarks.items()
        for case in sorted(torchmark.materialize({label: definition}), key=_place)
    )


def _place(case: Case) -> tuple[int, ...]:
    return (
        list(_RUNTIMES).index(case.runtime),
        list(_PASSES).index(case.autograd),
        list(Language).index(case.language),
    )


def _labels_of(case: Case) -> AutoLabels:
    return AutoLabels(_RUNTIMES[case.runtime], _PASSES[case.autograd], case.language)


def _arguments_of(case: Case) -> TimerArgs:
    setup = case.setup if case.model is None else setup_with_model(case, _save(case.model))
    return TimerArgs(case.stmt, setup, case.global_setup, case.num_threads, case.language)


def _save(model: ScriptedModel) -> str:
    """The path of the scripted model; TorchScript reads source code from files alone."""
    source = Path(get_temp_dir(), f"{model.id}.py")
    saved = source.with_suffix(".pt")
    if not saved.exists():
        source.write_text(model.source, encoding="utf-8")
        runpy.run_path(str(source), run_name=MODULE_NAME)["jit_model"].save(str(saved))
    return str(saved)
