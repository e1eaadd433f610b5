"""What a case needs is made for the environment under test."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from tests.engine.running.fakes import FakeWorld
from torchmark.engine import preparing
from torchmark.engine.cpp.compiler import Toolchain
from torchmark.engine.preparing import Models, prepare_cases
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.errors import LibtorchMissingError
from torchmark.model.case import Case, Language

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pytest

    from torchmark.engine.cpp.source import CppStatement

PYTHON = Case(label=("python",), stmt="a")
CPP = Case(label=("cpp",), stmt="b", language=Language.CPP)

OTHER = Toolchain(command=("c++",), version="1", flags=(), link_flags=(), torch_build="other")


def stage(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def made(
    directory: Path, cases: Sequence[Case], toolchain: Callable[[], Toolchain]
) -> dict[str, object]:
    workers = FakeWorld(directory).workers()
    models = Models(workers, cores=(), kept=None, time_limit=1.0)
    try:
        ready = prepare_cases(cases, models, units_at_once=1, stage=stage, toolchain=toolchain)
        return {case.stmt: what for case, what in ready}
    finally:
        models.close()


def test_cpp_is_built_with_the_toolchain_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Toolchain] = []

    def build(statements: Sequence[CppStatement], *, toolchain: Toolchain) -> list[NativeCase]:
        used.append(toolchain)
        return [NativeCase("library.so", each.stmt) for each in statements]

    monkeypatch.setattr(preparing, "build", build)
    ready = made(tmp_path, [CPP], lambda: OTHER)
    assert isinstance(ready["b"], NativeCase)
    assert used == [OTHER]


def test_an_environment_without_headers_costs_its_cpp_cases_alone(tmp_path: Path) -> None:
    error = LibtorchMissingError("no headers")

    def refuse() -> Toolchain:
        raise error

    ready = made(tmp_path, [CPP, PYTHON], refuse)
    assert ready["b"] is error
    assert isinstance(ready["a"], PythonCase)


def test_where_nothing_is_in_cpp_nobody_looks_for_a_compiler(tmp_path: Path) -> None:
    def refuse() -> Toolchain:
        raise AssertionError("asked for a compiler")

    assert isinstance(made(tmp_path, [PYTHON], refuse)["a"], PythonCase)
