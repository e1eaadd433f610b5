"""How much work a call or a run is, and how quickly this machine does such work.

FLOPs are by the formulas that torch's own counter has. They cover matrix products, convolutions
and attention, forward and backward: what a model computes its FLOPs with. For everything else the
number is not known, and nobody guesses it. A torch without the counter (before 2.0) knows none.
Bytes, memory and kernels of a run are found here too.

The speeds are the best that this machine does with the threads it has: copies of three sizes,
matrix products. A call is held against these: what its bytes and FLOPs would take at that speed
is work.
"""

import json
import os
import time
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar

import torch

from torchmark_probe.replay.backends import bind
from torchmark_probe.zygote.handlers import offer
from torchmark_probe.zygote.messages import Kernel

Result = TypeVar("Result")


def flops_of_call(
    operator: Any, args: List[Any], kwargs: Dict[str, Any], result: Any
) -> Optional[int]:
    """Of one call that gave this result; None where it is not known."""
    formula = _formula(operator)
    if formula is None:
        return None
    try:
        return int(formula(*args, **kwargs, out_val=result))
    except Exception:  # a formula for other arguments knows nothing of these
        return None


def _formula(operator: Any) -> Optional[Callable[..., Any]]:
    try:
        from torch.utils.flop_counter import flop_registry  # noqa: PLC0415 - an older torch lacks it
    except ImportError:
        return None
    namespace, _, name = operator.name().partition(".")[0].partition("::")
    known_as = _SAME.get(name, name)
    return flop_registry.get(getattr(getattr(torch.ops, namespace), known_as, None))


_SAME = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        "_scaled_dot_product_flash_attention_backward"
    ),
}
"""Operators that compute the same as another one, and begin with the same arguments; the counter
has the other one alone."""


def flops_of_run(run: Callable[[], Any]) -> Optional[int]:
    """Of one run, by torch's own counter; None where it knows of none, and before torch 2.1."""
    try:
        from torch.utils.flop_counter import (  # noqa: PLC0415 - an older torch lacks it
            FlopCounterMode,
            flop_registry,
        )
    except ImportError:
        return None
    formulas = {}
    for name, same in _SAME.items():
        operator = getattr(torch.ops.aten, name, None)
        formula = flop_registry.get(getattr(torch.ops.aten, same, None))
        if operator is not None and formula is not None:
            formulas[operator] = _unwrapped(formula)
    try:
        with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
            run()
    except Exception:  # an operator that cannot be looked at from Python
        return None
    return int(counter.get_total_flops()) or None


def _unwrapped(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of torch's own, which it would otherwise make ready for tensors twice."""

    def same(*args: Any, **kwargs: Any) -> Any:
        return formula(*args, **kwargs)

    same._get_raw = True  # type: ignore[attr-defined]  # noqa: SLF001 - what the counter asks for
    return same


_PROFILED_RUNS = 10
"""Runs over which the times of kernels are averaged, after one that is not looked at."""


def bytes_of(module: Any, tensors: Iterable[Any]) -> int:
    """Parameters, buffers and these tensors, each once."""
    owned = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else []
    each_once = {id(tensor): tensor for tensor in [*owned, *tensors]}
    return sum(tensor.numel() * tensor.element_size() for tensor in each_once.values())


def run_watching_memory(run: Callable[[], Result]) -> Tuple[Result, int]:
    """What a run returns, and the most bytes it had allocated at one time, over those before it.

    torch counts no allocations on the CPU, but tells its profiler of each. This is the profiler
    that torch had first: the newer one takes seconds to start, and this runs for every call of a
    replay. Memory that somebody else allocates (ONNX Runtime) it does not hear of.
    """
    profiler: Any = torch.autograd  # no public way; torch 1.13 has all of it too
    # Neither shapes nor stacks, FLOPs or modules: memory alone.
    plain = torch._C._profiler._ExperimentalConfig()  # noqa: SLF001
    config = profiler.ProfilerConfig(
        profiler.ProfilerState.CPU, False, True, False, False, False, plain
    )
    profiler._enable_profiler_legacy(config)  # noqa: SLF001
    try:
        result = run()
    finally:
        by_thread = profiler._disable_profiler_legacy()  # noqa: SLF001
    held = peak = 0
    for event in (event for events in by_thread for event in events):
        if event.kind() == "memory_alloc":
            held += event.cpu_memory_usage()
            peak = max(peak, held)
    return result, peak


def kernels_of(run: Callable[[], Any]) -> List[Kernel]:
    """Calls and seconds of one run by kernel, as torch's profiler tells them; own time alone."""
    run()
    with _profile() as profiler:
        for _ in range(_PROFILED_RUNS):
            run()
    return [
        _kernel(event.key, event.count, event.self_cpu_time_total / 1e6)
        for event in profiler.key_averages()
    ]


def onnx_kernels_of(session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> List[Kernel]:
    """The same of a session whose profiler writes a file; the file is removed."""
    run = bind(session, inputs, expected)
    for _ in range(_PROFILED_RUNS - 1):
        run()
    file = session.end_profiling()
    with open(file) as text:
        events = json.load(text)
    os.unlink(file)
    calls: Dict[str, List[float]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            calls.setdefault(event["args"]["op_name"], []).append(event["dur"] / 1e6)
    return [_kernel(name, len(seconds), sum(seconds)) for name, seconds in calls.items()]


def _kernel(name: str, calls: int, seconds: float) -> Kernel:
    """Of one run, where all the runs that were profiled took so much."""
    return Kernel(name, calls / _PROFILED_RUNS, seconds / _PROFILED_RUNS)


def _profile() -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it tells stderr that it begins and ends
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=activities)


COPIES = (256 * 1024, 4 * 1024 * 1024, 128 * 1024 * 1024)
"""Bytes that a copy moves, read and written: in the cache of a core, in the last one, in memory."""

_SIDES = {"float32": 1024}
_SIDE = 512
"""Of the matrices: large enough for full speed. Types that a processor does not compute in may be a
hundred times slower than float32, so theirs are smaller."""

_AT_LEAST = 0.05
"""Seconds that are spent on each."""

_TRIALS = 3
"""Of a layout: the first run of each prepares what later ones use."""


@offer
def machine_speeds(dtypes: List[str]) -> Dict[str, Any]:
    """The speeds as plain JSON; types that have no matrix product are left out."""
    x = torch.ones(1)
    small = _least_seconds(lambda: torch.add(x, x))
    speeds: Dict[str, Any] = {
        "small_call_seconds": small,
        "bytes_per_second": {size: _copy_speed(size, small) for size in COPIES},
        "flops_per_second": {},
    }
    for name in dtypes:
        try:
            speeds["flops_per_second"][name] = _product_speed(name)
        except (AttributeError, RuntimeError):  # no such type here, or no product of it
            continue
    return speeds


def _copy_speed(size: int, small: float) -> float:
    """Of the copying alone: what any call takes is taken off, or small copies would seem slow."""
    source = torch.ones(size // 2, dtype=torch.uint8)
    target = torch.empty_like(source)
    seconds = _least_seconds(lambda: target.copy_(source))
    return size / max(seconds - small, seconds / 10)


def _product_speed(name: str) -> float:
    """Of the layout that is fastest: on a CPU without float16 one may be eight times another.

    Small products tell which that is: large ones of a slow layout would take too long.
    """
    dtype, side = getattr(torch, name), _SIDES.get(name, _SIDE)
    small = _products(side // 4, dtype)
    quickest = [min(_seconds_of(product) for _ in range(_TRIALS)) for product in small]
    fastest = quickest.index(min(quickest))
    return 2.0 * side**3 / _least_seconds(_products(side, dtype)[fastest])


def _products(side: int, dtype: torch.dtype) -> List[Callable[[], Any]]:
    """The product of two matrices, each as it lies in memory or transposed."""
    matrix = torch.ones(side, side, dtype=dtype)
    out = torch.empty_like(matrix)
    layouts = (matrix, matrix.t())
    return [partial(torch.mm, a, b, out=out) for a in layouts for b in layouts]


def _seconds_of(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _least_seconds(action: Callable[[], Any]) -> float:
    """The quickest of many runs: what the machine can do, whatever disturbs it meanwhile."""
    least = float("inf")
    number, spent = 1, 0.0
    while spent < _AT_LEAST:
        start = time.perf_counter()
        for _ in range(number):
            action()
        seconds = time.perf_counter() - start
        if spent:  # not the first, in which memory and code are new
            least = min(least, seconds / number)
        spent += seconds
        if seconds < 1e-4:
            number *= 2
    return least if least < float("inf") else _seconds_of(action)
