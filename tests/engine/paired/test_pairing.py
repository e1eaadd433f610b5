"""Fresh processes that alternate: who is started first, how often each runs, who failed."""

from __future__ import annotations

import itertools
import math
import random
import threading
from typing import TYPE_CHECKING

import pytest

from tests.engine.paired.fakes import BLOCK_SECONDS, FakeSession, Opened, World
from tests.engine.zygote_cases import wait_until
from torchmark.engine.paired.pairing import Side, SideFailedError, TakenCrossover, take_crossover
from torchmark_probe.zygote.messages import BlockTimes

if TYPE_CHECKING:
    from collections.abc import Callable

MICROSECOND = 1e-6

SECONDS = 0.075
"""That the blocks of a process pair take together."""


def world(a: float = MICROSECOND, b: float = MICROSECOND) -> World:
    return World(cost=lambda opened: a if opened.side == "A" else b)


def crossover_in(within: World, seed: int = 0, *, in_background: bool = False) -> TakenCrossover:
    a = Side(opens=within.opens("A"), case="stmt a")
    b = Side(opens=within.opens("B"), case="stmt b")
    return take_crossover(
        a, b, random.Random(seed), [3], time_limit=7.0, seconds=SECONDS, in_background=in_background
    )


def test_the_ratio_and_the_time_of_a_come_from_the_blocks() -> None:
    taken = crossover_in(world(MICROSECOND, 1.1 * MICROSECOND))
    assert taken.estimates == pytest.approx((math.log(1.1), math.log(1.1)))
    assert taken.a_seconds == pytest.approx(MICROSECOND)


@pytest.mark.parametrize("seed", range(8))
def test_each_is_started_before_the_other_once(seed: int) -> None:
    within = world()
    crossover_in(within, seed)
    order = "".join(opened.side for opened in within.opened)
    assert order in ("ABBA", "BAAB")


def at_once(within: World, seed: int = 0) -> TakenCrossover:
    """A crossover whose second process pair has cores of its own."""
    sides = (Side(within.opens("A"), "stmt a"), Side(within.opens("B"), "stmt b"))
    return take_crossover(
        *sides, random.Random(seed), [3], time_limit=7.0, seconds=SECONDS, other_cores=[5]
    )


@pytest.mark.parametrize("is_small", [True, False])
def test_the_second_process_pair_has_its_own_cores_and_the_other_order(*, is_small: bool) -> None:
    within = world(MICROSECOND, 1.1 * MICROSECOND)
    within.is_small = is_small
    taken = at_once(within)
    assert taken.estimates == pytest.approx((math.log(1.1), math.log(1.1)))
    orders = {
        core: "".join(each.side for each in within.opened if each.cores == (core,))
        for core in (3, 5)
    }
    assert sorted(orders.values()) == ["AB", "BA"]
    assert all(each.closed for each in within.sessions)


def test_small_pairs_are_measured_at_the_same_time_and_large_ones_are_not() -> None:
    """Those that move megabytes would disturb each other."""
    for is_small in (True, False):
        within = world()
        within.is_small = is_small
        threads: set[str] = set()

        def cost(opened: Opened, threads: set[str] = threads) -> float:
            threads.add(threading.current_thread().name)
            return 1.0

        within.processor_share = cost
        at_once(within)
        assert len(threads) == (2 if is_small else 1)


def test_a_pair_whose_core_others_use_is_noticed() -> None:
    within = world()
    within.is_small = True
    within.processor_share = lambda opened: 0.5 if opened.cores == (5,) else 1.0
    assert not at_once(within).is_alone
    within.processor_share = lambda opened: 0.5  # by itself: it waits for something
    assert at_once(within).is_alone


@pytest.mark.parametrize("core", [3, 5])
def test_a_failure_of_either_pair_ends_both(core: int) -> None:
    within = world()
    within.is_small = True
    within.fails_late = lambda opened: opened.cores == (core,)
    with pytest.raises(SideFailedError):
        at_once(within)
    within.fails = lambda opened: opened.cores == (core,)
    with pytest.raises(SideFailedError):
        at_once(within)


def test_which_order_comes_first_is_drawn() -> None:
    firsts = set()
    for seed in range(8):
        within = world()
        crossover_in(within, seed)
        firsts.add(within.opened[0].side)
    assert firsts == {"A", "B"}


@pytest.mark.parametrize("seed", range(4))
def test_what_the_two_orders_give_stands_in_its_place(seed: int) -> None:
    """Of two processes the first is often the slower one: in one order A, in the other B."""
    within = world()

    def cost(opened: Opened) -> float:
        is_first = len(within.opened) % 2 == 1
        return MICROSECOND * (1.02 if is_first else 1.0) * (1.1 if opened.side == "B" else 1.0)

    within.cost = cost
    a_first, b_first = crossover_in(within, seed).estimates
    assert a_first == pytest.approx(math.log(1.1 / 1.02))
    assert b_first == pytest.approx(math.log(1.1 * 1.02))


def test_every_process_is_new_and_told_its_cores_and_limit_and_each_pair_is_shaken_anew() -> None:
    within = world()
    crossover_in(within)
    first, second, third, fourth = (opened.shake for opened in within.opened)
    assert first == second != third == fourth
    assert {opened.cores for opened in within.opened} == {(3,)}
    assert {opened.time_limit for opened in within.opened} == {7.0}
    assert {(opened.side, opened.case) for opened in within.opened} == {
        ("A", "stmt a"),
        ("B", "stmt b"),
    }
    assert [session.closed for session in within.sessions] == [1] * 4


def test_two_that_are_alike_run_equally_often_in_a_block() -> None:
    within = world(MICROSECOND, 2.5 * MICROSECOND)
    crossover_in(within)
    own = {round(session.number) for session in within.sessions}
    assert len(own) == 2
    assert {begun.number for begun in within.begun} == {max(own)}


def test_two_that_are_far_apart_run_as_often_as_fits_each() -> None:
    within = world(MICROSECOND, 10 * MICROSECOND)
    taken = crossover_in(within)
    numbers = {(begun.side, begun.number) for begun in within.begun}
    assert numbers == {("A", 100), ("B", 10)}
    assert taken.estimates[0] == pytest.approx(math.log(10)), "of one run, not of a block"


def test_a_block_has_at_least_one_run() -> None:
    within = world(10.0, 10.0)
    crossover_in(within)
    assert {begun.number for begun in within.begun} == {1}


@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [(20.0, 5), (0.07, 5), (0.02, 15), (0.01, 30), (0.001, 120), (0.0002, 150), (0.0, 2000)],
    ids=str,
)
def test_slow_statements_have_more_time_for_their_rounds_and_quick_ones_an_end_of_them(
    seconds: float, rounds: int
) -> None:
    within = world()
    original = within.opens("A")

    class Opens:
        """Sessions whose block takes what the test says."""

        def session(self, case: object, **options: object) -> object:
            session = original.session(case, **options)  # type: ignore[arg-type]
            session.seconds, session.number = seconds, 100
            return session

        def close(self) -> None:
            pass

    side = Side(opens=Opens(), case="")  # type: ignore[arg-type]
    take_crossover(side, side, random.Random(0), [], time_limit=1.0, seconds=SECONDS)
    assert {len(begun.order) for begun in within.begun} == {2 * rounds}


@pytest.mark.parametrize("seconds", [0.1, 0.15, 0.3])
def test_what_blocks_may_take_decides_how_many_rounds_they_have(seconds: float) -> None:
    within = world()
    a, b = (Side(opens=within.opens(side), case="") for side in "AB")
    take_crossover(a, b, random.Random(0), [], time_limit=1.0, seconds=seconds)
    (length,) = {len(begun.order) for begun in within.begun}
    assert length == pytest.approx(seconds / (BLOCK_SECONDS * 1.25), abs=2), "with its warm-up"


def test_a_round_has_one_block_of_each_in_an_order_that_is_drawn() -> None:
    within = world()
    crossover_in(within)
    one, other, *_ = within.begun
    assert one.order == other.order, "the two agree on whose block it is"
    assert {one.role, other.role} == {0, 1}
    rounds = set(zip(one.order[::2], one.order[1::2], strict=True))
    assert rounds == {(0, 1), (1, 0)}
    assert within.begun[2].order != one.order


def test_a_block_seldom_follows_one_of_its_own() -> None:
    """It would find its data in the caches, which the ratio of that round would feel."""
    within = world()
    for seed in range(20):
        crossover_in(within, seed)
    orders = [begun.order for begun in within.begun]
    again = sum(one == other for each in orders for one, other in itertools.pairwise(each))
    assert 1 / 64 < again / sum(map(len, orders)) < 1 / 16
    assert {each[0] for each in orders} == {0, 1}, "who has the first block of all is drawn"


def block_times(seconds: list[float]) -> BlockTimes:
    """Warm from the first run on."""
    return BlockTimes(seconds, seconds)


@pytest.mark.parametrize(("colder", "counts"), [(0.99, True), (1.04, True), (1.2, False)])
def test_the_run_before_a_block_of_one_run_counts_where_cold_caches_do_not_matter(
    colder: float, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of both take as long here, and B's runs before them less than A's."""
    seconds = 0.002

    def blocks(session: FakeSession) -> BlockTimes:
        begun = session.begun
        assert begun is not None
        assert begun.number == 1
        count = begun.order.count(begun.role)
        first = seconds * colder * (0.98 if begun.side == "B" else 1.0)
        return BlockTimes([seconds] * count, [first] * count)

    monkeypatch.setattr("tests.engine.paired.fakes.FakeSession.blocks", blocks)
    estimate = crossover_in(world(seconds, seconds)).estimates[0]
    assert estimate < 0 if counts else estimate == 0


def test_the_first_rounds_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They say which process was started last: its data is in the cache."""

    def estimate(first: int) -> float:
        def blocks(session: FakeSession) -> BlockTimes:
            begun = session.begun
            assert begun is not None
            count = begun.order.count(begun.role)
            quick = 2.5e-5 if begun.side == "B" else 5e-5
            return block_times([quick] * first + [5e-5] * (count - first))

        monkeypatch.setattr("tests.engine.paired.fakes.FakeSession.blocks", blocks)
        return crossover_in(world()).estimates[0]

    in_settling_time = int(0.01 / 7.5e-5)
    assert estimate(in_settling_time) == 0
    assert estimate(in_settling_time + 1) < 0


@pytest.mark.parametrize("seconds", [0.02, 3.0])
def test_rounds_that_are_long_count_from_the_first_one_on(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocks(session: FakeSession) -> BlockTimes:
        begun = session.begun
        assert begun is not None
        first = 0.5 if begun.side == "B" else 1.0
        return block_times([seconds * first] + [seconds] * (begun.order.count(begun.role) - 1))

    monkeypatch.setattr("tests.engine.paired.fakes.FakeSession.blocks", blocks)
    assert crossover_in(world(seconds, seconds)).estimates[0] < 0


@pytest.mark.parametrize(
    ("share", "what_counts"), [(0.4, 0.0), (0.6, 0.5), (0.9, 0.75), (1.0, 1.0)]
)
def test_the_middle_of_the_rounds_and_the_quiet_blocks_count_alike(
    share: float, what_counts: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What slows less than half of B's rounds is in neither of the two, what slows all in both."""

    def blocks(session: FakeSession) -> BlockTimes:
        begun = session.begun
        assert begun is not None
        wall, count = MICROSECOND * begun.number, begun.order.count(begun.role)
        slowed = round(share * count) if begun.side == "B" else 0
        return block_times([9 * wall] * slowed + [wall] * (count - slowed))

    monkeypatch.setattr("tests.engine.paired.fakes.FakeSession.blocks", blocks)
    expected = what_counts * math.log(9)
    assert crossover_in(world()).estimates == pytest.approx((expected, expected), abs=0.02)


def test_the_second_two_are_made_while_the_first_two_are_measured_if_there_is_a_core_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    within = world()
    original = FakeSession.blocks
    seen: list[int] = []

    def blocks(session: FakeSession) -> BlockTimes:
        if is_in_background:
            wait_until(lambda: len(within.sessions) == 4)
        seen.append(len(within.sessions))
        return original(session)

    monkeypatch.setattr("tests.engine.paired.fakes.FakeSession.blocks", blocks)
    is_in_background = True
    taken = crossover_in(within, in_background=True)
    assert seen == [4, 4, 4, 4]
    assert [opened.while_others_run for opened in within.opened] == [False, False, True, True]
    assert [session.closed for session in within.sessions] == [1] * 4

    within, seen, is_in_background = world(), [], False
    assert crossover_in(within) == taken
    assert seen == [2, 2, 4, 4]
    assert not any(opened.while_others_run for opened in within.opened)


@pytest.mark.parametrize("seconds", [0.0003, 0.00013], ids=["blocks", "with what warms them up"])
def test_nothing_that_takes_long_is_made_beside_what_is_measured(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("tests.engine.paired.fakes.BLOCK_SECONDS", seconds)
    within = world()
    crossover_in(within, in_background=True)
    assert not any(opened.while_others_run for opened in within.opened)


def test_the_second_two_failing_in_the_background_is_told() -> None:
    within = world()
    within.fails = lambda opened: len(within.opened) > 2 and opened.side == "B"
    with pytest.raises(SideFailedError) as caught:
        crossover_in(within, in_background=True)
    assert not caught.value.is_a
    assert all(session.closed for session in within.sessions)


def test_the_first_two_failing_does_not_wait_for_the_second() -> None:
    within, may_open = world(), threading.Event()

    def fails(opened: Opened) -> bool:
        if len(within.opened) > 2:
            assert may_open.wait(900)
        return False

    within.fails = fails
    within.fails_late = lambda opened: opened.side == "A"
    with pytest.raises(SideFailedError):
        crossover_in(within, in_background=True)
    assert not may_open.is_set()
    may_open.set()
    wait_until(lambda: len(within.sessions) == 4)
    wait_until(lambda: all(session.closed for session in within.sessions))


@pytest.mark.parametrize("side", ["A", "B"])
@pytest.mark.parametrize("when", ["at the start", "in its blocks"])
def test_the_side_that_fails_is_named_and_nothing_is_left_open(side: str, when: str) -> None:
    within = world()

    def is_that_side(opened: Opened) -> bool:
        return opened.side == side

    if when == "at the start":
        within.fails = is_that_side
    else:
        within.fails_late = is_that_side
    with pytest.raises(SideFailedError) as caught:
        crossover_in(within)
    assert caught.value.is_a is (side == "A")
    assert caught.value.error.kind == "raised"
    assert str(caught.value) == str(caught.value.error)
    assert all(session.closed for session in within.sessions)


@pytest.mark.parametrize(
    "fails", [lambda _: False, lambda opened: opened.side == "B"], ids=["fine", "failing"]
)
def test_the_pipes_are_gone_afterwards(fails: Callable[[Opened], bool]) -> None:
    """That they are there, and private, the fake session sees for itself."""
    within = world()
    within.fails_late = fails
    if fails(Opened("B", "", 0, 0, (), 0.0)):
        with pytest.raises(SideFailedError):
            crossover_in(within)
    else:
        crossover_in(within)
    folders = {baton.parent for begun in within.begun for baton in begun.batons}
    assert folders
    assert not any(folder.exists() for folder in folders)


def test_both_processes_of_a_pair_use_the_same_two_pipes_each_its_own() -> None:
    within = world()
    crossover_in(within)
    used = [begun.batons for begun in within.begun]
    assert used[0] == used[1] != used[2] == used[3]
    own = {(begun.side, begun.batons[begun.role].name) for begun in within.begun}
    assert own == {("A", "a"), ("B", "b")}
