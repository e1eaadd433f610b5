"""metrics/capture_coverage.py: every call of the ten models, and a missing one is found."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from examples.models import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

METRICS = Path(__file__).resolve().parent.parent / "metrics"


@pytest.fixture
def coverage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(METRICS)
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", "ERROR")
    path = list(sys.path)
    yield importlib.import_module("capture_coverage")
    sys.path[:] = path


@pytest.mark.parametrize("name", MODELS)
def test_capture_sees_what_pytorchs_own_observer_counts(coverage: Any, name: str) -> None:
    counts = coverage.counts_of(MODELS[name])
    assert list(coverage.faults_of(counts)) == []
    assert counts.listened == counts.captured
    assert counts.seed.total() < counts.captured.total() / 2


def test_a_call_that_is_missing_or_too_many_is_a_fault(coverage: Any) -> None:
    calls = Counter({("forward", "aten::mm"): 2, ("backward", "aten::mm"): 1})
    less = Counter({("forward", "aten::mm"): 1, ("backward", "aten::mm"): 1})
    there = {"alone": calls, "listened": calls, "seed": Counter()}
    assert list(coverage.faults_of(coverage.Counts(captured=less, **there))) == [
        "missing in forward: 1 × aten::mm"
    ]
    there |= {"alone": less, "listened": less}
    assert list(coverage.faults_of(coverage.Counts(captured=calls, **there))) == [
        "too many in forward: 1 × aten::mm"
    ]


def test_a_change_that_nobody_knows_is_a_fault(coverage: Any) -> None:
    """Torch may add in another way while it is listened to; a mm for an add is something else."""
    alone = Counter({("forward", "aten::add_.Tensor"): 3})
    known = Counter({("forward", "aten::add.Tensor"): 3})
    strange = Counter({("forward", "aten::mm"): 3})
    for listened, faults in ((known, 0), (strange, 2)):
        of = coverage.Counts(alone=alone, listened=listened, captured=listened, seed=Counter())
        assert len(list(coverage.faults_of(of))) == faults


def test_the_observers_count_is_that_of_a_step_counted_by_hand(coverage: Any) -> None:
    x, layer = torch.ones(2, 4), torch.nn.Linear(4, 3)
    scale = torch.ones(3, requires_grad=True)

    def step() -> None:
        with torch.no_grad():
            layer(x).reshape(6).to(torch.float64)
        torch.tensor([1.0, 2.0])
        torch.autograd.backward((scale * 2).sum())
        with torch.autocast("cpu"):
            layer(x)

    assert coverage.count(step) == {
        # linear, reshape and to are functions in C++ that call these.
        ("forward", "aten::t"): 2,
        ("forward", "aten::addmm"): 2,
        ("forward", "aten::view"): 1,
        # One for float64, three for what autocast makes of input, weight and bias.
        ("forward", "aten::_to_copy"): 4,
        ("forward", "aten::lift_fresh"): 1,
        ("forward", "aten::mul.Tensor"): 1,
        ("forward", "aten::sum"): 1,
        ("backward", "aten::ones_like"): 1,
        ("backward", "aten::expand"): 1,
        ("backward", "aten::mul.Tensor"): 1,
        ("backward", "aten::detach"): 1,
    }
