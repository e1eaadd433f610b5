"""Statements that are timed in rounds in one forked process, in Python and in C++."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.light_cpp import compile_light
from torchmark.analyse.ratios import ratio_of
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.measuring import time_together
from torchmark.engine.zygote.cases import with_torch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import StatementSyntaxError
from torchmark.model.case import Case, Language
from torchmark.model.result import Result, Status
from torchmark.model.run import Effort
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EFFORT = Effort(limits=Limits(0.1, 0.01, 0.1), timeout=1.0)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


def time_python(zygote: Zygote, *stmts: str, setup: str = "pass") -> list[Result]:
    cases = [Case(label=(), stmt=stmt, setup=setup) for stmt in stmts]
    return time_together(cases, [with_torch(case) for case in cases], zygote, EFFORT)


def test_all_have_the_same_rounds_and_can_be_compared(zygote: Zygote) -> None:
    once, often = time_python(zygote, "sum(x)", "for _ in range(20): sum(x)", setup="x = [1] * 99")
    assert once.measurement is not None
    assert often.measurement is not None
    ratio = ratio_of(often.measurement, once.measurement)
    assert ratio.rounds > 5
    assert ratio.value > 5


def test_one_that_hangs_in_a_later_run_is_found(zygote: Zygote) -> None:
    """The limit begins again with every block, so the others are not in its way."""
    setup = "import itertools, time\nruns = itertools.count()"
    late = "if next(runs) == 500: time.sleep(900)"
    before, hangs, after = time_python(zygote, "pass", late, "1", setup=setup)
    assert (before.status, after.status) == (Status.DONE, Status.DONE)
    assert hangs.reason == (
        "the case was stopped at its time limit of 1 s; raise the timeout if it needs longer"
    )


def test_what_takes_longer_than_the_limit_in_all_is_measured(zygote: Zygote) -> None:
    """Each run is below it."""
    (result,) = time_together(
        [Case(label=(), stmt="time.sleep(0.3)", setup="import time")],
        [with_torch(Case(label=(), stmt="time.sleep(0.3)", setup="import time"))],
        zygote,
        Effort(limits=Limits(0.1, 2.0, 2.0), timeout=1.0),
    )
    assert result.status is Status.DONE


def test_a_mistake_in_the_syntax_is_an_error(zygote: Zygote) -> None:
    with pytest.raises(StatementSyntaxError):
        time_python(zygote, "pass", "x = = 1")


def test_a_cpp_statement_that_aborts_costs_itself_alone(zygote: Zygote, tmp_path: Path) -> None:
    statements = [
        CppStatement("k += 1;", "volatile long k = 0;", ""),
        CppStatement("std::abort();", "", "#include <cstdlib>"),
        CppStatement('std::puts("said");', "", "#include <cstdio>"),
    ]
    ready = compile_light(tmp_path, statements)
    cases = [Case(label=(), stmt=each.stmt, language=Language.CPP) for each in statements]
    good, bad, loud = time_together(cases, ready, zygote, EFFORT)
    assert (good.status, loud.status) == (Status.DONE, Status.DONE)
    assert bad.reason == "the case crashed its process with SIGABRT"
    assert loud.stdout.startswith("said\n")
    assert (good.stdout, bad.stdout) == ("", "")
