"""Blocks that two processes take in turn: made-up blocks, real pipes, threads for processes."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import pytest

from torchmark_probe.loops.snippets import Block
from torchmark_probe.zygote import messages, wire
from torchmark_probe.zygote.cases import serve_blocks, warm_up_runs

if TYPE_CHECKING:
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


def take_turns(
    order: list[int], numbers: tuple[int, int], folder: Path
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
                target=serve_blocks, args=(Blocks(role, log), theirs.fileno(), [])
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


def test_a_quarter_as_many_runs_warm_a_block_up_and_one_at_least() -> None:
    assert [warm_up_runs(number) for number in (1, 3, 4, 8, 100)] == [1, 1, 1, 2, 25]
