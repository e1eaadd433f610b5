"""What a worker finds out of a case, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from torchmark_probe.loops.sampling import ReferenceLoop
from torchmark_probe.sweep import models, worker
from torchmark_probe.sweep.worker import Sweeper
from torchmark_probe.zygote.messages import Input, Sweep, SweepCase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Layer(torch.nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(features, hidden)
        self.second = torch.nn.Linear(hidden, features)

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(self.first(x).relu())


def made_layer(features: int, hidden: int) -> torch.nn.Module:
    return Layer(features, hidden)


def scaled(x: torch.Tensor, *, features: int, hidden: int) -> torch.Tensor:
    return x * features + hidden


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few samples are enough for what is asked here."""
    monkeypatch.setattr(worker, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(worker, "_MOST_SECONDS", 0.001)


def sweeper(
    model: Any,
    tmp_path: Path,
    inputs: Sequence[Input] = (Input(["batch", "features"], "floating", None),),
    init: Sequence[str] = ("features", "hidden"),
    *,
    kernels: bool = False,
) -> Sweeper:
    wanted = Sweep(
        file=None, init=list(init), inputs=list(inputs), threads=1, folder=str(tmp_path),
        kernels=kernels, cases=[], quiet_pace=float("inf"),
    )  # fmt: skip
    return Sweeper(model, wanted, ReferenceLoop())


def told(made: Sweeper, **case: Any) -> Any:
    dims = {"batch": 4, "features": 8, "hidden": 16, **case.pop("dims", {})}
    usual = {"dtype": "fp32", "backend": "pt", "phase": "forward", "timed": True}
    return made.measure(SweepCase(**{**usual, "dims": dims, **case}))


def test_a_forward_run_is_known_by_its_flops_bytes_and_memory(tmp_path: Path) -> None:
    found = told(sweeper(Layer, tmp_path))
    assert found.status == "measured"
    assert found.flops == 2 * (4 * 8 * 16) * 2
    assert found.bytes == 4 * (2 * 8 * 16 + 8 + 16 + 2 * 4 * 8)
    # What the first layer gives, what relu makes of it, and the result.
    assert 4 * 4 * 16 <= found.peak_memory_bytes <= 4 * (2 * 4 * 16 + 4 * 8)
    assert found.max_error == 0.0
    assert found.prepare_seconds is None
    assert found.sampling is not None
    assert len(found.sampling.wall) >= 1


@pytest.mark.parametrize("model", [Layer, made_layer, scaled])
def test_a_model_is_a_class_a_function_that_makes_one_or_a_function(
    model: Any, tmp_path: Path
) -> None:
    assert told(sweeper(model, tmp_path)).status == "measured"


def test_names_that_the_constructor_does_not_have_are_given_in_their_order(tmp_path: Path) -> None:
    shape = [Input(["batch", "width"], "floating", None)]
    made = sweeper(torch.nn.Linear, tmp_path, shape, init=["width", "out"])
    found = told(made, dims={"width": 8, "out": 2})
    assert found.flops == 2 * 4 * 8 * 2


@pytest.mark.parametrize("phase", ["backward", "forward+backward"])
def test_backward_accumulates_nothing_and_costs_more(phase: str, tmp_path: Path) -> None:
    made = sweeper(Layer, tmp_path)
    forward, found = told(made), told(made, phase=phase)
    assert found.status == "measured"
    assert found.flops == forward.flops * (2 if phase == "backward" else 3)
    assert found.max_error == 0.0
    assert all(p.grad is None for p in made._prepared["model"].parameters())


def test_gradients_that_nobody_has_are_a_reason(tmp_path: Path) -> None:
    inputs = [Input(["batch"], "int64", "features")]
    found = told(sweeper(lambda x: x + 1, tmp_path, inputs, init=()), phase="backward")
    assert found.status == "skipped"
    assert "gradient" in found.reason


def test_indices_are_drawn_below_the_dimension(tmp_path: Path) -> None:
    seen: list[torch.Tensor] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x

    inputs = [Input(["batch", 50], "int64", "features")]
    assert told(sweeper(look, tmp_path, inputs, init=())).status == "measured"
    assert seen[0].shape == (4, 50)
    assert seen[0].dtype == torch.int64
    assert set(seen[0].flatten().tolist()) == set(range(8))


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp64", "int8"])
def test_other_dtypes_are_measured(dtype: str, tmp_path: Path) -> None:
    found = told(sweeper(Layer, tmp_path), dtype=dtype)
    assert (found.status, found.reason) == ("measured", "")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({"backend": "ort", "phase": "backward"}, "only the forward pass"),
        ({"dtype": "int8", "phase": "backward"}, "has no gradients"),
        ({"dtype": "int8", "backend": "ort"}, "cannot be exported"),
    ],
)
def test_what_cannot_be_is_skipped_with_a_reason(
    case: dict[str, Any], said: str, tmp_path: Path
) -> None:
    found = told(sweeper(Layer, tmp_path), **case)
    assert found.status == "skipped"
    assert said in found.reason


def test_a_single_layer_is_quantised(tmp_path: Path) -> None:
    found = told(sweeper(torch.nn.Linear, tmp_path), dtype="int8")
    assert (found.status, found.reason) == ("measured", "")


def test_a_model_without_weights_is_not_quantised(tmp_path: Path) -> None:
    found = told(sweeper(torch.nn.ReLU, tmp_path, init=()), dtype="int8")
    assert found.status == "skipped"
    assert "this model has none" in found.reason


def test_a_constructor_that_raises_is_told_with_names_and_values(tmp_path: Path) -> None:
    made = sweeper(Layer, tmp_path)
    found = told(made, dims={"hidden": -3})
    assert found.status == "failed"
    assert "constructor of Layer raised with features=8, hidden=-3: RuntimeError" in found.reason
    assert told(made).status == "measured"


def test_a_shape_that_does_not_fit_is_told_with_names_and_values(tmp_path: Path) -> None:
    inputs = [Input(["batch", 5], "floating", None)]
    found = told(sweeper(Layer, tmp_path, inputs))
    assert found.status == "failed"
    assert "[batch=4, 5] raised RuntimeError: mat1 and mat2" in found.reason


def test_what_gives_no_tensor_is_told(tmp_path: Path) -> None:
    found = told(sweeper(lambda x: 3, tmp_path, init=()))
    assert found.status == "failed"
    assert "no tensor" in found.reason


def test_onnx_runtime_serves_many_sizes_from_one_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports: list[Any] = []
    export = torch.onnx.export

    def counted(*args: Any, **kwargs: Any) -> Any:
        exports.append(args)
        return export(*args, **kwargs)

    monkeypatch.setattr(torch.onnx, "export", counted)
    made = sweeper(Layer, tmp_path, kernels=True)
    found = [told(made, backend="ort", dims={"batch": batch}) for batch in (1, 4, 7)]
    assert [each.status for each in found] == ["measured"] * 3
    assert max(each.max_error for each in found) < 1e-5
    assert len(exports) == 1
    assert found[0].prepare_seconds > found[1].prepare_seconds
    assert sum(each.calls for each in found[0].kernels if "Gemm" in each.kernel) == 2
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_for_any_size_is_exported_for_each(tmp_path: Path) -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 4 else x / 2

    made = sweeper(halved, tmp_path, init=())
    found = [told(made, backend="ort", dims={"batch": batch}) for batch in (4, 6)]
    assert [(each.status, each.reason) for each in found] == [("measured", "")] * 2


def test_onnx_runtime_that_is_not_there_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    made = sweeper(Layer, tmp_path)
    found = told(made, backend="ort")
    assert found.status == "skipped"
    assert "pip install 'torchmark[ort]'" in found.reason
    assert told(made).status == "measured"


def test_a_result_that_is_not_eagers_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "compile_model", lambda function, **_: lambda x: function(x) + 0.5)
    found = told(sweeper(Layer, tmp_path), backend="compile")
    assert found.status == "measured"
    assert found.max_error == pytest.approx(0.5)
    assert "differs from eager's by 0.5" in found.reason


def test_kernels_are_told_with_calls_and_times_of_one_run(tmp_path: Path) -> None:
    found = told(sweeper(Layer, tmp_path, kernels=True))
    calls = {kernel.kernel: kernel.calls for kernel in found.kernels}
    assert calls["aten::addmm"] == 2
    assert all(kernel.seconds >= 0 for kernel in found.kernels)


def test_a_static_compilation_is_for_one_size_and_a_dynamic_one_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def compile_function(function: Any, *, dynamic: bool) -> Any:
        asked.append(dynamic)
        return function

    monkeypatch.setattr(models, "compile_function", compile_function)
    made = sweeper(Layer, tmp_path)
    for backend in ("compile", "compile-static"):
        for batch in (2, 4):
            found = told(made, backend=backend, dims={"batch": batch})
            assert (found.status, found.reason) == ("measured", "")
            assert found.prepare_seconds is not None
    assert asked == [True, False], "torch.compile itself compiles again where it has to"


def test_a_model_that_needs_what_torch_lacks_is_skipped(tmp_path: Path) -> None:
    class Ahead(torch.nn.Module):
        def __init__(self, features: int, hidden: int) -> None:
            super().__init__()
            self.layer = torch.nn.NoSuchLayer(features, hidden)  # type: ignore[attr-defined]

    def ahead(x: torch.Tensor, *, features: int, hidden: int) -> torch.Tensor:
        return torch.no_such_function(x)  # type: ignore[attr-defined,no-any-return]

    for model, name in ((Ahead, "torch.nn.NoSuchLayer"), (ahead, "torch.no_such_function")):
        found = told(sweeper(model, tmp_path))
        assert found.status == "skipped"
        assert found.reason == f"torch {torch.__version__} has no {name}"
