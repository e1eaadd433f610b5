"""What came back, against the record."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tests.probe.test_replay_calls import tensor
from torchmark_probe.replay.results import mismatches

GIVEN = torch.zeros(2, 3)


def compared(outputs: Any, result: Any) -> list[str]:
    args = [tensor(2, 3, storage=0, storage_bytes=24)]
    call = {"op": "aten.t.default", "args": args, "kwargs": {}, "outputs": outputs}
    return mismatches(json.dumps(call), [GIVEN], {}, result)


@pytest.mark.parametrize(
    ("outputs", "result", "said"),
    [
        (tensor(3), torch.zeros(4), "output 0: its shape is [4], recorded [3]"),
        (tensor(3), torch.zeros(3, dtype=torch.int8), "its dtype is torch.int8"),
        (tensor(3, 2), GIVEN.t(), "its strides are [1, 3], recorded [2, 1]"),
        (tensor(3), torch.zeros(3).to_sparse(), "its layout is torch.sparse_coo"),
        ([tensor(3), tensor(3)], [torch.zeros(3)], "1 tensors came back, 2 are recorded"),
        (tensor(6, storage=0), torch.zeros(6), "it is no view of an argument"),
    ],
)
def test_what_differs_is_said(outputs: Any, result: Any, said: str) -> None:
    (sentence,) = compared(outputs, result)
    assert said in sentence


@pytest.mark.parametrize(
    ("outputs", "result"),
    [
        (tensor(3, 2, strides=[1, 3], storage=0), GIVEN.t()),
        ({"tuple": [tensor(3), None, 1]}, (torch.zeros(3), None, 1)),
        (tensor(1, 3, strides=[7, 1]), torch.zeros(1, 3)),
        (tensor(0, 3, strides=[9, 9]), torch.zeros(0, 3)),
        (2.5, 2.5),
    ],
)
def test_what_is_as_recorded_is_passed_over(outputs: Any, result: Any) -> None:
    assert compared(outputs, result) == []


def test_a_record_that_does_not_know_what_came_back_has_nothing_to_say() -> None:
    assert mismatches('{"op": "aten.t.default"}', [], {}, GIVEN) == []
