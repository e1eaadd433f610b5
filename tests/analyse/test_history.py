"""Histories of cases, and changes that most of them share."""

from __future__ import annotations

from collections.abc import Sequence

from tests import histories, records
from torchmark.analyse.change_points import Fate
from torchmark.analyse.history import History, history_of, shared_changes
from torchmark.model.case import Case
from torchmark.model.run import RunKind
from torchmark.model.series import Origin, Point, Quantity, Series

CASES = [records.case("group", name) for name in "abcdef"]
ORIGINS = [
    Origin(run=run.id, started=run.started, kind=RunKind.RUN, suite="", environment=run.environment)
    for run in histories.runs_of({CASES[0]: [1e-6] * 40})
]


def history(case: Case, levels: Sequence[float], quantity: Quantity = Quantity.TIME) -> History:
    values = histories.noisy(levels) if quantity is Quantity.TIME else levels
    points = tuple(
        Point(origin=origin, value=value) for origin, value in zip(ORIGINS, values, strict=False)
    )
    return history_of(
        Series(case_id=case.id, case=case, quantity=quantity, machine="m", points=points)
    )


STEP = [1e-6] * 20 + [1.1e-6] * 20


def test_a_change_has_the_runs_on_both_sides() -> None:
    (change,) = history(CASES[0], STEP).listed
    assert (change.before.commit, change.after.commit) == (
        histories.commit(20),
        histories.commit(21),
    )


def test_counts_are_exact_and_times_have_a_smallest_change() -> None:
    counts = history(CASES[0], [100000.0] * 5 + [100001.0] * 5, Quantity.INSTRUCTIONS)
    assert [each.found.index for each in counts.listed] == [5]
    small = [1.0] * 20 + [1.001] * 20
    exact = [Point(origin=o, value=v) for o, v in zip(ORIGINS, small, strict=True)]
    series = Series(
        case_id="x", case=CASES[0], quantity=Quantity.TIME, machine="m", points=tuple(exact)
    )
    assert history_of(series).listed == ()
    assert len(history_of(series, least=0.0005).listed) == 1


def test_a_change_of_most_cases_is_shared() -> None:
    changed = [history(case, STEP) for case in CASES[:5]]
    steady = [history(case, [1e-6] * 40) for case in CASES[5:]]
    assert shared_changes([*changed, *steady]) == {ORIGINS[20].run: (5, 6)}
    assert shared_changes([*changed[:2], *steady * 4]) == {}


def versions_of(
    counts: Sequence[float], versions: Sequence[str], commits: Sequence[str] = ("a",) * 20
) -> History:
    """Counts with these versions of torch, of one commit unless told otherwise."""
    runs = [
        histories.run_on(day, facts={"torch": {"version": version}}, commit=commit)
        for day, (version, commit) in enumerate(zip(versions, commits, strict=False), 1)
    ]
    points = tuple(
        Point(
            origin=Origin(
                run=run.id,
                started=run.started,
                kind=RunKind.RUN,
                suite="",
                environment=run.environment,
            ),
            value=count,
        )
        for run, count in zip(runs, counts, strict=True)
    )
    return history_of(
        Series(
            case_id="x", case=CASES[0], quantity=Quantity.INSTRUCTIONS, machine="m", points=points
        )
    )


VERSIONS = ["1.13.1", "2.5.1", "2.9.1", "2.13.0", "2.15.0"]


def test_every_version_may_change_a_count() -> None:
    found = versions_of([100.0, 120.0, 110.0, 115.0, 112.0], VERSIONS)
    assert [each.found.index for each in found.listed] == [1, 2, 3, 4]
    assert [round(each.found.change, 3) for each in found.listed] == [0.2, -0.083, 0.045, -0.026]
    assert {each.found.fate for each in found.listed} == {Fate.STAYED}
    assert [segment.points for segment in found.changes.segments] == [1] * 5


def test_a_version_that_changes_nothing_is_no_change() -> None:
    found = versions_of([100.0, 100.0, 101.0, 101.0, 101.0], VERSIONS)
    assert [each.found.index for each in found.listed] == [2]
    assert [(each.start, each.stop, each.points) for each in found.changes.segments] == [
        (0, 2, 2), (2, 5, 3),
    ]  # fmt: skip
    assert versions_of([0.0, 0.0, 5.0, 5.0, 5.0], VERSIONS).listed[0].found.ratio == float("inf")


def test_changes_are_found_within_a_version_and_between_two() -> None:
    counts = [100.0] * 4 + [90.0] * 4 + [95.0] * 4
    found = versions_of(counts, ["2.9.1"] * 8 + ["2.13.0"] * 4)
    assert [each.found.index for each in found.listed] == [4, 8]


def test_environments_that_alternate_are_no_changes() -> None:
    """Such as every commit with two versions of torch."""
    found = versions_of([100.0, 110.0] * 10, ["2.9.1", "2.13.0"] * 10)
    assert found.listed == ()


def test_a_new_version_with_a_new_commit_is_judged_like_any_commit() -> None:
    counts = [100.0, 120.0, 100.0, 100.0, 100.0]
    assert versions_of(counts, VERSIONS, "abcde").listed == ()
    assert len(versions_of(counts, VERSIONS).listed) == 2
