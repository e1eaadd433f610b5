"""Passes through calls in their order, on made-up time."""

from __future__ import annotations

from typing import Any

from torchmark_probe.replay.order import Passes


class Machine:
    """A clock that calls move, and what was called."""

    def __init__(self) -> None:
        self.now = 0.0
        self.called: list[str] = []

    def clock(self) -> float:
        self.now += 0.25
        return self.now

    def call(self, name: str, seconds: float) -> Any:
        def operator() -> None:
            self.called.append(name)
            self.now += seconds

        return (operator, [], {})


def test_a_pass_runs_all_calls_in_their_order_with_two_readings_of_the_clock() -> None:
    machine = Machine()
    calls = [machine.call("a", 1), None, machine.call("b", 10)]
    block = Passes(calls, [0, 2, 1, 0], machine.clock).run(2)
    assert machine.called == ["a", "b", "a"] * 2
    assert block.wall == 2 * 12 + 0.25


def test_every_position_has_its_own_time_without_that_of_a_reading() -> None:
    machine = Machine()
    passes = Passes([machine.call("a", 1), machine.call("b", 10)], [0, 1, 0], machine.clock)
    assert passes.seconds_by_position(0.25, budget=0) == [[1] * 5, [10] * 5, [1] * 5]
    few = len(machine.called)
    passes.seconds_by_position(0.25, budget=1000)
    assert len(machine.called) - few > few
