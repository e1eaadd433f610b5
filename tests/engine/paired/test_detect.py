"""A size of change that is asked for: the forecast, and the time that each case gets."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests import records
from tests.ab_records import planned
from tests.engine.paired.fakes import Starting, World, noisy_world
from torchmark.analyse.pairs import detectable_among, judge_alone
from torchmark.engine.paired.timing import CaseTiming, take_replicates
from torchmark.model.run import FEWEST_REPLICATES, Effort, Note

if TYPE_CHECKING:
    from torchmark.model.run import Began, Stage

DETECT = 0.005


def measure(
    within: World, monkeypatch: pytest.MonkeyPatch, *names: str, budget: float
) -> tuple[list[CaseTiming], list[str]]:
    monkeypatch.setattr("torchmark.engine.paired.timing.time", within.clock())
    timings = [
        CaseTiming(planned=planned(records.case(name)), ready=(name, name)) for name in names
    ]
    news: list[Began | Note | Stage | CaseTiming] = list(
        take_replicates(
            timings,
            Starting(within),
            rng=random.Random(0),
            cores=[3],
            effort=Effort(budget=budget, detect=DETECT, timeout=7.0),
            cases=len(timings),
            in_background=False,
        )
    )
    return timings, [each.text for each in news if isinstance(each, Note)]


def test_each_case_goes_on_until_the_change_is_detectable(monkeypatch: pytest.MonkeyPatch) -> None:
    within = noisy_world({"quiet": 0.001, "noisy": 0.01})
    (quiet, noisy), notes = measure(within, monkeypatch, "quiet", "noisy", budget=1000.0)
    for each in (quiet, noisy):
        assert detectable_among(each.timing(), cases=2) <= DETECT
    assert len(noisy.replicates) > 2 * len(quiet.replicates)
    assert notes[0].startswith("forecast: to detect 0.5 % takes about ")
    assert "will not reach it" not in notes[0]


def test_the_forecast_is_close_to_what_is_achieved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 1.5 times, also where the budget ends a case before."""
    names = [f"case {number}" for number in range(20)]
    within = noisy_world({name: 0.002 * 1.15**place for place, name in enumerate(names)})
    cases, _ = measure(within, monkeypatch, *names, budget=4.0)
    close = 0
    for each in cases:
        achieved, foretold = detectable_among(each.timing(), cases=20), each.timing().forecast
        assert foretold is not None
        close += foretold / 1.5 <= achieved <= foretold * 1.5
    assert close >= 18
    assert any((each.timing().forecast or 0) > DETECT for each in cases), "some are out of reach"


def test_what_cannot_be_reached_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    within = noisy_world({"quiet": 0.001, "wild": 0.2})
    (_, wild), notes = measure(within, monkeypatch, "quiet", "wild", budget=5.0)
    assert "1 of 2 cases will not reach it in 5 s each" in notes[0]
    assert wild.seconds >= 5.0
    assert (wild.timing().forecast or 0) > DETECT


def test_a_change_that_is_clear_ends_its_case_at_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    within = noisy_world({"slower": 0.004}, {"slower": 1.1})
    (slower,), notes = measure(within, monkeypatch, "slower", budget=1000.0)
    assert judge_alone(slower.timing()).verdict.is_change
    assert len(slower.replicates) == FEWEST_REPLICATES
    assert notes == []
