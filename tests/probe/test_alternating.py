"""Blocks that two processes take in turn: made-up blocks, real pipes, threads for processes."""

from __future__ import annotations

import functools
import os
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from torchmark_probe import memory, pages
from torchmark_probe.loops.snippets import Block
from torchmark_probe.pages import DataMover
from torchmark_probe.zygote import cases, messages, wire
from torchmark_probe.zygote.cases import _MOST_SETTLING_RUNS, serve_blocks, settle, warm_up_runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Ran(NamedTuple):
    role: int
    number: int


class Blocks:
    """Blocks that take as many seconds as they have runs, and are noted by all who take turns."""

    def __init__(self, role: int, log: list[Ran]) -> None:
        self._role = role
        self._log = log

    def run(self, number: int) -> Block:
        self._log.append(Ran(self._role, number))
        return Block(float(number), 0.0)


class Mover(DataMover):
    """Moves data before every block, or never."""

    def __init__(self, *, is_due: bool = False) -> None:
        super().__init__([], None, random.Random(1))
        self._is_due = is_due

    def start(self, run: Callable[[], object]) -> None:
        run()

    def move_if_due(self, run: Callable[[], object]) -> None:
        if self._is_due:
            run()


def take_turns(
    order: list[int], numbers: tuple[int, int], folder: Path, *, moves: bool = False
) -> tuple[list[Ran], list[list[float]]]:
    """Who ran what, in order; and the seconds that each of the two told."""
    log: list[Ran] = []
    batons = [str(folder / name) for name in "ab"]
    for baton in batons:
        os.mkfifo(baton)

    def serve(role: int) -> list[float]:
        ours, theirs = socket.socketpair()
        with ours:
            serving = threading.Thread(
                target=serve_blocks,
                args=(Blocks(role, log), theirs.fileno(), [], Mover(is_due=moves)),
            )
            serving.start()
            own, other = batons[role], batons[1 - role]
            wire.send(ours.fileno(), messages.TakeBlocks(order, role, numbers[role], own, other))
            told = wire.receive(ours.fileno())
        serving.join(60)
        theirs.close()
        assert isinstance(told, messages.BlockTimes)
        assert told.warm_ups == [float(warm_up_runs(numbers[role]))] * len(told.seconds)
        return told.seconds

    with ThreadPoolExecutor(2) as both:
        return log, list(both.map(serve, (0, 1)))


@pytest.mark.parametrize("numbers", [(8, 8), (1, 1), (100, 7)], ids=str)
def test_every_block_of_both_sides_is_preceded_by_runs_that_warm_it_up(
    numbers: tuple[int, int], tmp_path: Path
) -> None:
    """Also where a block follows one of its own: all of them begin alike."""
    order = [1, 0, 0, 1, 0, 1, 1, 0]
    log, told = take_turns(order, numbers, tmp_path)
    assert log == [
        ran
        for role in order
        for ran in (Ran(role, warm_up_runs(numbers[role])), Ran(role, numbers[role]))
    ]
    assert told == [[float(number)] * 4 for number in numbers], "of the block's runs alone"


def test_data_that_was_moved_is_used_once_before_a_block_is_warmed_up(tmp_path: Path) -> None:
    log, told = take_turns([0, 1], (8, 8), tmp_path, moves=True)
    assert log == [Ran(role, number) for role in (0, 1) for number in (8, 2, 8)]
    assert told == [[8.0], [8.0]], "of the block alone"


def test_a_quarter_as_many_runs_warm_a_block_up_and_one_at_least() -> None:
    assert [warm_up_runs(number) for number in (1, 3, 4, 8, 100)] == [1, 1, 1, 2, 25]


NEVER = 10**6


@pytest.mark.parametrize(
    ("faults", "runs"),
    [
        ([0, 0, 0, NEVER], 3),
        ([2000, 5, 0, 700, 0, 0, 0, NEVER], 7),
        ([2000] * 50, _MOST_SETTLING_RUNS),
    ],
    ids=["nothing large", "grows for some runs", "new pages in every run"],
)
def test_a_statement_runs_until_it_gets_no_new_pages(
    faults: list[int], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[Ran] = []
    did: list[tuple[str, int]] = []
    so_far = [0]

    class Faulting(Blocks):
        def run(self, number: int) -> Block:
            if log:  # the first run is before all that is looked at
                so_far[0] += faults[len(log) - 1]
            return super().run(number)

    monkeypatch.setattr(pages, "page_faults", lambda: so_far[0])
    for name in ("keep_heap", "place_heap", "collapse"):
        note = functools.partial(lambda name, *_: did.append((name, len(log))), name)
        monkeypatch.setattr(memory, name, note)
    assert settle(Faulting(0, log), 48, [], Mover()) == 1.0
    assert log == [Ran(0, 1)] * (1 + runs + 1), "the last one is the mover's"
    assert did == [("keep_heap", 1), ("place_heap", 1), ("collapse", 1 + runs + 1)]


def test_a_long_statement_does_not_settle_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Ran] = []
    clock = iter(range(100))
    monkeypatch.setattr(cases, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    for name in ("keep_heap", "place_heap", "collapse"):
        monkeypatch.setattr(memory, name, lambda *_: None)
    assert settle(Blocks(0, log), 48, [], Mover()) == 0.0, "what a run takes is not known yet"
    assert len(log) == 3
