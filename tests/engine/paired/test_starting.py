"""Both environments started for a pair: at once, at the same addresses, and nothing left."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.paired.fakes import Starting, World
from tests.engine.zygote_cases import wait_until
from torchmark.engine.cores import begin
from torchmark.engine.paired.timing import Starts, control_starter, starter
from torchmark.errors import ZygoteError

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchmark.engine.paired.timing import Starter, Zygotes


class Environment:
    """Starts nothing, and remembers what it was asked for."""

    def __init__(self, installation: str, *, works: bool = True) -> None:
        self.installation = installation
        self.works = works
        self.zygotes: list[FakeZygote] = []

    @property
    def environment(self) -> Environment:
        return self

    def is_same_installation(self, other: Environment) -> bool:
        return self.installation == other.installation

    @property
    def workers(self) -> Environment:
        return self

    def start(self, threads: int, *, under_callgrind: bool) -> FakeZygote:
        return self.zygote(threads=threads, is_tried_in=not under_callgrind)

    def fresh(self, threads: int, *, layout: int) -> FakeZygote:
        return self.zygote(threads=threads, layout=layout)

    def zygote(self, **options: Any) -> FakeZygote:
        self.zygotes.append(FakeZygote(options, works=self.works))
        return self.zygotes[-1]


class FakeZygote:
    def __init__(self, options: dict[str, Any], *, works: bool) -> None:
        self.options = options
        self.works = works
        self.is_started = False
        self.is_closed = False
        self.cores: Collection[int] = ()

    def start(self) -> None:
        if not self.works:
            raise ZygoteError("it cannot start")
        self.is_started = True

    def run_on(self, cores: Collection[int]) -> None:
        self.cores = cores

    def close(self) -> None:
        self.is_closed = True


def starter_of(a: Environment, b: Environment) -> Starter:
    return starter(a, b, threads=2, everywhere=EVERYWHERE)  # type: ignore[arg-type]


EVERYWHERE = (995, 996)


def test_both_are_started_with_the_same_layout_and_threads() -> None:
    a, b = Environment("one"), Environment("another")
    zygotes = starter_of(a, b)(7)
    zygotes.start()
    started: list[object] = [a.zygotes[0], b.zygotes[0]]
    assert [zygotes.a, zygotes.b] == started
    for zygote in (a.zygotes[0], b.zygotes[0]):
        assert zygote.options == {"threads": 2, "layout": 7}
        assert zygote.is_started
        assert not zygote.is_closed


def test_the_first_start_is_that_in_which_cases_were_tried_and_stays() -> None:
    a, b = Environment("one"), Environment("another")
    zygotes = starter_of(a, b)(0)
    zygotes.start()
    zygotes.run_on([1])
    zygotes.close()
    for zygote in (a.zygotes[0], b.zygotes[0]):
        assert zygote.options == {"threads": 2, "is_tried_in": True}
        assert not zygote.is_closed
        assert zygote.cores == EVERYWHERE


@pytest.mark.parametrize("layout", [0, 1])
def test_the_same_installation_is_started_once_for_both(layout: int) -> None:
    a, b = Environment("one"), Environment("one")
    zygotes = starter_of(a, b)(layout)
    assert zygotes.a is zygotes.b
    assert (len(a.zygotes), len(b.zygotes)) == (1, 0)


@pytest.mark.parametrize("layout", [0, 1])
def test_a_control_launches_the_first_environment_twice_and_the_second_not_at_all(
    layout: int,
) -> None:
    """Like two environments: at the same addresses, and never where cases were tried."""
    a, b = Environment("one"), Environment("another")
    zygotes = control_starter(a, b, threads=2)(layout)  # type: ignore[arg-type]
    zygotes.start()
    assert b.zygotes == []
    launched: list[object] = [*a.zygotes]
    assert [zygotes.a, zygotes.b] == launched
    zygotes.close()
    for zygote in a.zygotes:
        assert zygote.options == {"threads": 2, "layout": layout}
        assert zygote.is_started
        assert zygote.is_closed


def test_a_control_has_one_launch_for_both_where_the_comparison_has() -> None:
    a, b = Environment("one"), Environment("one")
    zygotes = control_starter(a, b, threads=2)(1)  # type: ignore[arg-type]
    assert zygotes.a is zygotes.b
    assert (len(a.zygotes), len(b.zygotes)) == (1, 0)


def test_the_longest_launch_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    within = World(cost=lambda _: 1.0)
    monkeypatch.setattr("torchmark.engine.paired.timing.time", within.clock())
    seconds = iter([2.0, 5.0, 3.0])

    def make(layout: int) -> Zygotes:
        return Starting(within, seconds=next(seconds))(layout)

    seen = []
    with closing(Starts(make, MEASURED, in_background=False)) as starts:
        for _ in range(3):
            starts.next()
            seen.append(starts.longest)
    assert seen == [2.0, 5.0, 5.0]


MEASURED = {997, 998}
"""Cores that no machine of ours has: nothing is moved there but fakes."""


def test_a_start_has_all_cores_while_it_is_waited_for() -> None:
    within = World(cost=lambda _: 1.0)
    starting = Starting(within)
    gate = starting.gates[0] = threading.Event()
    everywhere = os.sched_getaffinity(0) | MEASURED
    with closing(Starts(starting, MEASURED, in_background=False)) as starts:
        got = begin(starts.next, "test")
        wait_until(lambda: [each.moves for each in within.environments] == [[everywhere]] * 2)
        assert not got.done()
        gate.set()
        got.result(60)


def test_a_start_that_nobody_waits_for_stays_away_from_what_is_measured() -> None:
    within = World(cost=lambda _: 1.0)
    with closing(Starts(Starting(within), MEASURED, in_background=True)) as starts:
        starts.next()
        wait_until(starts.is_ready)
        starts.next()
    assert [each.moves for each in within.environments if each.layout == 1] == [[], []]


@pytest.mark.parametrize("works", [(True, False), (False, True)])
def test_where_one_cannot_start_the_other_does_not_stay(works: tuple[bool, bool]) -> None:
    a, b = Environment("one", works=works[0]), Environment("another", works=works[1])
    with pytest.raises(ZygoteError, match="it cannot start"):
        starter_of(a, b)(1).start()
    assert a.zygotes[0].is_closed
    assert b.zygotes[0].is_closed
