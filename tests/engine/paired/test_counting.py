"""Counts of two environments: how many layouts it takes, and exactness where both are one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from tests import records
from tests.engine.paired.fakes import CountedBy, FakeUnderTest
from tests.engine.zygote_cases import TORCH
from torchmark.analyse.ab import judge_counts
from torchmark.analyse.estimates import Verdict
from torchmark.engine.environments import activate_environment
from torchmark.engine.paired.counting import LAYOUTS, NUMBER, Counting, count_cases
from torchmark.engine.under_test import UnderTest, Workers
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.model.result import Metric, PlannedResult, Status
from torchmark.model.run import Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchmark.engine.zygote.process import Launch
    from torchmark.engine.zygote.zygote import Zygote

ALL = list(range(LAYOUTS))


def counting(stmt: str, other: str | None = None, setup: str = "pass", **fields: Any) -> Counting:
    case = records.case(stmt, stmt=stmt, setup=setup)
    in_b = None if other is None else records.case(other, stmt=other, setup=setup)
    return Counting(
        planned=PlannedResult(case=case, metric=Metric.INSTRUCTIONS, other=in_b),
        ready=(
            PythonCase(stmt=stmt, setup=setup, globals=TORCH),
            PythonCase(stmt=stmt if other is None else other, setup=setup, globals=TORCH),
        ),
        **fields,
    )


class Both:
    """Two environments whose counts are made up."""

    def __init__(
        self, folder: Path, instructions: Callable[[CountedBy], int], installation: str = "another"
    ) -> None:
        self.a = FakeUnderTest("A", folder, instructions, "one")
        self.b = FakeUnderTest("B", folder, instructions, installation)

    def counted(self, *countings: Counting, threads: int = 1) -> list[Stage | Counting]:
        news = count_cases(
            countings,
            self.a,  # type: ignore[arg-type]
            self.b,  # type: ignore[arg-type]
            threads=threads,
            time_limit=7.0,
        )
        return list(news)


def verdict(each: Counting) -> Verdict:
    return judge_counts(each.result()).verdict


@pytest.mark.parametrize(
    ("in_b", "layouts", "expected"),
    [
        (1000, [0], Verdict.SAME),
        (1030, [0], Verdict.MORE),
        (970, [0], Verdict.FEWER),
        (1010, ALL, Verdict.MORE),
        (990, ALL, Verdict.FEWER),
        (1001, ALL, Verdict.MORE),
    ],
)
def test_what_is_equal_or_far_apart_is_clear_at_once_and_the_rest_is_counted_more_often(
    tmp_path: Path, in_b: int, layouts: list[int], expected: Verdict
) -> None:
    both = Both(tmp_path, lambda where: 1000 if where.side == "A" else in_b)
    each = counting("x")
    assert both.counted(each)[-1] is each
    assert both.a.layouts == both.b.layouts == layouts
    assert verdict(each) is expected
    assert [len(counts) for counts in each.counts] == [len(layouts)] * 2


def test_a_difference_that_goes_with_the_layout_is_no_change(tmp_path: Path) -> None:
    both = Both(tmp_path, lambda where: 1000 + (where.layout * 7 + (where.side == "B") * 5) % 9)
    each = counting("x")
    both.counted(each)
    assert verdict(each) is Verdict.CLOSE


def test_a_difference_that_another_layout_shows_to_be_none_needs_no_third(tmp_path: Path) -> None:
    moved = {("A", 0): 1, ("B", 1): 1}
    both = Both(tmp_path, lambda where: 1000 + moved.get((where.side, where.layout), 0))
    each = counting("x")
    both.counted(each)
    assert both.a.layouts == both.b.layouts == [0, 1]
    assert verdict(each) is Verdict.SAME


def test_only_what_is_not_clear_is_counted_again_and_the_clear_is_handed_on(
    tmp_path: Path,
) -> None:
    more = {"equal": 0, "near": 5, "far": 500}
    both = Both(tmp_path, lambda where: 1000 + more[where.stmt] * (where.side == "B"))
    cases = {name: counting(name) for name in more}
    news = both.counted(*cases.values())
    assert [each for each in news if isinstance(each, Counting)] == [
        cases["equal"],
        cases["far"],
        cases["near"],
    ]
    assert both.a.counted_in(0) == both.b.counted_in(0) == ["equal", "far", "near"]
    for layout in ALL[1:]:
        assert both.a.counted_in(layout) == both.b.counted_in(layout) == ["near"]


def test_what_is_asked_for_roughly_is_never_counted_again(tmp_path: Path) -> None:
    """Two more starts under valgrind for a sentry alone would be minutes for nothing."""
    both = Both(tmp_path, lambda where: 1000 + (where.side == "B"))
    both.counted(counting("sentry", is_rough=True))
    assert both.a.layouts == both.b.layouts == [0]


def test_one_installation_has_one_zygote_and_one_layout_however_near_the_counts(
    tmp_path: Path,
) -> None:
    both = Both(tmp_path, lambda where: 1000 + len(where.stmt), installation="one")
    each = counting("x", "xx")
    both.counted(each)
    assert (both.a.layouts, both.b.layouts) == ([0], [])
    assert verdict(each) is Verdict.MORE
    row = judge_counts(each.result())
    assert [row.before, row.after] == [1001, 1002], "of one run, without the loop"


@pytest.mark.parametrize("side", ["A", "B"])
def test_a_case_that_fails_says_where_and_costs_itself_alone(tmp_path: Path, side: str) -> None:
    both = Both(tmp_path, lambda where: 1000 + 5 * (where.side == "B"))
    bad, good = counting(f"fails in {side}"), counting("good")
    news = both.counted(bad, good)
    assert [each for each in news if isinstance(each, Counting)] == [bad, good]
    row = bad.result()
    assert (row.metric, row.status, row.payload) == (Metric.INSTRUCTIONS, Status.FAILED, None)
    assert row.reason.startswith(f"in {side}: fails in {side} does not work")
    assert len(good.counts[0]) == LAYOUTS
    assert bad.planned.case.stmt not in both.a.counted_in(1)


def test_who_fails_in_both_is_said_to_fail_in_the_first(tmp_path: Path) -> None:
    both = Both(tmp_path, lambda _: 1000)
    each = counting("fails in both")
    both.counted(each)
    assert each.failure.startswith("in A: ")


def test_threads_and_limits_are_handed_on_and_zygotes_end(tmp_path: Path) -> None:
    both = Both(tmp_path, lambda where: 1000 + (where.side == "B"))
    both.counted(counting("x"), threads=2)
    for zygote in (*both.a.zygotes, *both.b.zygotes):
        assert (zygote.threads, zygote.time_limits, zygote.is_open) == (2, {7.0}, False)


def test_every_start_is_a_stage_that_begins_and_ends(tmp_path: Path) -> None:
    both = Both(tmp_path, lambda where: 1000 + (where.side == "B"))
    stages = [each for each in both.counted(counting("x")) if isinstance(each, Stage)]
    assert [stage.is_over for stage in stages] == [False, True] * LAYOUTS
    assert [stage.text for stage in stages[::2]] == [stage.text for stage in stages[1::2]]
    assert ["layout" in stage.text for stage in stages[::2]] == [False, True, True]


def test_the_empty_loop_is_counted_once_in_each_zygote(tmp_path: Path) -> None:
    both = Both(tmp_path, lambda _: 1000)
    both.counted(counting("x"), counting("y"))
    for side in (both.a, both.b):
        (zygote,) = side.zygotes
        assert zygote.log[0] == "started"
        assert sorted(zygote.log[1:]) == ["pass", "x", "y"]


def test_who_stops_early_leaves_no_zygotes(tmp_path: Path) -> None:
    both = Both(tmp_path, lambda _: 1000)
    news = count_cases(
        [counting("x"), counting("y")],
        both.a,  # type: ignore[arg-type]
        both.b,  # type: ignore[arg-type]
        threads=1,
        time_limit=1.0,
    )
    assert isinstance(next(news), Stage)
    assert isinstance(next(news), Stage)
    assert isinstance(next(news), Counting)
    news.close()  # type: ignore[attr-defined]
    assert not any(zygote.is_open for zygote in (*both.a.zygotes, *both.b.zygotes))


def test_nothing_to_count_starts_nothing(tmp_path: Path) -> None:
    both = Both(tmp_path, lambda _: 1000)
    assert both.counted() == []
    assert both.a.zygotes == both.b.zygotes == []


class Lent(ZygotePool):
    """Remembers which zygotes were asked for, and lends the one that all tests share."""

    def __init__(self, lent: Zygote) -> None:
        super().__init__()
        self.asked: list[tuple[int, bool, int | None]] = []
        self._lent = lent

    def fresh(self, launch: Launch) -> Zygote:
        self.asked.append((launch.threads, launch.under_callgrind, launch.layout))
        return nullcontext(self._lent)  # type: ignore[return-value]


Exactly = tuple[dict[str, Counting], list[list[tuple[int, bool, int | None]]]]


@pytest.fixture(scope="module")
def exactly(callgrind_zygote: Zygote) -> Exactly:
    """Statements counted for real, under valgrind; and who was asked for zygotes."""
    setup = "x = torch.ones(4)"
    cases = {
        "identical": counting("x + x", setup=setup),
        "a little more": counting("a = 1", "a = 1; b = 2"),
        "another op": counting("x + x", "x.add(x).neg()", setup=setup),
        "fails in B": counting("a = 1", "nowhere"),
    }
    sides = [UnderTest(activate_environment(name, "")) for name in ("A", "B")]
    pools = [Lent(callgrind_zygote) for _ in sides]
    for side, pool in zip(sides, pools, strict=True):
        side.workers = Workers(pool=pool)
    list(count_cases(list(cases.values()), *sides, threads=1, time_limit=300.0))
    return cases, [pool.asked for pool in pools]


def test_one_real_installation_is_started_once(exactly: Exactly) -> None:
    _, asked = exactly
    assert asked == [[(1, True, 0)], []]


def test_the_same_statement_takes_the_same_to_the_instruction(exactly: Exactly) -> None:
    cases, _ = exactly
    row = judge_counts(cases["identical"].result())
    assert row.verdict is Verdict.SAME
    assert row.before == row.after > 1000
    assert row.functions == ()
    assert cases["identical"].counts[0][0].runs == NUMBER


def test_a_few_instructions_more_are_found(exactly: Exactly) -> None:
    cases, _ = exactly
    row = judge_counts(cases["a little more"].result())
    assert row.verdict is Verdict.MORE
    assert 0 < row.difference < 500
    assert sum(each.instructions for each in row.functions) == row.difference


def test_functions_behind_another_op_are_named(exactly: Exactly) -> None:
    cases, _ = exactly
    row = judge_counts(cases["another op"].result())
    assert row.verdict is Verdict.MORE
    assert any("neg" in each.function for each in row.functions)
    assert sum(each.instructions for each in row.functions) == row.difference


def test_a_real_failure_is_said_to_be_bs(exactly: Exactly) -> None:
    cases, _ = exactly
    assert cases["fails in B"].result().reason.startswith("in B: the case raised: NameError")
