"""A compared with A in between the cases: made-up environments, whose launches move the clock."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests import records
from tests.ab_records import PAIR, planned
from tests.engine.paired.fakes import Opened, Starting, World
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import judge_alone
from torchmark.engine.paired.pairing import Side, TakenCrossover
from torchmark.engine.paired.timing import CaseTiming, Control, take_replicates
from torchmark.engine.under_test import FIRST_LAYOUT
from torchmark.errors import ZygoteError
from torchmark.model.result import Metric
from torchmark.model.run import FEWEST_REPLICATES, Began, Effort

if TYPE_CHECKING:
    from torchmark.engine.paired.timing import Starter, Taker, Zygotes
    from torchmark.model.run import Note, Stage

A_SECONDS = 1e-3
LAUNCH = 3.0
"""Seconds of a launch of both."""

SHARE = 0.1
"""Of the time, that a control may take."""

LOOKS = {5: 1 / 4, 10: 1 / 12, 20: 1 / 12, 40: 1 / 12}
"""Of the allowed false alarms, what each may spend."""

PLENTY = 60.0
"""A budget in which a control has dozens of replicates, where every launch takes three seconds."""


def timing(name: str = "case") -> CaseTiming:
    return CaseTiming(planned=planned(records.case(name)), ready=(f"{name} in A", f"{name} in B"))


def timings(number: int) -> list[CaseTiming]:
    return [timing(f"case {index}") for index in range(number)]


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> World:
    """Noise that no look decides on, so that cases go on until their budget ends."""
    draw = random.Random(5)
    made = World(cost=lambda _: A_SECONDS * draw.lognormvariate(0, 0.05))
    monkeypatch.setattr("torchmark.engine.paired.timing.time", made.clock())
    return made


class Watched(Control):
    """A control that notes what it has taken after each of its replicates."""

    def __init__(self, within: World, cases: list[CaseTiming], start: Starter | None = None):
        super().__init__(cases, start or Starting(within, ("A", "A again"), LAUNCH))
        self._within = within
        self.seconds = 0.0
        self.shares: list[float] = []
        self.times: list[float] = []

    def take_replicate(self, take: Taker, effort: Effort) -> None:
        before = self._within.now
        super().take_replicate(take, effort)
        self.seconds += self._within.now - before
        self.shares.append(self.seconds / self._within.now)
        self.times.append(before)


def measure(
    within: World,
    cases: list[CaseTiming],
    control: Control,
    budget: float = PLENTY,
    launch: float = LAUNCH,
) -> list[Began | Note | Stage | CaseTiming]:
    return list(
        take_replicates(
            cases,
            Starting(within, seconds=launch),
            rng=random.Random(0),
            cores=[3],
            effort=Effort(budget=budget, timeout=7.0),
            cases=len(cases),
            in_background=False,
            control=control,
        )
    )


def take_alike(_a: Side, _b: Side) -> TakenCrossover:
    """A crossover without processes, in which nothing differs."""
    return TakenCrossover(estimates=(0.0, 0.0), a_seconds=A_SECONDS)


def controls_in(news: list[Began | Note | Stage | CaseTiming]) -> list[CaseTiming]:
    return [
        each
        for each in news
        if isinstance(each, CaseTiming) and each.planned.metric is Metric.CONTROL
    ]


def in_control(opened: Opened) -> bool:
    return opened.side == "A again"


@pytest.mark.parametrize(
    ("number", "chosen"),
    [(1, [0]), (2, [1]), (9, [4]), (19, [9]), (20, [5, 15]), (45, [5, 16, 28, 39])],
)
def test_one_case_in_ten_is_compared_with_itself_and_they_are_spread_over_the_run(
    within: World, number: int, chosen: list[int]
) -> None:
    cases = timings(number)
    measure(within, cases, Watched(within, cases), budget=PLENTY if number == 1 else 8.0)
    compared = {opened.case for opened in within.opened if in_control(opened)}
    assert compared == {f"case {place} in A" for place in chosen}


def test_without_cases_there_is_nothing_to_compare(within: World) -> None:
    control = Watched(within, [])
    within.now = 1e6
    assert not control.is_due(LAUNCH)
    assert control.results() == []


@pytest.mark.parametrize("launch", [0.1, LAUNCH, 20.0])
@pytest.mark.parametrize("number", [1, 30])
def test_it_never_takes_more_than_a_tenth_of_the_time_launches_included(
    within: World, number: int, launch: float
) -> None:
    """Not for its first replicate either: launches and crossovers of cases tell what that takes."""
    cases = timings(number)
    control = Watched(within, cases, Starting(within, ("A", "A again"), launch))
    measure(within, cases, control, budget=PLENTY if number == 1 else 12.0, launch=launch)
    assert max(control.shares) <= SHARE
    assert control.seconds > 0.6 * SHARE * within.now, "and most of what it may take it takes"


def test_its_replicates_lie_in_between_all_the_time(within: World) -> None:
    cases = timings(1)
    control = Watched(within, cases)
    measure(within, cases, control)
    thirds = [int(3 * moment / within.now) for moment in control.times]
    assert set(thirds) == {0, 1, 2}


def test_a_replicate_that_took_long_makes_the_next_one_wait(within: World) -> None:
    """What one takes is known once the first one is over."""
    control = Watched(within, timings(1), Starting(within, ("A", "A again"), 20.0))
    within.now = 40.0
    assert control.is_due(LAUNCH)
    control.take_replicate(take_alike, Effort())
    within.now = 379.0
    assert not control.is_due(LAUNCH)
    within.now = 380.0
    assert control.is_due(LAUNCH), "another twenty seconds are a tenth then"


def test_both_sides_are_launched_for_every_replicate_where_the_cases_never_were(
    within: World,
) -> None:
    starting = Starting(within, ("A", "A again"), LAUNCH)
    cases = timings(1)
    (case,) = controls_in(measure(within, cases, Watched(within, cases, starting)))
    assert starting.layouts == [FIRST_LAYOUT + 1 + place for place in range(len(starting.layouts))]
    assert len(starting.layouts) == len(case.replicates) > FEWEST_REPLICATES
    for layout in starting.layouts:
        launched = [each.side for each in within.environments if each.layout == layout]
        assert launched.count("A again") == 1
        assert launched.count("A") == 2, "that of the comparison, and that of the control"
    assert all(environment.closed for environment in within.environments)


def test_it_is_judged_after_the_same_looks_as_a_case(within: World) -> None:
    """What is steady ends with the first look; what is not has at the end what looks have left."""
    noise = within.cost
    within.cost = lambda opened: A_SECONDS if "steady" in opened.case else noise(opened)
    (steady,) = controls_in(measure(within, timings(1), Watched(within, [timing("steady")])))
    assert len(steady.replicates) == FEWEST_REPLICATES
    assert steady.timing().alpha_share == LOOKS[FEWEST_REPLICATES]
    assert judge_alone(steady.timing()).verdict is Verdict.SAME
    (noisy,) = controls_in(measure(within, timings(1), Watched(within, [timing("noisy")])))
    spent = [share for count, share in LOOKS.items() if count <= len(noisy.replicates)]
    assert len(spent) >= 2
    assert noisy.timing().alpha_share == pytest.approx(1 - sum(spent))


def test_it_is_a_case_of_its_own_with_what_runs_in_a_on_both_sides(within: World) -> None:
    case = CaseTiming(
        planned=planned(records.case(), other=records.case("other")),
        ready=("in A", "in B"),
        same_files=False,
    )
    news = measure(within, [case], Watched(within, [case]))
    assert news[-2] is case, "its results come last"
    (control,) = controls_in(news[-1:])
    assert control.planned == planned(records.case(), Metric.CONTROL)
    assert control.planned.environments == PAIR
    assert control.timing().same_files
    assert {opened.case for opened in within.opened if in_control(opened)} == {"in A"}
    began = {each.metric for each in news if isinstance(each, Began)}
    assert began == {Metric.TIME}, "nobody waits for it"


@pytest.mark.parametrize("budget", [0.1, 15.0])
def test_a_run_that_is_too_short_has_none(within: World, budget: float) -> None:
    """Too short for one replicate, or for as many as a verdict needs."""
    cases = timings(1)
    control = Watched(within, cases)
    assert controls_in(measure(within, cases, control, budget=budget)) == []
    assert (len(control.shares) == 0) is (budget < 1)
    assert len(control.shares) < FEWEST_REPLICATES


@pytest.mark.parametrize("side", ["A", "A again"])
def test_one_that_fails_costs_its_case_nothing(within: World, side: str) -> None:
    cases = timings(20)
    control = Watched(within, cases)

    def fails(opened: Opened) -> bool:
        own = any(each.side == "A again" and not each.closed for each in within.environments)
        return own and opened.side == side and opened.case == "case 5 in A"

    within.fails = fails
    news = measure(within, cases, control, budget=12.0)
    assert [each.planned.case.label[-1] for each in controls_in(news)] == ["case 15"]
    assert all(case.failure is None for case in cases)
    assert len(cases[5].replicates) > FEWEST_REPLICATES


def test_one_that_cannot_be_launched_ends_the_comparison_and_leaves_nothing(within: World) -> None:
    def start(_layout: int) -> Zygotes:
        raise ZygoteError("no memory")

    cases = timings(1)
    with pytest.raises(ZygoteError, match="no memory"):
        measure(within, cases, Watched(within, cases, start))
    assert all(environment.closed for environment in within.environments)


def test_a_comparison_without_a_control_is_as_before(within: World) -> None:
    (case,) = cases = timings(1)
    effort = msgspec.structs.replace(Effort(), budget=0.5)
    take = take_replicates(
        cases, Starting(within), rng=random.Random(0), cores=[], effort=effort, cases=1,
        in_background=False,
    )  # fmt: skip
    assert [each for each in take if isinstance(each, CaseTiming)] == [case]
