"""Which Python functions are behind a change: a patched one is named, in real zygotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import light_torch
from tests.engine.zygote_cases import TORCH
from torchmark.engine.paired.comparing import compare_python_calls
from torchmark.engine.under_test import UnderTest, open_environment
from torchmark.engine.zygote.cases import NativeCase, PythonCase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchmark.model.result import PythonCalls

FUNCTIONS = """
def helper(n):
    return n + 1

def relu(n):
    return helper(n)

def other(n):
    return n * 2
"""

PATCHED = """
def extra(n):
    for _ in range(20):
        n = n + 1
    return n

def relu(n):
    if n:
        return extra(helper(n))
"""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[UnderTest, UnderTest]]:
    folder = tmp_path_factory.mktemp("environments")
    a = open_environment("A", light_torch.put_into(folder / "a", FUNCTIONS))
    b = open_environment(
        "B", light_torch.put_into(folder / "b, with a longer name", FUNCTIONS + PATCHED)
    )
    yield a, b
    a.close()
    b.close()


def explained(
    sides: tuple[UnderTest, UnderTest], stmt: str, in_b: str | None = None
) -> tuple[PythonCalls, ...]:
    ready = (
        PythonCase(stmt=stmt, globals=TORCH),
        PythonCase(stmt=stmt if in_b is None else in_b, globals=TORCH),
    )
    return compare_python_calls(sides, ready, threads=1, time_limit=60)


def test_the_patched_function_is_named_biggest_first(sides: tuple[UnderTest, UnderTest]) -> None:
    new, patched = explained(sides, "torch.relu(1)")
    assert new.function == "extra (torch/__init__.py)"
    assert new.a == 0 < new.b
    assert patched.function == "relu (torch/__init__.py)"
    assert 0 < patched.a < patched.b < new.b


def test_what_shrinks_is_told_too(sides: tuple[UnderTest, UnderTest]) -> None:
    b, a = sides
    functions = explained((a, b), "torch.relu(1)")
    assert [(each.function.split()[0], each.b - each.a < 0) for each in functions] == [
        ("extra", True),
        ("relu", True),
    ]


def test_what_is_the_same_has_nothing_to_explain(sides: tuple[UnderTest, UnderTest]) -> None:
    assert explained(sides, "torch.other(1)") == ()


def test_another_statement_is_the_difference_itself(sides: tuple[UnderTest, UnderTest]) -> None:
    (only,) = explained(sides, "1 + 1", "n = 1; n + n")
    assert only.function == "the statement"
    assert only.b > only.a


def test_a_statement_that_cannot_be_traced_is_left_unexplained(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    assert explained(sides, "torch.relu(1)", "nowhere") == ()


def test_compiled_statements_have_no_python_functions(
    sides: tuple[UnderTest, UnderTest], tmp_path: Path
) -> None:
    native = NativeCase(library=tmp_path / "no.so", symbol="run")
    assert compare_python_calls(sides, (native, native), threads=1, time_limit=1) == ()
