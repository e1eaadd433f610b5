"""What small cases that nobody changes say of two environments, from made-up counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tests import ab_records
from torchmark.engine.paired.counting import remarks_of, sentries
from torchmark.model.result import Metric, Status

if TYPE_CHECKING:
    from torchmark.model.result import Result
    from torchmark.model.run import Environment

PYTHON, BLAS, COMPILER = (each.planned.case for each in sentries())


def environment(name: str, python: str, config: str) -> Environment:
    facts = {"python": python, "torch": {"version": "2.13", "config": config}}
    return msgspec.structs.replace(ab_records.A, name=name, facts=facts)


A = environment("A", "3.11.7", "PyTorch built with:\n  - GCC 12.2\n  BLAS_INFO=mkl, other=1")
B = environment("new", "3.12.1", "PyTorch built with:\n  - clang 17.0.1\n  BLAS_INFO=open, x=2")


def counts(python: int = 1000, blas: int = 1000, compiler: int = 1000) -> list[Result]:
    """A takes a thousand instructions of each."""
    figures = {PYTHON: python, BLAS: blas, COMPILER: compiler}
    return [
        ab_records.counted(case, {"f": 1000}, {"f": figure}) for case, figure in figures.items()
    ]


def test_what_is_alike_is_not_worth_a_word() -> None:
    assert remarks_of(counts(), A, B) == []
    assert remarks_of(counts(python=1005, blas=995), A, B) == [], "layouts move that much"


def test_another_python_is_named_with_both_versions() -> None:
    (remark,) = remarks_of(counts(python=1100), A, B)
    assert remark.startswith(
        "plain Python takes 10.0 % more instructions in new, probably because of another Python"
    )
    assert "(A: Python 3.11.7, new: Python 3.12.1)" in remark


def test_another_blas_is_named() -> None:
    (remark,) = remarks_of(counts(blas=500), A, B)
    assert (
        "matrices takes 50.0 % fewer instructions in new, probably because of another BLAS"
        in remark
    )
    assert "(A: BLAS_INFO=mkl, new: BLAS_INFO=open)" in remark


def test_another_compiler_is_named() -> None:
    (remark,) = remarks_of(counts(compiler=1010), A, B)
    assert "another compiler or other build flags (A: GCC 12.2, new: clang 17.0.1)" in remark


def test_each_that_differs_is_told() -> None:
    assert len(remarks_of(counts(1100, 1100, 1100), A, B)) == 3


def test_an_environment_that_does_not_say_is_told_so() -> None:
    silent = msgspec.structs.replace(B, facts={})
    (remark,) = remarks_of(counts(blas=2000), A, silent)
    assert "new: unknown" in remark


def test_a_sentry_that_could_not_be_counted_says_nothing() -> None:
    gap = ab_records.missing(PYTHON, Metric.INSTRUCTIONS, Status.FAILED, "in B: no")
    assert remarks_of([gap], A, B) == []


def test_sentries_run_the_same_in_both_and_never_need_another_layout() -> None:
    for each in sentries():
        a, b = each.ready
        assert a == b
        assert a.stmt == each.planned.case.stmt  # type: ignore[union-attr]
        assert each.is_rough
