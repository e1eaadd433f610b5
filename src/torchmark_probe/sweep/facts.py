"""What is known of a run beside its time: bytes, memory, kernels, and its error."""

import json
import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import torch

from torchmark_probe.replay.backends import difference, tensors_of
from torchmark_probe.sweep.messages import Kernel

PROFILED_RUNS = 10
"""Runs over which the times of kernels are averaged, after one that is not looked at."""


def bytes_of(module: Any, tensors: Iterable[Any]) -> int:
    """Parameters, buffers and these tensors, each once."""
    owned = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else []
    each_once = {id(tensor): tensor for tensor in [*owned, *tensors]}
    return sum(tensor.numel() * tensor.element_size() for tensor in each_once.values())


def peak_memory_of(run: Callable[[], Any]) -> Optional[int]:
    """The most bytes that a run had allocated by torch at one time, over what was there before.

    torch counts no allocations on the CPU, but its profiler hears of each. Memory that somebody
    else allocates (ONNX Runtime) it does not hear of.
    """
    with _profile(memory=True) as profiler:
        result = run()
    events = [
        event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    del result
    moment = "start_ns" if hasattr(torch._C._autograd._KinetoEvent, "start_ns") else "start_us"  # noqa: SLF001
    held = peak = 0
    for event in sorted(events, key=lambda event: getattr(event, moment)()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak if events else None


def kernels_of(run: Callable[[], Any]) -> List[Kernel]:
    """Calls and seconds of one run by kernel, as torch's profiler tells them; own time alone."""
    run()
    with _profile(memory=False) as profiler:
        for _ in range(PROFILED_RUNS):
            run()
    return [
        Kernel(
            event.key, event.count / PROFILED_RUNS, event.self_cpu_time_total / 1e6 / PROFILED_RUNS
        )
        for event in profiler.key_averages()
    ]


def onnx_kernels_of(file: str) -> List[Kernel]:
    """The same from the file that ONNX Runtime's profiler wrote; the file is removed."""
    with open(file) as text:
        events = json.load(text)
    os.unlink(file)
    calls: Dict[str, int] = {}
    seconds: Dict[str, float] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            name = event["args"]["op_name"]
            calls[name] = calls.get(name, 0) + 1
            seconds[name] = seconds.get(name, 0.0) + event["dur"] / 1e6
    return [
        Kernel(name, count / PROFILED_RUNS, seconds[name] / PROFILED_RUNS)
        for name, count in calls.items()
    ]


def largest_error(expected: Sequence[Any], given: Sequence[Any]) -> float:
    """The largest difference of an element; infinite where shapes differ or one is not a number."""
    if len(expected) != len(given):
        return float("inf")
    pairs = list(zip(expected, given))
    if any(one.shape != other.shape for one, other in pairs):
        return float("inf")
    return max([difference(one, other) for one, other in pairs] + [0.0])


def results_of(value: Any) -> List[Any]:
    """The tensors of a result that can be compared."""
    return [tensor.detach() for tensor in tensors_of(value)]


def scale_of(tensors: Sequence[Any]) -> float:
    """The largest element, which an error is held against."""
    sizes = [float(t.abs().double().nan_to_num().max()) for t in tensors if t.numel()]
    return max([*sizes, 1.0])


def _profile(*, memory: bool) -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it tells stderr that it begins and ends
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=activities, profile_memory=memory)
