"""Counts in several layouts, made up: when has a case changed, and what differs by function."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from tests import ab_records, records
from torchmark.analyse.ab import count_row, functions_that_differ, understood
from torchmark.analyse.pairs import Verdict
from torchmark.analyse.run_differences import CountVerdict
from torchmark.model.ab_record import Compared, PairedCounts
from torchmark.model.function_counts import counts_of
from torchmark.model.result import Metric, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOISE = "Objects/dictobject.c:unicodekeys_lookup_unicode [libpython]"


def compared(a: Sequence[Mapping[str, int]], b: Sequence[Mapping[str, int]]) -> Compared:
    """Instructions of one run by function, in as many layouts as are given."""
    counts = PairedCounts(a=tuple(map(ab_records.stats, a)), b=tuple(map(ab_records.stats, b)))
    return Compared(
        case=records.case(), metric=Metric.INSTRUCTIONS, status=Status.DONE, counts=counts
    )


def differing(counts: PairedCounts | None) -> list[tuple[str, float]]:
    assert counts is not None
    return [(name, float(more)) for name, more in functions_that_differ(counts)]


def layouts(a: Sequence[int], b: Sequence[int]) -> Compared:
    return compared([{"f": each} for each in a], [{"f": each} for each in b])


@pytest.mark.parametrize(
    ("a", "b", "verdict", "spread"),
    [
        ([100], [100], CountVerdict.SAME, 0),
        ([100], [101], CountVerdict.MORE, 0),
        ([100], [99], CountVerdict.FEWER, 0),
        ([100, 104, 102], [102, 100, 104], CountVerdict.SAME, 4),
        ([100, 104, 102], [101, 103, 105], CountVerdict.CLOSE, 4),
        ([100, 104, 102], [107, 107, 107], CountVerdict.CLOSE, 4),
        ([100, 104, 102], [108, 108, 108], CountVerdict.CLOSE, 4),
        ([100, 104, 102], [109, 109, 109], CountVerdict.MORE, 4),
        ([109, 109, 109], [100, 104, 102], CountVerdict.FEWER, 4),
        ([108, 108, 108], [100, 104, 102], CountVerdict.CLOSE, 4),
        ([100, 100, 100], [101, 111, 121], CountVerdict.CLOSE, 20),
        ([100, 100, 100], [121, 131, 141], CountVerdict.MORE, 20),
    ],
)
def test_a_case_has_changed_if_b_lies_further_from_a_than_layouts_lie_apart(
    a: list[int], b: list[int], verdict: CountVerdict, spread: int
) -> None:
    row = count_row(layouts(a, b))
    assert row.verdict is verdict
    assert row.spread == spread


def test_the_count_is_the_middle_of_the_layouts_whatever_their_order() -> None:
    row = count_row(layouts([104, 100, 101], [90, 10, 80]))
    assert [row.a, row.b, row.difference] == [101, 80, -21]
    assert row.share == pytest.approx(-21 / 101)


def test_nothing_beside_something_is_an_infinite_share() -> None:
    assert count_row(layouts([0], [5])).share == math.inf
    assert count_row(layouts([0], [0])).share == 0.0


def test_the_loop_counts_where_it_is_not_known_of_all() -> None:
    """What is known of one side alone must not look like a difference."""
    each = layouts([100], [100])
    assert each.counts is not None
    bare = replace(each.counts.b[0], baseline_exclusive_stats=counts_of({}, inclusive=False))
    row = count_row(replace(each, counts=PairedCounts(a=each.counts.a, b=(bare,))))
    assert row.verdict is CountVerdict.SAME
    assert row.a == Fraction(100 * 100 + 500, 100)
    assert count_row(each).a == 100


def test_what_follows_from_where_things_lie_does_not_count() -> None:
    row = count_row(compared([{"f": 100, NOISE: 7}], [{"f": 100, NOISE: 90}]))
    assert (row.verdict, row.functions) == (CountVerdict.SAME, ())


def test_functions_that_differ_come_biggest_first_for_one_run() -> None:
    each = compared(
        [{"same": 50, "small": 10, "gone": 300, "grows": 20}],
        [{"same": 50, "small": 11, "grows": 120, "new": 7}],
    )
    assert differing(each.counts) == [("gone", -300), ("grows", 100), ("new", 7), ("small", 1)]


def test_counts_of_different_numbers_of_runs_are_compared_by_one_run() -> None:
    a, b = ab_records.stats({"f": 10}, number=100), ab_records.stats({"f": 12}, number=50)
    assert differing(PairedCounts(a=(a,), b=(b,))) == [("f", 2)]


def test_where_a_library_was_built_is_no_difference() -> None:
    each = compared(
        [{"/home/a/build/aten/src/x.cpp:f [/a/libtorch.so]": 10}],
        [{"/ci/build/aten/src/x.cpp:f [/b/libtorch.so]": 12}],
    )
    assert differing(each.counts) == [("build/aten/src/x.cpp:f", 2)]


def test_rows_with_the_greatest_changes_come_first() -> None:
    cases = {name: records.case(name) for name in ("same", "little", "much", "unclear")}
    results = understood(
        ab_records.comparison(
            ab_records.timed(cases["same"], 1.0),
            ab_records.timed(cases["little"], 1.02),
            ab_records.timed(cases["unclear"], 1.0, spread=0.2),
            ab_records.timed(cases["much"], 0.5),
            ab_records.counted(cases["same"], {"f": 1000}, {"f": 1000}),
            ab_records.counted(cases["little"], {"f": 1000}, {"f": 1010}),
            ab_records.counted(cases["much"], {"f": 1000}, {"f": 500}),
        )
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
    ("result", "got_slower", "changed"),
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
    result: Compared, got_slower: bool, changed: bool
) -> None:
    results = understood(ab_records.comparison(result))
    assert (results.got_slower, results.changed) == (got_slower, changed)
