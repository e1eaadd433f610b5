"""Time a model under torch.compile: the compilation, and the runs after it.

The first call of a compiled model compiles it, so that call and the later ones are timed
separately. A backend that cannot compile the model does not affect the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torchmark.arguments import check_count
from torchmark.engine.machine import import_torch, set_torch_threads
from torchmark.errors import TorchmarkError
from torchmark.report.formats.markdown import pipe_table
from torchmark.timers import Timer, timer

_HEADER = ("Train/Inference", "Backend", "Mode", "Compilation Time", "Average Running Time")


class CompilationError(TorchmarkError, RuntimeError):
    """A backend did not compile the model, or compiled it again while it was measured."""


class CompilationWarning(UserWarning):
    """A backend did not compile the model; its times are None."""


def bench_loop(
    model: Callable[..., Any],
    sample_input: Any,
    num_iters: int = 5,
    optimizer: Any = None,
    loss_fn: Callable[..., Any] | None = None,
) -> float:
    """The mean time of one call of the model in milliseconds, or of one training step."""
    return _running_time(_step(model, sample_input, optimizer, loss_fn), num_iters)


def benchmark_compile(
    model: Callable[..., Any],
    sample_input: Any,
    num_iters: int = 5,
    backend: str | None = None,
    mode: str | None = "default",
    optimizer: Any = None,
    loss_fn: Callable[..., Any] | None = None,
) -> tuple[float | None, float | None]:
    """The time of the first call, which compiles, and the mean of later ones, in milliseconds.

    Without a backend the model runs in eager mode and the first time is None. With an optimizer,
    one training step is measured. If the backend fails, both are None and a warning is given.
    """
    check_count("num_iters", num_iters)
    if backend is None:
        return None, bench_loop(model, sample_input, num_iters, optimizer, loss_fn)
    torch = import_torch()
    torch._dynamo.reset()  # noqa: SLF001 - torch has no public name for it
    try:
        # An empty mode and "default" are the same to torch; some backends refuse any mode.
        options = {} if mode in (None, "default") else {"mode": mode}
        compiled = torch.compile(model, backend=backend, **options)
        step = _step(compiled, sample_input, optimizer, loss_fn)
        return _compile_and_run(step, num_iters, backend)
    except Exception as error:  # a backend may raise anything
        warnings.warn(
            f"backend {backend!r} with mode {mode!r} failed: {type(error).__name__}: {error}",
            CompilationWarning,
            stacklevel=2,
        )
        return None, None
    finally:
        torch._dynamo.reset()  # noqa: SLF001


def bench_all(
    model: Callable[..., Any],
    sample_input: Any,
    num_iters: int = 5,
    optimizer: Any = None,
    loss_fn: Callable[..., Any] | None = None,
) -> str:
    """A Markdown table of the times in eager mode and under each backend of torch.compile."""
    torch = import_torch()
    kind = "Training" if optimizer is not None else "Inference"
    _, eager = benchmark_compile(
        model, sample_input, num_iters, optimizer=optimizer, loss_fn=loss_fn
    )
    rows = [(kind, "Eager", "-", "-", _milliseconds(eager))]
    for backend in torch._dynamo.list_backends():  # noqa: SLF001
        is_inductor = backend == "inductor"
        modes = torch._inductor.list_mode_options() if is_inductor else [None]  # noqa: SLF001
        for mode in modes:
            compilation, running = benchmark_compile(
                model, sample_input, num_iters, backend, mode, optimizer, loss_fn
            )
            if running is not None:
                times = _milliseconds(compilation), _milliseconds(running)
                rows.append((kind, backend, mode or "-", *times))
    return pipe_table(_HEADER, rows)


def _step(
    model: Callable[..., Any],
    sample_input: Any,
    optimizer: Any,
    loss_fn: Callable[..., Any] | None,
) -> Callable[[], Any]:
    """One call of the model, or one step of its training."""

    def infer() -> Any:
        return model(sample_input)

    def train() -> None:
        output = model(sample_input)
        loss = loss_fn(output) if loss_fn is not None else output.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return infer if optimizer is None else train


def _compile_and_run(step: Callable[[], Any], num_iters: int, backend: str) -> tuple[float, float]:
    before = _graphs()
    # One thread like Timer: torch.compile compiles again if the number of threads changes.
    with set_torch_threads(1):
        start = timer()
        step()
        compilation = timer() - start
    compiled = _graphs()
    if compiled == before:
        raise CompilationError(f"{backend} did not compile any part of the model")
    running = _running_time(step, num_iters)
    if _graphs() != compiled:
        raise CompilationError(f"{backend} compiled the model again while it was measured")
    return round(compilation * 1e3, 2), running


def _graphs() -> int:
    """The number of graphs that torch.compile has compiled in this process."""
    from torch._dynamo.utils import counters  # noqa: PLC0415 - imported with torch only

    return int(counters["stats"]["unique_graphs"])


def _running_time(step: Callable[[], Any], num_iters: int) -> float:
    return round(Timer(step).timeit(num_iters).mean * 1e3, 2)


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value} ms"
