"""Replicates until the verdict is clear: made-up environments, whose blocks move the clock."""

from __future__ import annotations

import math
import os
import random
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests import records
from tests.ab_records import alone, planned
from tests.engine.paired.fakes import Opened, Starting, World
from tests.engine.zygote_cases import wait_until
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import is_decided, judge_alone
from torchmark.engine.paired.pairing import TakenCrossover, take_crossover
from torchmark.engine.paired.timing import _WITHOUT_OTHERS, CaseTiming, take_replicates
from torchmark.errors import ZygoteError
from torchmark.model.result import Metric
from torchmark.model.run import FEWEST_REPLICATES, Began, Effort, Note, Stage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from torchmark.engine.paired.pairing import Side
    from torchmark.engine.paired.timing import Zygotes
    from torchmark.model.result import Crossover, PairedTiming

A_SECONDS = 1e-5
PLENTY = 1000.0
"""A budget that nothing comes near to."""

CROSSOVERS = 1
EARLY_CROSSOVERS = 2
"""Of a replicate before the first look."""

MOST_CROSSOVERS = 6
LOOKS = (5, 10, 20, 40)
FIRST_LOOK, LATER_LOOK = 1 / 4, 1 / 12
"""What these may spend of the allowed false alarms."""


def timing(name: str = "case") -> CaseTiming:
    return CaseTiming(planned=planned(records.case(name)), ready=(name, name))


def after_the_first_look(ratio: float = 1.0) -> CaseTiming:
    """A case that goes on to the next look, after as many replicates again."""
    each = timing()
    offs = [0.0002, -0.0002] * FEWEST_REPLICATES
    each.replicates += alone(math.log(ratio) + off for off in offs[:FEWEST_REPLICATES])
    return each


def world(b: float = 1.0, jitter: float = 0.0002) -> World:
    """B takes `b` times as long; where memory lies moves it by `jitter`, one way or the other."""

    def cost(opened: Opened) -> float:
        if opened.side == "A":
            return A_SECONDS
        return A_SECONDS * b * (1 + jitter * (1 if opened.layout % 2 else -1))

    return World(cost=cost)


def running(
    within: World,
    *timings: CaseTiming,
    start: Any = None,
    budget: float = PLENTY,
    replicates: int = FEWEST_REPLICATES,
    hurry: bool = False,
    in_background: bool = False,
) -> Generator[Began | Note | Stage | CaseTiming, None, None]:
    return take_replicates(
        timings,
        start or Starting(within),
        rng=random.Random(0),
        cores=[3],
        effort=Effort(budget=budget, replicates=replicates, hurry=hurry, timeout=7.0),
        cases=len(timings),
        in_background=in_background,
    )


def take_alike(_a: Side, _b: Side) -> TakenCrossover:
    """A crossover without processes, in which nothing differs."""
    return TakenCrossover(estimates=(0.0, 0.0), a_seconds=A_SECONDS)


def that_settles(case: str) -> World:
    """In the replicates before the first look B is now faster and now slower for this case."""
    within = world()
    usual = within.cost

    def cost(opened: Opened) -> float:
        is_unsettled = (opened.side, opened.case) == (
            "B",
            case,
        ) and opened.layout < FEWEST_REPLICATES
        return usual(opened) * (1 + 0.01 * (opened.layout - 2) if is_unsettled else 1)

    within.cost = cost
    return within


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose clock is the one that budgets are measured by."""
    within = world()
    monkeypatch.setattr("torchmark.engine.paired.timing.time", within.clock())
    return within


def numbers(replicates: Iterable[tuple[Crossover, ...]]) -> Iterator[float]:
    return (number for each in replicates for crossover in each for number in crossover)


def verdict_of(each: CaseTiming) -> Verdict:
    return judge_alone(each.timing()).verdict


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.02, Verdict.SLOWER), (0.98, Verdict.FASTER), (1.0, Verdict.SAME)]
)
def test_what_is_steady_is_decided_after_the_fewest_replicates(
    ratio: float, verdict: Verdict
) -> None:
    within, each = world(ratio), timing()
    assert list(running(within, each))[-1] is each
    assert verdict_of(each) is verdict
    assert len(each.replicates) == FEWEST_REPLICATES
    assert each.timing().alpha_share == FIRST_LOOK
    assert list(numbers(each.timing().replicates)) == pytest.approx(
        [math.log(ratio)] * (2 * FEWEST_REPLICATES), abs=0.0003
    )
    assert each.timing().a_seconds == pytest.approx(A_SECONDS)


def test_noise_goes_on_until_the_budget_is_used(clocked: World) -> None:
    clocked.cost = world(jitter=0.1).cost
    each, budget = timing(), 20.0
    list(running(clocked, each, budget=budget))
    assert verdict_of(each) is Verdict.UNCLEAR
    assert budget <= each.seconds < budget + 1.5 * each.seconds / each.crossovers
    assert each.seconds == pytest.approx(clocked.now)
    assert len(each.replicates) > FEWEST_REPLICATES


@pytest.mark.parametrize(
    ("replicates", "looks"),
    [
        (5, []),
        (6, [FIRST_LOOK]),
        (10, [FIRST_LOOK]),
        (11, [FIRST_LOOK, LATER_LOOK]),
        (20, [FIRST_LOOK, LATER_LOOK]),
        (21, [FIRST_LOOK, LATER_LOOK, LATER_LOOK]),
        (41, [FIRST_LOOK, LATER_LOOK, LATER_LOOK, LATER_LOOK]),
    ],
)
def test_the_last_look_has_what_the_others_left(
    clocked: World, replicates: int, looks: list[float]
) -> None:
    """All of them together make no more false alarms than one look would."""
    steady, each = timing(), timing()
    list(running(clocked, steady))
    one = steady.seconds / FEWEST_REPLICATES
    clocked.cost = world(jitter=0.05).cost
    list(running(clocked, each, budget=one * (replicates - 0.5)))
    assert len(each.replicates) == replicates
    assert each.timing().alpha_share == pytest.approx(1 - sum(looks))
    assert each.timing().alpha_share >= 0.5, "that is when small changes are found"


@pytest.mark.parametrize("replicates", [1, 4, 5, 6, 10, 39, 40, 41, 99])
def test_the_shares_of_all_looks_add_up_to_one_whenever_it_ends(
    monkeypatch: pytest.MonkeyPatch, replicates: int
) -> None:
    """So looking does not make false alarms more frequent, and none that is allowed is lost."""
    spent: list[float] = []

    def look(seen: PairedTiming, **_: object) -> bool:
        spent.append(seen.alpha_share)
        return False

    monkeypatch.setattr("torchmark.engine.paired.timing.is_decided", look)
    each, zygotes = timing(), Starting(world())(0)
    for _ in range(replicates):
        each.take_crossover(zygotes, take_alike)
        assert not each.end_replicate(Effort(budget=PLENTY), cases=1)
    assert len(spent) == sum(replicates >= look for look in LOOKS)
    each.end()
    assert sum(spent) + each.timing().alpha_share == pytest.approx(1)


def test_with_one_look_alone_a_case_takes_its_budget_and_pays_nothing(clocked: World) -> None:
    once, each = timing(), timing()
    list(running(clocked, once))
    budget = 3 * once.seconds
    list(running(clocked, each, budget=budget, hurry=True))
    assert each.seconds >= budget
    assert len(each.replicates) > FEWEST_REPLICATES
    assert each.timing().alpha_share == 1


def test_in_a_hurry_as_many_replicates_as_wanted_are_taken_with_one_crossover_each() -> None:
    within, each = world(), timing()
    starting = Starting(within)
    gate = starting.gates[1] = threading.Event()
    news = running(
        within, each, start=starting, budget=0, replicates=9, hurry=True, in_background=True
    )
    next(news)
    gate.set()
    list(news)
    assert len(each.replicates) == 9
    assert each.crossovers == 9, "none more for a start that was not ready"
    assert starting.layouts == list(range(9)), "and no start that nobody needs"


def test_who_stops_when_a_change_is_clear_has_an_interval_that_can_be_believed() -> None:
    """Stopping where a change looks large is no reason to miss the truth more often."""
    draw = random.Random(3)
    zygotes, effort = Starting(world())(0), Effort(budget=PLENTY)
    truths, trials = (0.005, 0.01), 200
    at_level, at_95 = 0, 0
    for truth in truths:

        def take(_a: Side, _b: Side, truth: float = truth) -> TakenCrossover:
            one, other = (draw.gauss(truth, 0.008) for _ in range(2))
            return TakenCrossover(estimates=(one, other), a_seconds=A_SECONDS)

        taken = set()
        for _ in range(trials):
            each = timing()
            is_over = False
            while not is_over:
                each.take_crossover(zygotes, take)
                if len(each.replicates) == 24:
                    each.seconds = PLENTY
                is_over = each.end_replicate(effort, cases=1)
            effect = judge_alone(each.timing())
            at_level += effect.interval.low <= math.exp(truth) <= effect.interval.high
            at_95 += effect.interval_95.low <= math.exp(truth) <= effect.interval_95.high
            taken.add(len(each.replicates))
        assert taken == {5, 10, 20, 25}, "every look ends some of them"
    assert 0.93 <= at_95 / (len(truths) * trials) <= 0.98
    assert at_level / (len(truths) * trials) >= 0.99, "as often as the verdict's level says"


def test_between_two_looks_nothing_is_decided() -> None:
    """Pairs that begin to agree after the first look are decided by the second one."""
    within, each = that_settles("case"), timing()
    list(running(within, each))
    assert (len(each.replicates), each.alpha_share) == (LOOKS[1], LATER_LOOK)
    assert verdict_of(each) is Verdict.SAME


def test_every_case_is_over_by_itself_and_handed_on_at_once() -> None:
    within = that_settles("long")
    short, long = timing("short"), timing("long")
    news = list(running(within, short, long))
    assert [each for each in news if isinstance(each, CaseTiming)] == [short, long]
    assert (len(short.replicates), len(long.replicates)) == (FEWEST_REPLICATES, LOOKS[1])
    later = news[news.index(short) :]
    assert Began(case=short.planned.case, metric=Metric.TIME) not in later
    assert Began(case=long.planned.case, metric=Metric.TIME) in later


@pytest.mark.parametrize("side", ["A", "B"])
@pytest.mark.parametrize("when", ["at the start", "in its blocks"])
def test_a_case_that_fails_says_where_and_costs_itself_alone(side: str, when: str) -> None:
    within, bad, good = world(), timing("bad"), timing("good")

    def is_bad(opened: Opened) -> bool:
        return (opened.side, opened.case) == (side, "bad")

    if when == "at the start":
        within.fails = is_bad
    else:
        within.fails_late = is_bad
    over = [each for each in running(within, bad, good) if isinstance(each, CaseTiming)]
    assert over == [bad, good]
    assert bad.failure is not None
    assert bad.failure.is_a is (side == "A")
    assert good.failure is None
    assert len(good.replicates) == FEWEST_REPLICATES
    assert {opened.layout for opened in within.opened if opened.case == "bad"} == {0}


def test_every_start_has_the_next_layout_and_ends_before_the_one_after_it() -> None:
    within, each = world(), timing()
    starting = Starting(within)

    def start(layout: int) -> Zygotes:
        assert all(environment.closed for environment in within.environments)
        return starting(layout)

    list(running(within, each, start=start))
    assert starting.layouts == list(range(FEWEST_REPLICATES))
    assert all(environment.closed for environment in within.environments)
    for layout in starting.layouts:
        sides = [opened.side for opened in within.opened if opened.layout == layout]
        assert (sides.count("A"), sides.count("B")) == (2 * CROSSOVERS, 2 * CROSSOVERS)


def test_cores_and_limits_are_handed_on() -> None:
    within, each = world(), timing()
    list(running(within, each))
    assert {(opened.cores, opened.time_limit) for opened in within.opened} == {((3,), 7.0)}


def test_what_one_look_alone_would_decide_is_not_decided_by_the_first_of_several() -> None:
    """A look that may not spend all false alarms needs more than these replicates."""
    within, each = world(), timing()
    within.cost = lambda opened: (
        A_SECONDS * math.exp(0.008 + (0.0046 if opened.layout % 2 else -0.0046))
        if opened.side == "B"
        else A_SECONDS
    )
    news = running(within, each)
    while len(each.replicates) < FEWEST_REPLICATES:
        next(news)
    assert is_decided(msgspec.structs.replace(each.timing(), alpha_share=1.0))
    assert not is_decided(msgspec.structs.replace(each.timing(), alpha_share=FIRST_LOOK))
    list(news)
    assert len(each.replicates) > FEWEST_REPLICATES
    assert verdict_of(each) is Verdict.SLOWER


@pytest.mark.parametrize("in_background", [True, False])
def test_who_stops_early_leaves_no_zygotes(*, in_background: bool) -> None:
    within = world()
    starting = Starting(within)
    with closing(running(within, timing(), start=starting, in_background=in_background)) as news:
        assert isinstance(next(news), Began)
    begun = [0, 1] if in_background else [0]
    wait_until(lambda: starting.layouts == begun)
    for layout in begun:
        starting.wait_for(layout)
    wait_until(lambda: all(environment.closed for environment in within.environments))
    assert len(within.environments) == 2 * len(begun)


def test_the_start_that_nobody_needs_any_more_is_closed_when_it_is_there() -> None:
    within, each = world(), timing()
    starting = Starting(within)
    gate = starting.gates[FEWEST_REPLICATES] = threading.Event()
    list(running(within, each, start=starting, in_background=True))
    assert not gate.is_set(), "nobody waited for it"
    gate.set()
    starting.wait_for(FEWEST_REPLICATES)
    wait_until(lambda: all(environment.closed for environment in within.environments))
    assert len(within.environments) == 2 * (FEWEST_REPLICATES + 1)


def test_the_next_start_goes_on_meanwhile_only_where_there_is_a_core_for_it() -> None:
    within, each = world(), timing()
    starting = Starting(within)

    def cost(opened: Opened) -> float:
        starting.wait_for(opened.layout + 1)
        return A_SECONDS

    within.cost = cost
    list(running(within, each, start=starting, in_background=True))
    assert starting.layouts == list(range(FEWEST_REPLICATES + 1))

    within, each = world(), timing()
    alone = Starting(within)

    def cost_alone(opened: Opened) -> float:
        assert alone.layouts[-1] == opened.layout
        return A_SECONDS

    within.cost = cost_alone
    list(running(within, each, start=alone, in_background=False))
    assert alone.layouts == list(range(FEWEST_REPLICATES))


def ready_after(crossovers: int, within: World, starting: Starting) -> None:
    """Let every start be over in the last of so many crossovers of the one before."""
    starting.gates = {layout: threading.Event() for layout in range(1, FEWEST_REPLICATES + 1)}

    def cost(opened: Opened) -> float:
        taken = sum((before.layout, before.side) == (opened.layout, "B")
                    for before in within.opened)  # fmt: skip
        if taken == 2 * crossovers:
            starting.gates[opened.layout + 1].set()
            starting.wait_for(opened.layout + 1)
        return A_SECONDS

    within.cost = cost


@pytest.mark.parametrize("crossovers", [CROSSOVERS, EARLY_CROSSOVERS])
def test_more_crossovers_are_taken_only_while_the_next_start_is_not_ready(crossovers: int) -> None:
    within, each = world(), timing()
    starting = Starting(within)
    ready_after(crossovers, within, starting)
    list(running(within, each, start=starting, in_background=True))
    assert len(each.replicates) == FEWEST_REPLICATES
    assert each.crossovers == crossovers * FEWEST_REPLICATES


@pytest.mark.parametrize("crossovers", [CROSSOVERS, 4, MOST_CROSSOVERS])
def test_after_the_first_look_a_replicate_may_have_more_of_them(crossovers: int) -> None:
    within, each = world(), after_the_first_look()
    starting = Starting(within)
    ready_after(crossovers, within, starting)
    list(running(within, each, start=starting, in_background=True))
    assert len(each.replicates) == LOOKS[1]
    assert each.crossovers == crossovers * FEWEST_REPLICATES


def test_a_second_process_pair_runs_at_the_same_time_only_while_no_start_goes_on() -> None:
    """During a start the other cores are in use."""
    within, each = world(), timing()
    starting = Starting(within)
    ready_after(EARLY_CROSSOVERS, within, starting)
    beside = frozenset(os.sched_getaffinity(0))
    list(running(within, each, start=starting, in_background=True))
    assert set(within.environments[0].moves) == {beside | {3}}
    assert {opened.cores for opened in within.opened if opened.layout == 0} == {(3,)}

    within = world()
    starting = Starting(within)
    ready_after(CROSSOVERS, within, starting)
    list(running(within, timing("one"), timing("other"), start=starting, in_background=True))
    spare = (min(beside),)
    first = [opened for opened in within.opened if opened.layout == 0]
    assert {opened.cores for opened in first[:4]} == {(3,)}
    assert sorted(opened.cores for opened in first[4:]) == sorted([(3,), (3,), spare, spare]), (
        "the second case, after the start has become ready in the first"
    )
    assert within.environments[0].moves[-1] == beside | {3}


def test_cores_that_something_else_uses_are_left_alone_for_a_while() -> None:
    within, many = world(), [timing(str(number)) for number in range(_WITHOUT_OTHERS + 10)]
    within.is_small = True
    within.processor_share = lambda opened: 1.0 if opened.cores == (3,) else 0.5
    starting = Starting(within)
    ready_after(1, within, starting)
    list(running(within, *many, start=starting, in_background=True))
    first = [opened for opened in within.opened if opened.layout == 0]
    on_others = [
        number // 4
        for number in range(0, len(first), 4)
        if any(opened.cores != (3,) for opened in first[number : number + 4])
    ]
    one, other = on_others
    assert other - one == _WITHOUT_OTHERS + 1
    between = first[4 * one + 4 : 4 * other]
    assert {opened.cores for opened in between} == {(3,)}
    assert any(opened.while_others_run for opened in between), "processes are still made there"


def test_a_wait_for_one_crossover_more_goes_to_the_case_that_had_the_fewest() -> None:
    """Every start is ready after the third turn of the one before, with two cases."""
    within, one, other = world(), timing("one"), timing("other")
    starting = Starting(within)
    ready_after(3, within, starting)
    list(running(within, one, other, start=starting, in_background=True))
    assert one.crossovers + other.crossovers == 3 * FEWEST_REPLICATES
    assert abs(one.crossovers - other.crossovers) == 1, "of an odd number"


@pytest.mark.parametrize(
    ("each", "most"), [(timing(), EARLY_CROSSOVERS), (after_the_first_look(), MOST_CROSSOVERS)]
)
def test_there_is_an_end_to_crossovers_however_long_a_start_takes(
    each: CaseTiming, most: int
) -> None:
    within = world()
    zygotes = Starting(within)(layout=0)
    take = partial(take_crossover, rng=random.Random(0), cores=[], time_limit=1.0, seconds=0.075)
    each.take_crossover(zygotes, take)
    while each.take_more(zygotes, take, Effort(budget=PLENTY)):
        assert each.crossovers <= most
    assert each.crossovers == most


def test_a_case_whose_time_is_up_waits_for_no_other_start() -> None:
    within, each = world(), after_the_first_look()
    zygotes = Starting(within)(layout=0)
    take = partial(take_crossover, rng=random.Random(0), cores=[], time_limit=1.0, seconds=0.075)
    each.take_crossover(zygotes, take)
    each.seconds = 5.0
    assert each.take_more(zygotes, take, Effort(budget=5.1))
    assert not each.take_more(zygotes, take, Effort(budget=5.0))


def test_what_has_failed_takes_no_more() -> None:
    within, each = world(), timing()
    within.fails = lambda opened: opened.side == "B"
    zygotes = Starting(within)(layout=0)
    take = partial(take_crossover, rng=random.Random(0), cores=[], time_limit=1.0, seconds=0.075)
    each.take_crossover(zygotes, take)
    tried = len(within.opened)
    assert not each.take_more(zygotes, take, Effort(budget=PLENTY))
    assert len(within.opened) == tried


def test_a_case_that_fails_in_such_a_crossover_has_failed() -> None:
    within, each = world(), timing()
    starting = Starting(within)
    starting.gates[1] = threading.Event()

    def fails(opened: Opened) -> bool:
        if len(within.opened) <= 4 * CROSSOVERS:
            return False
        starting.gates[1].set()
        return opened.side == "B"

    within.fails = fails
    list(running(within, each, start=starting, in_background=True))
    assert each.failure is not None
    assert not each.failure.is_a
    assert each.replicates == []


def test_a_replicate_has_all_crossovers_that_were_taken_in_it() -> None:
    within, each = world(), after_the_first_look(1.1)
    starting = Starting(within)
    ratios = (1.099, 1.101, 1.1)
    ready_after(len(ratios), within, starting)
    ready = within.cost

    def cost(opened: Opened) -> float:
        taken = sum((before.layout, before.side) == (opened.layout, "B")
                    for before in within.opened)  # fmt: skip
        return ready(opened) * (ratios[(taken - 1) // 2] if opened.side == "B" else 1.0)

    within.cost = cost
    list(running(within, each, start=starting, in_background=True))
    for replicate in each.replicates[FEWEST_REPLICATES:]:
        assert list(numbers([replicate])) == pytest.approx(
            [math.log(r) for r in ratios for _ in "ab"]
        )


@pytest.mark.parametrize("in_background", [True, False])
def test_environments_that_cannot_be_started_again_end_it(*, in_background: bool) -> None:
    within, each = world(), timing()
    starting = Starting(within)

    def start(layout: int) -> Zygotes:
        if layout == 2:
            raise ZygoteError("no memory")
        return starting(layout)

    with pytest.raises(ZygoteError, match="no memory"):
        list(running(within, each, start=start, in_background=in_background))
    assert all(environment.closed for environment in within.environments)
