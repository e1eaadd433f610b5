"""What a case needs before it can be measured: its scripted model, and in C++ its library.

Python cases without a model are ready at once, so that measuring begins while models are made and
C++ is compiled. C++ statements are compiled together, in as many units as there are cores for it.
"""

from __future__ import annotations

import math
from concurrent.futures import as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchmark.define.snippets import setup_with_model
from torchmark.engine.background import begin
from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.cache import Built
from torchmark.engine.cpp.compiler import find_toolchain
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.errors import TorchmarkError
from torchmark.model.case import Language

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from torchmark.engine.cpp.compiler import Toolchain
    from torchmark.engine.models import Models
    from torchmark.model.case import Case

_FEWEST_IN_UNIT = 24
"""Statements that are worth a unit of their own: parsing torch's headers costs as much as they."""

_TORCH = {"torch": {"kind": "import", "value": "torch"}}


class PreparedCase(NamedTuple):
    """A case and what a zygote is given, or why there is nothing to give."""

    case: Case
    ready: PythonCase | NativeCase | TorchmarkError


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
    with_model = [case for case in waiting if case.model is not None]
    for case in waiting:
        if case.model is None and case.language is Language.PYTHON:
            yield PreparedCase(case, _python_case(case))
    filled: dict[str, Case] = {}
    for case in with_model:
        try:
            filled[case.id] = _with_path(case, models)
        except TorchmarkError as error:
            yield PreparedCase(case, error)
            continue
        if case.language is Language.PYTHON:
            yield PreparedCase(case, _python_case(filled[case.id]))
    to_build = [
        (case, filled.get(case.id, case))
        for case in waiting
        if case.language is Language.CPP and (case.model is None or case.id in filled)
    ]
    if to_build:
        number = len(to_build)
        what = "a C++ statement" if number == 1 else f"{number} C++ statements"
        with stage(f"compiling {what}"):
            yield from _build_all(to_build, units_at_once, toolchain)


def _python_case(case: Case) -> PythonCase:
    return PythonCase(stmt=case.stmt, setup=case.setup, globals=_TORCH)


def _with_path(case: Case, models: Models) -> Case:
    assert case.model is not None
    return replace(case, setup=setup_with_model(case, str(models.path_of(case.model))))


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
) -> list[NativeCase | TorchmarkError]:
    statements = [CppStatement(case.stmt, case.setup, case.global_setup) for _, case in share]
    try:
        results = build(statements, toolchain=toolchain())
    except TorchmarkError as error:  # there is no compiler, no header, or nowhere to write
        return [error] * len(share)
    return [
        NativeCase(library=Path(result.library), symbol=result.symbol)
        if isinstance(result, Built)
        else result
        for result in results
    ]
