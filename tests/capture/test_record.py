"""Where steps end, on made-up optimizers."""

from __future__ import annotations

import pytest

from torchmark.capture.record import StepEnds


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("A", ["A"]),
        ("AAAA", ["A", "A", "A", "A"]),
        ("ABABAB", ["AB", "AB", "AB"]),
        ("DDDGDDDG", ["D", "D", "D", "GD", "D", "D", "G"]),
        ("AABBB", ["A", "A", "B", "B", "B"]),
    ],
)
def test_a_step_has_every_optimizer_once(order: str, expected: list[str]) -> None:
    ends = StepEnds()
    waiting = ""
    steps = []
    for optimizer in order:
        waiting += optimizer
        for length in ends.optimizer_stepped(ord(optimizer), len(waiting)):
            steps.append(waiting[:length])
            waiting = waiting[length:]
    for length in (*ends.rest(), len(waiting)):
        steps.append(waiting[:length])
        waiting = waiting[length:]
    assert [step for step in steps if step] == expected


def test_who_ends_a_step_by_hand_ends_all_of_them() -> None:
    ends = StepEnds()
    ends.by_hand()
    assert ends.optimizer_stepped(1, 5) == ends.optimizer_stepped(1, 10) == []
    assert ends.rest() == []
