"""A loop that runs until somebody says stop, on made-up blocks and real sockets."""

from __future__ import annotations

import itertools
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from torchmark_probe.loops.snippets import Block
from torchmark_probe.zygote import cases

if TYPE_CHECKING:
    import pytest

_LONG = 600.0


class Blocks:
    """Blocks that do nothing, and after so many of them something else happens."""

    def __init__(self, runs: list[int], when: int, then: object) -> None:
        self._runs = runs
        self._when = when
        self._then = then

    def run(self, number: int) -> Block:
        self._runs.append(number)
        if len(self._runs) == self._when:
            self._then()  # type: ignore[operator]
        return Block(0.0, 0.0)


def test_it_runs_until_it_is_told_to_stop() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        runs: list[int] = []
        blocks = Blocks(runs, 3, lambda: theirs.sendall(b"stop\n"))
        assert cases.loop_until_told(blocks, 7, ours.fileno(), _LONG) == 21
    assert runs == [7, 7, 7]


def test_it_ends_when_the_control_side_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        assert cases.loop_until_told(Blocks([], 2, theirs.close), 5, ours.fileno(), _LONG) == 10


def test_it_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock by which each reading takes a second: one before the loop, one a block."""
    seconds = itertools.count()
    monkeypatch.setattr(cases, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert cases.loop_until_told(Blocks([], 0, None), 5, ours.fileno(), 0.0) == 0
        assert cases.loop_until_told(Blocks([], 0, None), 5, ours.fileno(), 4.0) == 15


@given(number=st.integers(1, 10**6), run=st.floats(1e-8, 10.0))
def test_a_look_comes_often_enough_to_stop_and_seldom_enough_to_cost_nothing(
    number: int, run: float
) -> None:
    block = run * cases.runs_between_looks(number, number * run)
    assert block <= max(run, 2 * cases.LOOK_SECONDS)
    assert block >= min(run, cases.LOOK_SECONDS / 2)


def test_a_clock_that_stands_still_leaves_the_block_as_it_is() -> None:
    assert cases.runs_between_looks(10, 0.0) == 10
