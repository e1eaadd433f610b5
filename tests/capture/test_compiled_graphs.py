"""Graphs that inductor made kernels of are in the trace, and the kernels are what runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import torch
from torch._functorch import config
from torch._inductor import config as inductor

import torchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torchmark.model.trace import Trace

FORWARD = ["aten.mm.default", "aten.relu.default"]
EXTRA = "runs of code that torch.compile had compiled before the capture"


def ops(trace: Trace, phase: str, *, compiled: bool) -> list[str]:
    """Of all steps, in their order."""
    return [
        trace.calls[call].op
        for step in trace.steps
        for call, place in zip(step.calls, step.places, strict=True)
        for _ in range(step.repeats)
        if (trace.places[place].phase, trace.places[place].compiled) == (phase, compiled)
    ]


@pytest.fixture
def caches_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    # With more, a thread is left behind, and later captures say that it was there before them.
    with inductor.patch(compile_threads=1):
        yield


def train(function: Callable[..., torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = function(x, w)
    torch.autograd.backward(out, torch.ones_like(out))
    gradient, w.grad = w.grad, None
    assert gradient is not None
    return gradient


@pytest.mark.usefixtures("caches_of_its_own")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that inductor imports
def test_a_compiled_graph_is_captured_as_often_as_it_runs_and_stays_compiled() -> None:
    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w) * 2

    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 4, requires_grad=True)
    expected = train(layer, x, w)
    finders, cached = list(sys.meta_path), config.enable_autograd_cache
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(layer)

    with torchmark.Capture() as capture:
        during = [train(compiled, x, w) for _ in range(3)]
    trace = capture.trace()

    assert ops(trace, "forward", compiled=True)[:2] == FORWARD
    assert ops(trace, "forward", compiled=True).count("aten.relu.default") == 3
    assert ops(trace, "backward", compiled=True).count("aten.mm.default") == 3
    # What inductor calls as it is, mm into memory of its own, is not there a second time.
    assert not {"aten.mm.out", "aten.relu.default"} & set(ops(trace, "forward", compiled=False))
    product = next(call for call in trace.calls if call.op == "aten.mm.default")
    assert [arg["tensor"]["shape"] for arg in product.args] == [[8, 16], [16, 4]]
    assert any("in 6 runs of graphs compiled by torch.compile" in said for said in trace.unseen)
    assert not any(EXTRA in said for said in trace.unseen)
    for gradient in during:
        torch.testing.assert_close(gradient, expected)

    # It was compiled once, nothing of ours was compiled with it, and nothing is left behind.
    compile_fx = sys.modules["torch._inductor.compile_fx"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert torch._dynamo.utils.counters["frames"]["total"] == 1
    assert (sys.meta_path, config.enable_autograd_cache) == (finders, cached)
    for function in (compile_fx._compile_fx_inner, compile_fx.CompiledFxGraph.__call__):
        assert function.__code__.co_filename.startswith(torch.__path__[0])

    # Another capture finds it compiled: it says so, and the same code is used still.
    with torchmark.Capture() as later:
        train(compiled, x, w)
    assert any(f"2 {EXTRA}" in said for said in later.trace().unseen)
    assert "aten.mm.out" in ops(later.trace(), "forward", compiled=False)
    torch.testing.assert_close(train(compiled, x, w), expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
