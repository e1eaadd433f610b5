"""Time that clear cases leave goes to unclear ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests import records
from tests.ab_records import planned
from tests.engine.paired.fakes import Starting, World, noisy_world
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import SAME_WITHIN, detectable_among, is_precise, judge_alone
from torchmark.engine.paired.comparing import Comparison
from torchmark.engine.paired.sharing import share_time
from torchmark.engine.paired.timing import CaseTiming, take_replicates
from torchmark.model.result import Status
from torchmark.model.run import Effort

if TYPE_CHECKING:
    from torchmark.model.result import PairedTiming

BUDGET = 2.0
CLEAR, UNCLEAR, HOPELESS = 0.001, 0.02, 0.5
"""Jitters: of a case that ends at its first look, of one in which 1 % is found with more time than
its budget, and of one in which it is never found."""


def timing(name: str) -> CaseTiming:
    return CaseTiming(planned=planned(records.case(name)), ready=(name, name))


def measure(
    within: World,
    monkeypatch: pytest.MonkeyPatch,
    *names: str,
    hurry: bool = False,
    same_files: bool = True,
) -> tuple[list[CaseTiming], list[CaseTiming]]:
    """The cases, and the order in which they ended."""
    monkeypatch.setattr("torchmark.engine.paired.timing.time", within.clock())
    timings = [timing(name) for name in names]
    for each in timings:
        each.same_files = same_files
    news = take_replicates(
        timings,
        Starting(within),
        rng=random.Random(0),
        cores=[3],
        effort=Effort(budget=BUDGET, hurry=hurry, timeout=7.0),
        cases=len(timings),
        in_background=False,
    )
    return timings, [each for each in news if isinstance(each, CaseTiming)]


def detectable(each: CaseTiming, cases: int) -> float:
    return detectable_among(each.timing(), cases)


def test_a_case_by_itself_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    (each,), _ = measure(noisy_world({"unclear": UNCLEAR}), monkeypatch, "unclear")
    assert BUDGET <= each.seconds < BUDGET + 1.5 * each.seconds / each.crossovers
    assert detectable(each, cases=1) > SAME_WITHIN


def test_an_unclear_case_gets_what_clear_ones_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = [f"clear {number}" for number in range(9)]
    jitters = {"unclear": UNCLEAR, **dict.fromkeys(clear, CLEAR)}
    within = noisy_world(jitters, {"unclear": 1.01})
    (unclear, *others), over = measure(within, monkeypatch, "unclear", *clear)
    assert unclear.seconds > BUDGET + unclear.seconds / unclear.crossovers
    assert judge_alone(unclear.timing()).verdict is Verdict.SLOWER
    assert sorted(map(id, over)) == sorted(map(id, [unclear, *others])), "each ends once"
    assert over[-1] is unclear
    assert sum(each.seconds for each in over) <= BUDGET * len(over)


def test_an_unclear_case_stops_when_more_time_is_not_worth_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clear = [f"clear {number}" for number in range(30)]
    within = noisy_world({"unclear": UNCLEAR, **dict.fromkeys(clear, CLEAR)}, {"unclear": 1.004})
    (unclear, *_), over = measure(within, monkeypatch, "unclear", *clear)
    assert unclear.extra > 0
    assert sum(each.seconds for each in over) < 0.9 * BUDGET * len(over)


def test_a_case_that_more_time_would_not_help_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = [f"clear {number}" for number in range(9)]
    within = noisy_world({"hopeless": HOPELESS, **dict.fromkeys(clear, CLEAR)})
    (hopeless, *_), over = measure(within, monkeypatch, "hopeless", *clear)
    assert hopeless.extra == 0
    assert hopeless.seconds < BUDGET + 1.5 * hopeless.seconds / hopeless.crossovers
    assert over[-1] is hopeless


def test_no_time_is_shared_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = [f"clear {number}" for number in range(9)]
    within = noisy_world({"unclear": UNCLEAR, **dict.fromkeys(clear, CLEAR)})
    timings, _ = measure(within, monkeypatch, "unclear", *clear, hurry=True)
    assert {each.extra for each in timings} == {0}


def test_the_looks_of_a_case_with_more_time_share_its_false_alarms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of its budget is no look: nothing is decided then."""
    shares: list[float] = []

    def look(seen: PairedTiming, **_: object) -> bool:
        shares.append(seen.alpha_share)
        return False

    monkeypatch.setattr("torchmark.engine.paired.timing.is_decided", look)
    timings, _ = measure(
        noisy_world({"unclear": UNCLEAR, "left": CLEAR}), monkeypatch, "unclear", "left"
    )
    assert sum(shares) + sum(each.alpha_share for each in timings) == pytest.approx(2)


def unclear_after(seconds: float, jitter: float) -> CaseTiming:
    """A case that has had 20 replicates in this time."""
    draw = random.Random(2)
    each = timing("made up")
    each.replicates = [((draw.gauss(0, jitter), draw.gauss(0, jitter)),) for _ in range(20)]
    each.a_seconds = [1e-4] * 20
    each.seconds = seconds
    each.end()
    return each


def shared(left: float, *held: CaseTiming) -> list[CaseTiming]:
    """The cases that continue if this time is left; the budget is that of as many cases more."""
    spent = sum(each.seconds for each in held)
    return share_time(held, held, Effort(budget=(spent + left) / len(held)), cases=len(held))


def test_the_case_that_needs_least_comes_first() -> None:
    """So the time is enough for as many cases as possible."""
    long, short = unclear_after(20.0, 0.02), unclear_after(2.0, 0.02)
    needed = short.seconds_to_see_same(1000.0, cases=2)
    assert 0 < needed < long.seconds_to_see_same(1000.0, cases=2)
    assert shared(needed * 1.5, long, short) == [short]
    assert long.extra == 0
    assert short.extra == pytest.approx(needed * 1.5)


def test_one_case_does_not_get_the_time_of_a_hundred() -> None:
    each, others = unclear_after(10.0, 0.013), [timing("clear") for _ in range(100)]
    effort = Effort(budget=2.0)
    assert share_time([each], [each, *others], effort, cases=101) == [each]
    assert each.extra == 5 * effort.budget
    assert share_time([each], [each, *others], effort, cases=101) == [], "nor by and by"


def test_nothing_is_shared_if_nothing_is_left() -> None:
    each = unclear_after(2.0, 0.02)
    assert shared(-1.0, each) == []
    assert share_time([], [each], Effort(budget=5.0), cases=1) == []
    assert each.extra == 0


@pytest.mark.parametrize("same_files", [True, False])
def test_a_precise_case_needs_no_more(same_files: bool) -> None:
    """Also if other files are allowed to differ by more than a precise case can detect."""
    each = unclear_after(2.0, 0.001)
    each.same_files = same_files
    assert shared(100.0, each) == []


def test_a_case_that_became_precise_stops_though_its_files_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clear = [f"clear {number}" for number in range(30)]
    within = noisy_world({"unclear": UNCLEAR / 2, **dict.fromkeys(clear, CLEAR)})
    (unclear, *_), over = measure(within, monkeypatch, "unclear", *clear, same_files=False)
    assert unclear.extra > 0
    assert sum(each.seconds for each in over) < 0.9 * BUDGET * len(over)


def test_a_case_that_was_decided_is_not_held_back() -> None:
    """It has its budget before it has the replicates that are wanted."""
    each, effort = unclear_after(5.0, 0.0001), Effort(budget=2.0, replicates=40)
    assert not each.is_out_of_time(effort)
    assert each.is_out_of_time(Effort(budget=2.0, replicates=20))


def test_the_end_of_its_share_does_not_follow_the_level_of_a_look() -> None:
    """After a look, the end may still spend most of the false alarms: fewer replicates suffice."""
    each, effort = unclear_after(5.0, 0.0039), Effort(budget=2.0)
    each.extra = 100.0
    each.alpha_share = 1 / 12
    assert not is_precise(each.timing(), cases=1)
    each.replicates.pop()
    each._present = [(0.0, 0.0)]
    assert each.end_replicate(effort, cases=1)
    assert each.alpha_share == 1


@pytest.mark.parametrize(
    ("budget", "status"), [(2.0, Status.DONE), (9.0, Status.PARTIAL)], ids=["had", "had not"]
)
def test_ctrl_c_keeps_the_result_of_a_case_that_had_its_budget(
    budget: float, status: Status
) -> None:
    """It was only held back for the time of others: measuring it again would not help."""
    each: Any = unclear_after(5.0, 0.02)
    nothing: Any = None
    comparison = Comparison([], nothing, nothing, Effort(budget=budget), nothing)
    comparison._under_way = [each]
    (result,) = comparison.partial_results()
    assert result.status is status
    payload: Any = result.payload
    assert len(payload.replicates) == 20
