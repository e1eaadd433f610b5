"""torch.compile with the backends that need no compiler, and inductor once."""

from __future__ import annotations

import pytest
import torch

import torchmark
from torchmark.compiling import CompilationWarning
from torchmark.errors import InvalidArgumentError
from torchmark.utils.compile import bench_loop


@pytest.fixture
def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())


X = torch.ones(4, 8)


def test_an_eager_model_has_no_compilation_time(model: torch.nn.Module) -> None:
    compilation, running = torchmark.benchmark_compile(model, X)
    assert compilation is None
    assert running is not None
    assert running >= 0


def test_a_loop_gives_the_time_of_a_call_or_of_a_step_of_training(model: torch.nn.Module) -> None:
    assert bench_loop(model, X, 3) >= 0
    before = next(model.parameters()).clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert bench_loop(model, X, 3, optimizer, torch.sum) >= 0
    assert not torch.equal(before, next(model.parameters()))


def test_the_compilation_is_not_swallowed_by_a_warm_up(model: torch.nn.Module) -> None:
    """The first call traces and compiles, so it takes many times what a later one takes."""
    compilation, running = torchmark.benchmark_compile(model, X, 20, backend="aot_eager")
    assert compilation is not None
    assert running is not None
    assert compilation > 10 * running
    assert compilation > 1


def test_a_step_of_training_updates_the_model(model: torch.nn.Module) -> None:
    before = [parameter.clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torchmark.benchmark_compile(model, X, 2, "eager", None, optimizer, torch.sum)
    changed = [
        not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)
    ]
    assert any(changed)


def test_a_backend_that_fails_is_a_warning_and_no_times(model: torch.nn.Module) -> None:
    with pytest.warns(CompilationWarning, match="no_such_backend"):
        assert torchmark.benchmark_compile(model, X, backend="no_such_backend") == (None, None)


def test_a_function_that_is_compiled_again_in_each_run_is_not_measured() -> None:
    sizes = iter(range(2, 1000))

    def grows(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Growing:
        def __call__(self, _: torch.Tensor) -> torch.Tensor:
            return torch.compile(grows, backend="eager", dynamic=False)(torch.ones(next(sizes)))

    with pytest.warns(CompilationWarning, match="compiled"):
        assert torchmark.benchmark_compile(Growing(), X, backend="eager") == (None, None)


def test_a_model_of_which_nothing_is_compiled_is_not_measured() -> None:
    with pytest.warns(CompilationWarning, match="did not compile any part"):
        assert torchmark.benchmark_compile(lambda x: x, X, backend="eager") == (None, None)


def test_the_number_of_runs_is_checked(model: torch.nn.Module) -> None:
    with pytest.raises(InvalidArgumentError, match="num_iters"):
        torchmark.benchmark_compile(model, X, num_iters=0)


def test_bench_all_is_a_table_with_eager_and_the_backends_that_work(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch._dynamo, "list_backends", lambda: ["aot_eager", "no_such_backend"])
    with pytest.warns(CompilationWarning):
        table = torchmark.bench_all(model, X, num_iters=2).splitlines()
    assert table[0].split("|")[1].strip() == "Train/Inference"
    assert [line.split("|")[2].strip() for line in table[2:]] == ["Eager", "aot_eager"]
    assert all(line.split("|")[1].strip() == "Inference" for line in table[2:])
