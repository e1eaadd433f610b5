"""Where steps end, on made-up optimizers, and what is told of trouble."""

from __future__ import annotations

import pytest
import torch

from torchmark.capture.record import Record, StepEnds


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


def test_what_could_not_be_described_is_told_by_what_happened() -> None:
    record = Record()
    record.note_trouble(torch.ops.aten.add.Tensor, RuntimeError("\n\nno such dtype\nat x.cpp:1"))
    assert record.unseen() == [
        "1 calls of aten.add.Tensor that could not be described (RuntimeError: no such dtype)"
    ]
