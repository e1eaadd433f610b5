"""What a description says of contents, however it was found out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torchmark
from torchmark.capture import describing
from torchmark.capture.describing import CallDescription, SeenContents


def values_of(tensor: torch.Tensor, seen: SeenContents | None = None) -> dict[str, Any]:
    described: dict[str, Any] = CallDescription((tensor,), {}, seen=seen).args[0]["tensor"]
    return described["values"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "rows",
    [
        torch.tensor([3, 0, 2, 2, 1]),
        torch.tensor([0, 1, 1, 4]),
        torch.tensor([5, 4, -100, 5, 3, 2, 1]),
        torch.tensor([7]),
        torch.arange(100).flip(0),
        torch.tensor([2**62, 2**62 - 1, 0]),
    ],
)
def test_an_expanded_index_is_described_like_its_copy(rows: torch.Tensor) -> None:
    expanded = rows.unsqueeze(1).expand(-1, 3)
    assert values_of(expanded) == values_of(expanded.contiguous())
    leading = rows.expand(2, -1)
    assert values_of(leading) == values_of(leading.contiguous())


def test_an_expanded_gradient_is_described_like_its_copy() -> None:
    for tensor in (torch.tensor(2.5).expand(4, 3), torch.randn(4, 1).expand(4, 4)):
        assert values_of(tensor) == values_of(tensor.contiguous())


def test_integers_are_counted_or_sorted_with_the_same_result() -> None:
    near = np.random.default_rng(0).integers(-50, 50, 500)
    near[0], near[1] = -50, 49
    values, counts = describing._distinct(near, -50, 49)
    expected, expected_counts = np.unique(near, return_counts=True)
    assert np.array_equal(values, expected)
    assert np.array_equal(counts, expected_counts)
    far = near * 10**9
    assert np.array_equal(describing._distinct(far, -50 * 10**9, 49 * 10**9)[0], expected * 10**9)


@pytest.mark.parametrize(
    ("integers", "order"),
    [
        ([*range(100), 5], "none"),
        ([*range(100)], "ascending"),
        ([*range(100)][::-1], "descending"),
        ([*range(100, 0, -1), 5], "none"),
        ([1] * 100 + [0], "descending"),
        ([1] * 100 + [2], "ascending"),
        ([1], "ascending"),
    ],
)
def test_the_order_is_that_of_all_elements(integers: list[int], order: str) -> None:
    assert values_of(torch.tensor(integers))["order"] == order


def test_contents_are_looked_at_again_once_they_have_changed() -> None:
    seen = SeenContents()
    tensor = torch.zeros(1000)
    assert values_of(tensor, seen) == {"min": 0.0, "max": 0.0}
    with torch.no_grad():
        tensor[3:5] += 2
    assert values_of(tensor, seen) == {"min": 0.0, "max": 2.0}
    assert values_of(tensor[:900], seen)["max"] == 2.0
    assert values_of(tensor[:3].expand(1000, 3), seen)["max"] == 0.0


def test_contents_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SeenContents()
    index = torch.arange(1000)
    first = values_of(index, seen)
    monkeypatch.delattr(describing, "_integers")
    assert values_of(index, seen) == first


def test_a_view_of_the_same_elements_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = SeenContents()
    weight = torch.randn(4, 6, 2)
    first = values_of(weight, seen)
    monkeypatch.delattr(describing, "_floats")
    for view in (weight.view(-1), weight.transpose(0, 2), weight[None]):
        assert values_of(view, seen) == first


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:30],
        lambda x: x[10:],
        lambda x: x[::2],
        lambda x: x.as_strided((3, 4), (1, 2)),
        lambda x: x.as_strided((2, 2, 2), (1, 1, 5)),
        lambda x: x.as_strided((4, 4), (4, 1)),
        lambda x: x[3:4].expand(40),
    ],
)
def test_a_view_of_other_elements_has_contents_of_its_own(view: Callable[..., Any]) -> None:
    seen = SeenContents()
    memory = torch.randn(40)
    values_of(memory, seen)
    for length in range(1, 41):  # every part of the memory from its start
        values_of(memory[:length], seen)
    assert values_of(view(memory), seen) == values_of(view(memory).clone())


def test_integers_of_a_view_are_in_the_order_of_the_view() -> None:
    seen = SeenContents()
    index = torch.arange(6).view(2, 3)
    assert values_of(index, seen)["order"] == "ascending"
    assert values_of(index.t(), seen)["order"] == "none"


def test_only_symmetric_matrices_are_called_symmetric() -> None:
    square = torch.randn(3, 4, 4)
    assert "symmetric" not in values_of(square)
    assert values_of(square + square.mT)["symmetric"]
    nearly = square + square.mT
    nearly[2, 1, 3] += 1
    assert "symmetric" not in values_of(nearly)
    assert values_of(torch.ones(2, 2).expand(3, 2, 2))["symmetric"]


def test_most_square_matrices_are_not_compared_with_their_transpose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(torch, "equal")
    assert values_of(torch.arange(16.0).view(4, 4)) == {"min": 0.0, "max": 15.0}
    assert values_of(torch.arange(16.0).view(4, 4).t()) == {"min": 0.0, "max": 15.0}


def test_memory_that_is_used_again_is_another_tensor() -> None:
    seen = SeenContents()
    for value in range(50):
        # Freed at once: the next one may lie where it lay.
        assert values_of(torch.full((1000,), float(value)), seen)["max"] == value


def test_an_index_that_changes_between_two_calls_is_recorded_as_it_was() -> None:
    index, rows = torch.zeros(300, dtype=torch.int64), torch.randn(7, 2)
    with torchmark.Capture() as trace:
        rows[index]
        index += 3
        rows.index_select(0, index)
    values = {
        call.op: call.args[-1] for call in trace.trace().calls if call.op.startswith("aten.index")
    }
    (first,) = values["aten.index.Tensor"]
    assert first["tensor"]["values"]["max"] == 0
    assert values["aten.index_select.default"]["tensor"]["values"]["max"] == 3


def test_a_tensor_that_was_looked_at_can_still_be_resized() -> None:
    """NumPy would forbid it for ever, in the user's program."""
    index = torch.arange(4)
    values_of(index)
    index.resize_(800)
    assert len(index) == 800


def test_a_short_index_is_looked_at_again_though_no_version_says_that_it_changed() -> None:
    seen, numbers = SeenContents(), np.array([1, 2, 3])
    index = torch.from_numpy(numbers)
    assert values_of(index, seen)["list"] == [1, 2, 3]
    numbers[:] = 7
    assert values_of(index, seen)["list"] == [7, 7, 7]
