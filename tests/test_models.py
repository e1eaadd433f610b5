"""The models that capture and replay are tried on train, and train the same twice."""

from __future__ import annotations

import pytest
import torch

from examples.models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_and_is_seeded(name: str) -> None:
    losses = []
    for _ in range(2):
        step = MODELS[name](1)
        losses.append([step() for _ in range(4)])
    assert torch.stack(losses[0]).isfinite().all()
    assert losses[0] == losses[1]
    assert len(set(map(float, losses[0]))) == 4
