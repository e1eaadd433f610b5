"""Measures the work of a call or run, and the speed of this machine for it.

FLOPs come from the formulas of torch's own counter. They cover matrix products, convolutions and
attention, forward and backward, where a model has nearly all of its FLOPs. For other operators the
number is unknown and is not guessed. A torch without the counter (before 2.0) knows none. Bytes,
memory and kernels of a run are measured here too.

The speeds are the best that this machine reaches with its threads, for copies of three sizes and
matrix products. They show how long a call's bytes and FLOPs would take at best.
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
    """Return the FLOPs of one call that gave this result; None if unknown."""
    formula = _formula(operator)
    if formula is None:
        return None
    try:
        return int(formula(*args, **kwargs, out_val=result))
    except Exception:  # the formula does not support these arguments
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
"""Operators that compute the same as another one, and begin with the same arguments. The counter
only knows the other one."""


def flops_of_run(run: Callable[[], Any]) -> Optional[int]:
    """Return the FLOPs of one run, by torch's counter; None if unknown, and before torch 2.1."""
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
    except Exception:  # an operator that cannot be intercepted in Python
        return None
    return int(counter.get_total_flops()) or None


def _unwrapped(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a formula of torch that its counter accepts without wrapping it again."""

    def same(*args: Any, **kwargs: Any) -> Any:
        return formula(*args, **kwargs)

    same._get_raw = True  # type: ignore[attr-defined]  # noqa: SLF001 - the counter checks this
    return same


_PROFILED_RUNS = 10
"""Number of runs over which kernel times are averaged, after one unprofiled run."""


def bytes_of(module: Any, tensors: Iterable[Any]) -> int:
    """Return the bytes of parameters, buffers and these tensors, each counted once."""
    owned = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else []
    each_once = {id(tensor): tensor for tensor in [*owned, *tensors]}
    return sum(tensor.numel() * tensor.element_size() for tensor in each_once.values())


def run_watching_memory(run: Callable[[], Result]) -> Tuple[Result, int]:
    """Return the result of a run, and its peak of allocated bytes above those before it.

    torch does not count allocations on the CPU, but reports each one to its profiler. This uses
    torch's first profiler: the newer one takes seconds to start, and this runs for every call of a
    replay. Memory that other libraries allocate (ONNX Runtime) is not included.
    """
    profiler: Any = torch.autograd  # there is no public way; torch 1.13 has all of it too
    # Neither shapes nor stacks, FLOPs or modules: only memory.
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
    """Return calls and self time of one run by kernel, according to torch's profiler."""
    run()
    with _profile() as profiler:
        for _ in range(_PROFILED_RUNS):
            run()
    return [
        _kernel(event.key, event.count, event.self_cpu_time_total / 1e6)
        for event in profiler.key_averages()
    ]


def onnx_kernels_of(session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> List[Kernel]:
    """Return the same for a session whose profiler writes a file, which is removed."""
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
    """Return the kernel's share of one run, from the total of all profiled runs."""
    return Kernel(name, calls / _PROFILED_RUNS, seconds / _PROFILED_RUNS)


def _profile() -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it reports its start and end on stderr
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=activities)


COPIES = (256 * 1024, 4 * 1024 * 1024, 128 * 1024 * 1024)
"""Bytes that a copy reads and writes: in a core's cache, in the last-level cache, in memory."""

_SIDES = {"float32": 1024}
_SIDE = 512
"""Sides of the matrices, large enough for full speed. For dtypes that a processor does not compute
in, which may be a hundred times slower than float32, they are smaller."""

_AT_LEAST = 0.05
"""Minimum seconds for each measurement."""

_TRIALS = 3
"""Runs per layout: the first run of each prepares what later ones use."""


@offer
def machine_speeds(dtypes: List[str]) -> Dict[str, Any]:
    """Return the speeds as plain JSON; dtypes without a matrix product are left out."""
    x = torch.ones(1)
    small = _least_seconds(lambda: torch.add(x, x))
    speeds: Dict[str, Any] = {
        "small_call_seconds": small,
        "bytes_per_second": {size: _fastest(partial(_copy_speed, size, small)) for size in COPIES},
        "flops_per_second": {},
    }
    for name in dtypes:
        try:
            speeds["flops_per_second"][name] = _fastest(partial(_product_speed, name))
        except (AttributeError, RuntimeError):  # no such dtype, or no matrix product for it
            continue
    return speeds


def _fastest(speed: Callable[[], float]) -> float:
    """Return the higher of the speeds with one thread and with as many as the replay uses.

    On a busy machine, threads wait for each other for milliseconds, even in the quickest of many
    runs. A copy of 256 KiB in two threads was a thousand times slower than in one.
    """
    threads = torch.get_num_threads()
    try:
        found = []
        for number in {1, threads}:
            torch.set_num_threads(number)
            found.append(speed())
        return max(found)
    finally:
        torch.set_num_threads(threads)


def _copy_speed(size: int, small: float) -> float:
    """Return the speed of copying; the cost of any call is subtracted, for small copies."""
    source = torch.ones(size // 2, dtype=torch.uint8)
    target = torch.empty_like(source)
    seconds = _least_seconds(lambda: target.copy_(source))
    return size / max(seconds - small, seconds / 10)


def _product_speed(name: str) -> float:
    """Return the speed of the fastest layout: without float16 support they may differ by 8 times.

    Small products find the fastest layout, because large ones take too long with a slow layout.
    """
    dtype, side = getattr(torch, name), _SIDES.get(name, _SIDE)
    small = _products(side // 4, dtype)
    quickest = [min(_seconds_of(product) for _ in range(_TRIALS)) for product in small]
    fastest = quickest.index(min(quickest))
    return 2.0 * side**3 / _least_seconds(_products(side, dtype)[fastest])


def _products(side: int, dtype: torch.dtype) -> List[Callable[[], Any]]:
    """Return products of two matrices, each in its memory order or transposed."""
    matrix = torch.ones(side, side, dtype=dtype)
    out = torch.empty_like(matrix)
    layouts = (matrix, matrix.t())
    return [partial(torch.mm, a, b, out=out) for a in layouts for b in layouts]


def _seconds_of(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _least_seconds(action: Callable[[], Any]) -> float:
    """Return the shortest time of many runs, which is least affected by disturbances."""
    least = float("inf")
    number, spent = 1, 0.0
    while spent < _AT_LEAST:
        start = time.perf_counter()
        for _ in range(number):
            action()
        seconds = time.perf_counter() - start
        if spent:  # skip the first run, in which memory and code are new
            least = min(least, seconds / number)
        spent += seconds
        if seconds < 1e-4:
            number *= 2
    return least if least < float("inf") else _seconds_of(action)
