"""Histories of cases, and changes that most of them share."""

from __future__ import annotations

from collections.abc import Sequence

from tests import histories, records
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
