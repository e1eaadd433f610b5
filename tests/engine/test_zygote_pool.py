"""The holder of zygotes, with made-up ones: who shares, what is remembered, what is ended."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from torchmark.engine.under_test import SETUP_MODULES, Workers
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch
from torchmark.errors import ZygoteError

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeZygote:
    def __init__(self, launch: Launch, *, at_once: int | None) -> None:
        self.launch = launch
        self.at_once = at_once
        self.starts = 0
        self.closed = 0

    def start(self) -> dict[str, str]:
        self.starts += 1
        if self.launch.threads == 13:
            raise ZygoteError("it cannot start")
        return {"torch": "2.13.0"}

    def close(self) -> None:
        self.closed += 1
        if self.launch.threads == 99:
            raise OSError("it does not end")


@pytest.fixture
def made() -> list[FakeZygote]:
    return []


@pytest.fixture
def pool(made: list[FakeZygote]) -> ZygotePool:
    def make(launch: Launch, *, at_once: int | None) -> FakeZygote:
        made.append(FakeZygote(launch, at_once=at_once))
        return made[-1]

    return ZygotePool(at_once=3, make_zygote=make)  # type: ignore[arg-type]


def test_equal_launches_share_a_zygote_and_others_do_not(pool: ZygotePool) -> None:
    one = pool.zygote(Launch(threads=2))
    assert pool.zygote(Launch(threads=2)) is pool.start(Launch(threads=2)) is one
    others = [
        Launch(threads=1),
        Launch(threads=2, under_callgrind=True),
        Launch(threads=2, layout=1),
        Launch(threads=2, modules=("wave",)),
        Launch(threads=2, environment=(("A", "1"),)),
        Launch(threads=2, path=("/somewhere",)),
    ]
    assert len({id(pool.zygote(launch)) for launch in [one.launch, *others]}) == 1 + len(others)


def test_many_threads_that_want_the_same_get_one(pool: ZygotePool, made: list[FakeZygote]) -> None:
    gate = threading.Barrier(8)

    def start(_: int) -> object:
        gate.wait()
        return pool.start(Launch())

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(start, range(8)))) == len(made) == 1
    assert made[0].at_once == 3


def test_a_launch_that_failed_is_not_tried_again(pool: ZygotePool, made: list[FakeZygote]) -> None:
    for _ in range(3):
        with pytest.raises(ZygoteError, match="it cannot start"):
            pool.start(Launch(threads=13))
    assert [zygote.starts for zygote in made] == [1]
    pool.start(Launch(threads=1))


def test_fresh_ones_are_nobody_elses(pool: ZygotePool) -> None:
    shared = pool.zygote(Launch())
    one, other = pool.fresh(Launch()), pool.fresh(Launch())
    assert len({id(shared), id(one), id(other)}) == 3
    assert pool.zygote(Launch()) is shared


def test_closing_ends_all_of_them_whatever_happens_and_nobody_gets_another(
    pool: ZygotePool, made: list[FakeZygote]
) -> None:
    with pytest.raises(OSError, match="it does not end"), pool:
        kept = [pool.zygote(Launch(threads=99)), pool.zygote(Launch()), pool.fresh(Launch())]
    assert [zygote.closed for zygote in made] == [1, 1, 1], kept
    asks: list[Callable[[Launch], object]] = [pool.zygote, pool.start, pool.fresh]
    for ask in asks:
        with pytest.raises(ZygoteError, match="have been ended"):
            ask(Launch())


def test_after_a_reset_the_next_use_starts_a_new_one(
    pool: ZygotePool, made: list[FakeZygote]
) -> None:
    with pytest.raises(ZygoteError):
        pool.start(Launch(threads=13))
    first = pool.start(Launch())
    pool.reset()
    assert [zygote.closed for zygote in made] == [1, 1]
    assert pool.start(Launch()) is not first
    with pytest.raises(ZygoteError):
        pool.start(Launch(threads=13))
    assert made[-1].starts == 1, "it was tried again"


def test_a_fork_leaves_the_zygotes_to_its_parent(pool: ZygotePool, made: list[FakeZygote]) -> None:
    first = pool.zygote(Launch())
    with pool._lock:  # as a thread would hold it that the fork does not have
        child = os.fork()
        if child == 0:
            is_new = pool.zygote(Launch()) is not first
            pool.close()
            os._exit(0 if is_new and made[0].closed == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.zygote(Launch()) is first


def test_an_environment_imports_its_modules_only_where_times_are_taken(pool: ZygotePool) -> None:
    workers = Workers(Launch(modules=("wave",), layout=0), pool)
    assert workers.start(2, under_callgrind=False).launch == Launch(
        threads=2, modules=(*SETUP_MODULES, "wave"), layout=0
    )
    assert workers.fresh(1, layout=5, under_callgrind=True).launch == Launch(
        under_callgrind=True, modules=SETUP_MODULES, layout=5
    )
