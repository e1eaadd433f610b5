"""Recorded calls as cases: backends that give the same, FLOPs, and what is told of errors."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo import config

from torchmark_probe.replay import work
from torchmark_probe.replay.backends import BackendError
from torchmark_probe.replay.calls import rebuild
from torchmark_probe.replay.cases import largest_error, module_of, prepare_run
from torchmark_probe.replay.optimizers import optimizer_step
from torchmark_probe.replay.work import flops_of_call, run_watching_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def as_in_a_child() -> Iterator[None]:
    """Gradients are off, and what a child never has to undo is undone."""
    with torch.no_grad(), config.patch(error_on_recompile=False):
        yield
    torch.set_flush_denormal(False)  # which an optimizer's step sets


def record(op: str, *args: Any, **kwargs: Any) -> str:
    return json.dumps({"op": op, "args": list(args), "kwargs": kwargs})


def tensor(*shape: int, **more: Any) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": "float32", **more}}


ADD_ = record("aten.add_.Tensor", tensor(3, 4), tensor(3, 4, strides=[1, 3]), alpha=2)
FOREACH = record("aten._foreach_add_.Scalar", [tensor(2), tensor(3)], 1.5)


@pytest.mark.parametrize("backend", ["compile", "ort"])
def test_a_backend_gives_what_the_operator_gives(backend: str) -> None:
    run, args, kwargs = rebuild(ADD_)
    expected = run(*args, **kwargs).clone()
    module, tensors = module_of(aten.add_.Tensor, *rebuild(ADD_), copies=backend == "ort")
    ready = prepare_run(backend, module, tensors, [expected])
    torch.testing.assert_close(ready.result, [expected])
    assert ready.seconds > 0
    ready.call()
    if backend != "ort":  # in place: the second run adds once more
        torch.testing.assert_close(ready.result, [expected + 2 * args[1]])


def test_an_operator_that_gives_back_nothing_is_judged_by_what_it_changed() -> None:
    module, tensors = module_of(aten._foreach_add_.Scalar, *rebuild(FOREACH), copies=False)
    before = [each.clone() for each in tensors]
    torch.testing.assert_close(module(*tensors), [each + 1.5 for each in before])


def test_what_onnx_does_not_know_is_told_with_its_name() -> None:
    module, tensors = module_of(aten._foreach_add_.Scalar, *rebuild(FOREACH), copies=True)
    with pytest.raises(BackendError, match=r"torch\.onnx\.export: .*_foreach_add"):
        prepare_run("ort", module, tensors, tensors)


def test_a_graph_break_is_told() -> None:
    class Breaks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return x + 1

    with pytest.raises(BackendError, match=r"^torch\.compile: "):
        prepare_run("compile", Breaks(), [torch.ones(2)], [torch.ones(2)])


@pytest.mark.parametrize("missing", ["onnxruntime", "onnx", "onnxscript"])
def test_whoever_lacks_onnx_runtime_is_told_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(BackendError, match=rf"{missing} .*pip install 'torchmark\[ort\]'"):
        prepare_run("ort", torch.nn.ReLU(), [torch.ones(2)], [torch.ones(2)])


def test_flops_are_those_of_the_formulas_and_unknown_elsewhere() -> None:
    a, b = torch.ones(4, 8), torch.ones(8, 16)
    assert flops_of_call(aten.mm.default, [a, b], {}, a @ b) == 2 * 4 * 8 * 16
    q = torch.ones(2, 3, 5, 8)
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    flops = flops_of_call(attention, [q, q, q], {}, attention(q, q, q))
    assert flops == 2 * (2 * 2 * 3 * 5 * 5 * 8)
    assert flops_of_call(aten.add.Tensor, [a, a], {}, a + a) is None


def test_the_largest_error_is_of_elements_that_differ() -> None:
    one = torch.tensor([1.0, float("nan"), float("inf")])
    other = torch.tensor([1.25, float("nan"), float("inf")])
    assert largest_error(aten.relu.default, [one], [other]) == 0.25
    assert largest_error(aten.relu.default, [one], [torch.zeros(3)]) == float("inf")
    assert largest_error(aten.relu.default, [torch.tensor([True])], [torch.tensor([False])]) == 1
    assert largest_error(aten.bernoulli.default, [one], [other]) is None, "random"
    with pytest.raises(BackendError, match=r"shape \[2\] instead of \[3\]"):
        largest_error(aten.relu.default, [one], [torch.zeros(2)])


@pytest.mark.parametrize(
    ("run", "peak"),
    [
        (lambda x: x + 1, 4 * 100),
        (lambda x: x.view(2, 50), 0),
        (lambda x: x.relu_(), 0),
        (lambda x: (x + 1, x + 2), 2 * 4 * 100),
        (lambda x: (x + 1).sum(), 4 * 100 + 4),
    ],
    ids=["an output", "a view", "in place", "two outputs", "an output and what is freed"],
)
def test_memory_is_what_a_call_has_allocated_at_most(
    run: Callable[[torch.Tensor], Any], peak: int
) -> None:
    x = torch.ones(100)
    _, found = run_watching_memory(lambda: run(x))
    # A number becomes a tensor of a few bytes.
    assert peak <= found <= peak + 64 * (peak > 0)


def test_watching_memory_ends_with_an_error_too() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run_watching_memory(lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3)))
    assert run_watching_memory(lambda: 1) == (1, 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AdamW", {"foreach": False, "amsgrad": True}),
        ("Adam", {"foreach": None, "fused": True, "weight_decay": 0.01}),
        ("SGD", {"foreach": True, "momentum": 0.9}),
        ("Adagrad", {"foreach": None, "fused": True}),
    ],
)
def test_a_step_of_an_optimizer_can_be_repeated(name: str, options: dict[str, Any]) -> None:
    parameters = [[[3, 2], "float32", 2], [[5], "float32", 1]]
    text = json.dumps({"optimizer": name, "parameters": parameters, "options": options})
    step = optimizer_step(text)
    for _ in range(3):
        step()
    (group,) = step.__self__.param_groups  # type: ignore[attr-defined]
    assert [tuple(each.shape) for each in group["params"]] == [(3, 2), (3, 2), (5,)]
    assert all(each.isfinite().all() for each in group["params"])


@pytest.mark.parametrize("fastest", ["NN", "NT", "TN", "TT"])
def test_the_best_product_is_that_of_the_fastest_layout(
    fastest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that stands still but for products: one layout takes an eighth of the others."""
    now = 0.0
    sides = []

    def multiply(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        nonlocal now
        sides.append(len(out))
        layout = "".join("N" if each.is_contiguous() else "T" for each in (a, b))
        now += len(out) ** 3 * (1e-9 if layout == fastest else 8e-9)
        return out

    monkeypatch.setattr(torch, "mm", multiply)
    monkeypatch.setattr(work, "time", SimpleNamespace(perf_counter=lambda: now))
    assert work._product_speed("float16") == pytest.approx(2e9)
    assert sides.count(512) <= 3, "large products are of the fastest layout alone"


def test_the_best_speed_is_that_of_one_thread_if_several_wait_for_each_other() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert work._fastest(lambda: 3.0 if torch.get_num_threads() == 1 else 2.0) == 3.0
        assert work._fastest(lambda: 3.0 if torch.get_num_threads() == 2 else 2.0) == 3.0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
