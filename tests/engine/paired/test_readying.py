"""Cases are tried in both environments before anything is measured: real zygotes, no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import light_torch
from torchmark.commands.ab_planning import plan_of_statements
from torchmark.engine.paired.plan import Planned, Wish
from torchmark.engine.paired.readying import Readied
from torchmark.engine.under_test import UnderTest, found
from torchmark.engine.zygote.cases import PythonCase
from torchmark.model.case import Case
from torchmark.model.result import Metric, Status

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[UnderTest, UnderTest]]:
    command = light_torch.put_into(tmp_path_factory.mktemp("light"))
    a, b = found("A", command), found("B", f"{command} IN_B=1")
    yield a, b
    a.close()
    b.close()


def readied(sides: tuple[UnderTest, UnderTest]) -> Readied:
    return Readied(*sides, Wish(), units_at_once=1)


def stmt_of(ready: object) -> str:
    assert isinstance(ready, PythonCase)
    return ready.stmt


def test_a_statement_alone_and_beside_another_keep_apart(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    """In A both run the same: what runs in B must not be mixed up."""
    alone, beside = plan_of_statements([("a = 1", None), ("a = 1", "a = 2")], "pass")
    ready = readied(sides)
    assert list(ready.make([alone, beside])) == []
    assert [stmt_of(each) for each in ready.of(alone)] == ["a = 1", "a = 1"]
    assert [stmt_of(each) for each in ready.of(beside)] == ["a = 1", "a = 2"]


def test_what_does_not_work_in_b_is_a_row_of_each_kind_and_the_rest_is_ready(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    plan = plan_of_statements(
        [("import os; 1 / (1 - int(os.environ.get('IN_B', 0)))", None), ("a = 1", None)], "pass"
    )
    ready = readied(sides)
    rows = list(ready.make(plan))
    assert [(row.kind, row.status) for row in rows] == [  # type: ignore[union-attr]
        (Metric.INSTRUCTIONS, Status.FAILED),
        (Metric.TIME, Status.FAILED),
    ]
    for row in rows:
        assert row.reason.startswith("in B: the case raised: ZeroDivisionError")  # type: ignore[union-attr]
    assert [planned in ready for planned in plan] == [False, True]


@pytest.mark.parametrize("stmt", ["a =", "nowhere", "import os; os.abort()"])
def test_what_works_in_neither_is_said_of_the_first(
    sides: tuple[UnderTest, UnderTest], stmt: str
) -> None:
    (planned,) = plan_of_statements([(stmt, None)], "pass")
    row, _ = readied(sides).make([planned])
    assert row.reason.startswith("in A: ")  # type: ignore[union-attr]


def test_a_statement_that_never_ends_is_stopped(sides: tuple[UnderTest, UnderTest]) -> None:
    (planned,) = plan_of_statements([("while True: pass", None)], "pass")
    ready = Readied(*sides, Wish(kinds=(Metric.TIME,), time_limit=0.5), units_at_once=1)
    (row,) = ready.make([planned])
    assert "limit of 0.5 s" in row.reason  # type: ignore[union-attr]


def test_a_kind_that_is_not_wanted_of_a_case_has_no_row(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    planned = Planned(case=Case(label=("c",), stmt="nowhere"), skip="not today")
    assert list(readied(sides).make([planned])) == []
