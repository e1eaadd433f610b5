"""Counts in several layouts, made up: when has a case changed, and what differs by function."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests import ab_records, records
from tests.ab_records import PAIR, run_of
from torchmark.analyse.ab import judge, judge_counts, pairs_of
from torchmark.analyse.estimates import Verdict
from torchmark.model.result import FunctionTable, Metric, PairedCounts, PairedTiming, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.model.result import Result

NOISE = "Objects/dictobject.c:unicodekeys_lookup_unicode [libpython]"


def compared(a: Sequence[Mapping[str, int]], b: Sequence[Mapping[str, int]]) -> Result:
    """Instructions of one run by function, in as many layouts as are given."""
    payload = PairedCounts(a=tuple(map(ab_records.counts, a)), b=tuple(map(ab_records.counts, b)))
    return with_counts(payload)


def with_counts(payload: PairedCounts) -> Result:
    return ab_records.result(records.case(), Metric.INSTRUCTIONS, payload=payload)


def differing(result: Result) -> list[tuple[str, float]]:
    return [(name, float(more)) for name, more in judge_counts(result).functions]


def layouts(a: Sequence[int], b: Sequence[int]) -> Result:
    return compared([{"f": each} for each in a], [{"f": each} for each in b])


@pytest.mark.parametrize(
    ("a", "b", "verdict", "spread"),
    [
        ([100], [100], Verdict.SAME, 0),
        ([100], [101], Verdict.MORE, 0),
        ([100], [99], Verdict.FEWER, 0),
        ([100, 104, 102], [102, 100, 104], Verdict.SAME, 4),
        ([100, 104, 102], [101, 103, 105], Verdict.CLOSE, 4),
        ([100, 104, 102], [107, 107, 107], Verdict.CLOSE, 4),
        ([100, 104, 102], [108, 108, 108], Verdict.CLOSE, 4),
        ([100, 104, 102], [109, 109, 109], Verdict.MORE, 4),
        ([109, 109, 109], [100, 104, 102], Verdict.FEWER, 4),
        ([108, 108, 108], [100, 104, 102], Verdict.CLOSE, 4),
        ([100, 100, 100], [101, 111, 121], Verdict.CLOSE, 20),
        ([100, 100, 100], [121, 131, 141], Verdict.MORE, 20),
    ],
)
def test_a_case_has_changed_if_b_lies_further_from_a_than_layouts_lie_apart(
    a: list[int], b: list[int], verdict: Verdict, spread: int
) -> None:
    row = judge_counts(layouts(a, b))
    assert row.verdict is verdict
    assert row.spread == spread


def test_the_count_is_the_middle_of_the_layouts_whatever_their_order() -> None:
    row = judge_counts(layouts([104, 100, 101], [90, 10, 80]))
    assert [row.before, row.after, row.difference] == [101, 80, -21]
    assert row.share == pytest.approx(-21 / 101)


def test_nothing_beside_something_is_an_infinite_share() -> None:
    assert judge_counts(layouts([0], [5])).share == math.inf
    assert judge_counts(layouts([0], [0])).share == 0.0


def test_the_loop_counts_where_it_is_not_known_of_all() -> None:
    """What is known of one side alone must not look like a difference."""
    each = layouts([100], [100])
    assert isinstance(each.payload, PairedCounts)
    nothing = FunctionTable(exclusive=(), inclusive=())
    bare = msgspec.structs.replace(each.payload.b[0], loop=nothing)
    row = judge_counts(with_counts(PairedCounts(a=each.payload.a, b=(bare,))))
    assert row.verdict is Verdict.SAME
    assert row.before == Fraction(100 * 100 + 500, 100)
    assert judge_counts(each).before == 100


def test_what_follows_from_where_things_lie_does_not_count() -> None:
    row = judge_counts(compared([{"f": 100, NOISE: 7}], [{"f": 100, NOISE: 90}]))
    assert (row.verdict, row.functions) == (Verdict.SAME, ())


def test_functions_that_differ_come_biggest_first_for_one_run() -> None:
    each = compared(
        [{"same": 50, "small": 10, "gone": 300, "grows": 20}],
        [{"same": 50, "small": 11, "grows": 120, "new": 7}],
    )
    assert differing(each) == [("gone", -300), ("grows", 100), ("new", 7), ("small", 1)]


def test_counts_of_different_numbers_of_runs_are_compared_by_one_run() -> None:
    a, b = ab_records.counts({"f": 10}, runs=100), ab_records.counts({"f": 12}, runs=50)
    assert differing(with_counts(PairedCounts(a=(a,), b=(b,)))) == [("f", 2)]


def test_where_a_library_was_built_is_no_difference() -> None:
    each = compared(
        [{"/home/a/build/aten/src/x.cpp:f [/a/libtorch.so]": 10}],
        [{"/ci/build/aten/src/x.cpp:f [/b/libtorch.so]": 12}],
    )
    assert differing(each) == [("build/aten/src/x.cpp:f", 2)]


def test_rows_with_the_greatest_changes_come_first() -> None:
    cases = {name: records.case(name) for name in ("same", "little", "much", "unclear")}
    results = judge(
        run_of(
            ab_records.timed(cases["same"], 1.0),
            ab_records.timed(cases["little"], 1.02),
            ab_records.timed(cases["unclear"], 1.0, spread=0.2),
            ab_records.timed(cases["much"], 0.5),
            ab_records.counted(cases["same"], {"f": 1000}, {"f": 1000}),
            ab_records.counted(cases["little"], {"f": 1000}, {"f": 1010}),
            ab_records.counted(cases["much"], {"f": 1000}, {"f": 500}),
        ),
        PAIR,
    )
    assert [row.case.label[0] for row in results.times] == ["much", "little", "unclear", "same"]
    assert [row.case.label[0] for row in results.counts] == ["much", "little", "same"]
    assert [row.verdict for row in results.times] == [
        Verdict.FASTER,
        Verdict.SLOWER,
        Verdict.UNCLEAR,
        Verdict.SAME,
    ]


@pytest.mark.parametrize(
    ("result", "has_regression", "has_change"),
    [
        (ab_records.timed(records.case(), 1.05), True, True),
        (ab_records.timed(records.case(), 0.95), False, True),
        (ab_records.timed(records.case(), 1.0), False, False),
        (ab_records.counted(records.case(), {"f": 100}, {"f": 105}), True, True),
        (ab_records.counted(records.case(), {"f": 100}, {"f": 95}), False, True),
        (ab_records.counted(records.case(), {"f": 100}, {"f": 100}), False, False),
    ],
    ids=["slower", "faster", "same", "more", "fewer", "equal"],
)
def test_a_regression_is_told_from_a_change(
    result: Result, has_regression: bool, has_change: bool
) -> None:
    judged = judge(run_of(result), PAIR)
    assert (judged.has_regression, judged.has_change) == (has_regression, has_change)


def test_the_cases_of_each_pair_are_judged_by_themselves() -> None:
    """And whatever the order in which results came, they stand in that of the plan."""
    add, mul = records.case("add"), records.case("mul")
    mine = [ab_records.timed(add, 1.0), ab_records.timed(mul, 1.05)]
    other = ("A", "C")
    third = [
        ab_records.timed(add, 1.1, environments=other),
        ab_records.missing(mul, Metric.TIME, Status.FAILED, "no", environments=other),
    ]
    run = run_of(*mine, *third)
    arrived = msgspec.structs.replace(run, results=(third[1], mine[1], third[0], mine[0]))
    assert pairs_of(arrived) == [PAIR, other]
    first, second = (judge(arrived, pair) for pair in pairs_of(arrived))
    assert [each.case for each in first.results] == [add, mul]
    assert [row.case for row in first.times] == [mul, add]
    assert [row.case for row in second.times] == [add]
    assert [gap.case for gap in second.gaps if gap.status is Status.FAILED] == [mul]
    assert (second.b.name, second.missing) == ("C", 0)


def test_what_is_planned_and_not_there_is_missing() -> None:
    run = run_of(ab_records.timed(records.case("add"), 1.0))
    more = msgspec.structs.replace(run, plan=(*run.plan, ab_records.planned(records.case("mul"))))
    assert judge(more, PAIR).missing == 1


def test_the_control_is_judged_as_a_comparison_is() -> None:
    """Each case alone; its time is a share of all, that of the comparison included."""
    of = [records.case(name) for name in ("calm", "wolf", "lamb")]
    controls = [
        ab_records.controlled(of[0], seconds=1.0),
        ab_records.controlled(of[1], 1.05, seconds=0.5),
        ab_records.controlled(of[2], 0.95, seconds=0.5),
    ]
    judged = judge(
        run_of(*(ab_records.timed(each, 1.0, seconds=6.0) for each in of), *controls), PAIR
    )
    assert judged.control is not None
    assert (judged.control.comparisons, judged.control.alarms) == (3, 2)
    assert judged.control.share == pytest.approx(2 / 20)
    assert [row.verdict for row in judged.times] == [Verdict.SAME] * 3
    assert (judged.has_change, judged.missing) == (False, 0)


def test_a_control_has_the_noise_of_one_replicate_around_no_difference() -> None:
    """Crossovers of a replicate are one figure; what all replicates have in common is noise too."""
    replicates = (((0.03, 0.01), (0.0, 0.04)), ((-0.03, -0.01), (0.0, -0.04))) * 3
    payload = PairedTiming(a_seconds=1e-6, replicates=replicates)
    result = ab_records.result(records.case(), Metric.CONTROL, payload=payload)
    control = judge(run_of(result), PAIR).control
    assert control is not None
    assert control.deviation == pytest.approx(0.02)
    control = judge(run_of(ab_records.controlled(records.case(), 1.05)), PAIR).control
    assert control is not None
    assert control.deviation == pytest.approx(math.log(1.05), rel=0.01)


def test_a_control_is_judged_with_the_share_of_its_last_look() -> None:
    """A look that may spend little calls less a change."""
    near = ab_records.controlled(records.case(), 1.0027, spread=0.003, replicates=10)
    assert isinstance(near.payload, PairedTiming)
    alarms = []
    for share in (1.0, 1 / 12):
        payload = msgspec.structs.replace(near.payload, alpha_share=share)
        control = judge(run_of(msgspec.structs.replace(near, payload=payload)), PAIR).control
        assert control is not None
        alarms.append(control.alarms)
    assert alarms == [1, 0]


def test_without_a_control_or_with_too_little_of_one_there_is_none() -> None:
    timed = ab_records.timed(records.case(), 1.0)
    few = ab_records.controlled(records.case(), replicates=1)
    elsewhere = ab_records.controlled(records.case(), environments=("A", "C"))
    for results in ([timed], [timed, few], [timed, elsewhere]):
        assert judge(run_of(*results), PAIR).control is None


def test_a_control_whose_time_nobody_kept_took_no_share_of_it() -> None:
    control = judge(run_of(ab_records.controlled(records.case())), PAIR).control
    assert control is not None
    assert control.share == 0
