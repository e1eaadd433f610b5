"""Cases are tried in both environments before anything is measured: real zygotes, no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests import light_torch
from tests.engine.paired.sides import open_one
from torchmark.commands.planning import plan_statements
from torchmark.engine.paired.comparing import ReadyCase, make_ready
from torchmark.engine.under_test import UnderTest
from torchmark.engine.zygote.cases import PythonCase
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Effort

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.model.result import PlannedResult


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[UnderTest, UnderTest]]:
    command = light_torch.put_into(tmp_path_factory.mktemp("light"))
    a, b = open_one("A", command), open_one("B", f"{command} IN_B=1")
    yield a, b
    a.close()
    b.close()


def make(
    sides: tuple[UnderTest, UnderTest], planned: Sequence[PlannedResult], **effort: Any
) -> tuple[list[ReadyCase], list[Result]]:
    """What is ready, and what has failed."""
    news = list(make_ready(planned, sides, Effort(**effort), units_at_once=1))
    ready = [each for each in news if isinstance(each, ReadyCase)]
    return ready, [each for each in news if isinstance(each, Result)]


def plan(*statements: tuple[str, str | None], both: bool = False) -> list[PlannedResult]:
    metrics = (Metric.INSTRUCTIONS, Metric.TIME) if both else (Metric.TIME,)
    return plan_statements(("A", "B"), statements, "pass", metrics)


def stmt_of(ready: object) -> str:
    assert isinstance(ready, PythonCase)
    return ready.stmt


def test_a_statement_alone_and_one_compared_with_another_keep_apart(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    """In A both run the same: what runs in B must not be mixed up."""
    both = [*plan(("a = 1", None)), *plan(("a = 1", "a = 2"))]
    (alone, beside), failed = make(sides, both)
    assert failed == []
    assert [alone.planned, beside.planned] == both
    assert [stmt_of(each) for each in alone.ready] == ["a = 1", "a = 1"]
    assert [stmt_of(each) for each in beside.ready] == ["a = 1", "a = 2"]


def test_what_does_not_work_in_b_is_a_result_of_each_metric_and_the_rest_is_ready(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    breaks = "import os; 1 / (1 - int(os.environ.get('IN_B', 0)))"
    planned = plan((breaks, None), ("a = 1", None), both=True)
    ready, results = make(sides, planned)
    assert [(each.metric, each.status) for each in results] == [
        (Metric.INSTRUCTIONS, Status.FAILED),
        (Metric.TIME, Status.FAILED),
    ]
    for each in results:
        assert each.reason.startswith("in B: the case raised: ZeroDivisionError")
        assert each.environments == ("A", "B")
    assert [each.planned for each in ready] == planned[2:]


def test_what_one_environment_lacks_is_skipped_and_a_failure_of_the_other_still_counts(
    sides: tuple[UnderTest, UnderTest],
) -> None:
    in_b = "import os; int(os.environ.get('IN_B', 0))"
    lacks = f"{in_b} and torch.no_such(1)"
    breaks = f"{in_b} or 1 / 0; torch.no_such(1)"
    ready, results = make(sides, plan((lacks, None), ("torch.no_such(1)", None), (breaks, None)))
    assert ready == []
    found = [(each.status, each.reason.partition("\n")[0]) for each in results]
    version = sides[0].facts()["torch"]
    missing = f"torch {version} has no torch.no_such"
    assert found == [
        (Status.SKIPPED, f"in B: {missing}"),
        (Status.SKIPPED, f"in A: {missing}; in B: {missing}"),
        (Status.FAILED, "in A: the case raised: ZeroDivisionError: division by zero"),
    ]


@pytest.mark.parametrize("stmt", ["a =", "nowhere", "import os; os.abort()"])
def test_what_works_in_neither_is_said_of_the_first(
    sides: tuple[UnderTest, UnderTest], stmt: str
) -> None:
    ready, (result,) = make(sides, plan((stmt, None)))
    assert ready == []
    assert result.reason.startswith("in A: ")


def test_a_statement_that_never_ends_is_stopped(sides: tuple[UnderTest, UnderTest]) -> None:
    _, (result,) = make(sides, plan(("while True: pass", None)), timeout=0.5)
    assert "limit of 0.5 s" in result.reason
