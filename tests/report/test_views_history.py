"""Histories as text and charts: versions of torch, dates, shared changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests import histories, records
from torchmark.analyse.history import History, history_of
from torchmark.model.run import RunKind
from torchmark.model.series import Origin, Point, Quantity, Series
from torchmark.report import render_view
from torchmark.report.views.between import facts_text, run_axis, short_commit, span_text
from torchmark.report.views.history import make_view

ODD = "'] + alert(1) + ['\"\x1b\\"


def origin(
    day: int, version: str | None = "2.13.0", *, commit: str = "a" * 40, **facts: Any
) -> Origin:
    run = histories.run_on(day, facts={"torch": {"version": version}, **facts}, commit=commit)
    return Origin(
        run=run.id, started=run.started, kind=RunKind.RUN, suite="", environment=run.environment
    )


def counted(name: str, counts: Sequence[float], origins: Sequence[Origin]) -> History:
    case = records.case("Pointwise", name)
    points = tuple(
        Point(origin=each, value=count) for each, count in zip(origins, counts, strict=True)
    )
    series = Series(
        case_id=case.id, case=case, quantity=Quantity.INSTRUCTIONS, machine="m", points=points
    )
    return history_of(series)


def test_one_commit_with_several_versions_is_named_by_them() -> None:
    several = [origin(1, "1.13.1"), origin(2, "2.13.0")]
    assert span_text(several) == "2 runs, torch 1.13.1 to 2.13.0"
    assert run_axis(several)["axis"]["labelExpr"] == '["1.13.1", "2.13.0"][datum.value - 1]'
    for others in (
        [origin(1), origin(2)],
        [origin(1, "1.13.1"), origin(2, commit="b" * 40)],
        [origin(day, f"2.{day}.0") for day in range(1, 14)],
    ):
        assert run_axis(others)["title"] == "run, in the order of the commits"
    assert span_text([origin(1), origin(2)]) == "2 runs, 2026-01-01 to 2026-01-02"
    assert span_text([origin(1)]) == "1 run, 2026-01-01"


def test_a_version_cannot_leave_the_string_that_it_is_in() -> None:
    """The label of an axis is an expression."""
    axis = run_axis([origin(1, ODD), origin(2)])["axis"]
    assert axis["labelExpr"].startswith("[\"'] + alert(1) + ['\\\"")
    assert axis["labelExpr"].endswith('", "2.13.0"][datum.value - 1]')


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"torch": {"version": "2.9.1", "git": "a"}}, {}, "torch 2.9.1 → 2.13.0"),
        (
            {"torch": {"version": "2.13.0", "git": "a" * 40}},
            {"torch": {"version": "2.13.0", "git": "b" * 40}},
            f"torch's commit {'a' * 40} → {'b' * 40}",
        ),
        ({"python": "3.11.2"}, {"python": None}, "Python 3.11.2 → unknown"),
        ({"torchmark": "long " * 99}, {"torchmark": "1"}, "torchmark long long"),
        ({}, {}, ""),
    ],
)
def test_what_differs_is_said_in_words(before: Any, after: Any, told: str) -> None:
    found = facts_text(origin(1, **before), origin(2, **after))
    assert found.startswith(told)
    assert len(found) < 120


def test_a_change_that_most_cases_share_names_its_version() -> None:
    origins = [origin(1, "2.9.1"), origin(2, "2.13.0"), origin(3, "2.15.0")]
    rows = [(100.0, 90.0, 90.0)] * 4 + [(100.0, 100.0, 101.0)]
    found = [counted(str(at), row, origins) for at, row in enumerate(rows)]
    text = render_view(make_view(found), "text")
    assert "NOTE 4 of 5 cases changed their instructions with torch 2.9.1 → 2.13.0" in text
    assert "torch 2.9.1 → 2.13.0: -10.0 % (100 → 90) stayed" in text
    assert "5 series of 3 runs: 5 changes stayed." in text


def test_a_change_between_commits_suspects_the_machine() -> None:
    origins = [origin(day, commit="a" * 40 if day < 5 else "b" * 40) for day in range(1, 11)]
    found = [counted(str(at), [100.0] * 4 + [90.0] * 6, origins) for at in range(4)]
    text = " ".join(render_view(make_view(found), "text").split())
    assert "4 of 4 cases changed their instructions at run 20260105" in text
    assert "(aaaaaaaaaa..bbbbbbbbbb): suspect the machine" in text


def test_a_commit_is_shortened_to_one_line() -> None:
    assert short_commit("0123456789abcdef") == "0123456789"
    assert short_commit("a\nb\x1b[31m") == "a b\x1b[31m"
