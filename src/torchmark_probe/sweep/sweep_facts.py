"""What is known of a run beside its time: FLOPs, bytes, memory, kernels, and its error."""

import json
import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import torch

from torchmark_probe.replay.backends import tensors_of

PROFILED_RUNS = 10
"""Runs over which the times of kernels are averaged, after one that is not looked at."""


_SAME = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        "_scaled_dot_product_flash_attention_backward"
    ),
}
"""Operators of the CPU that compute what another one does; torch's counter has the other alone."""


def flops_of(run: Callable[[], Any]) -> Optional[int]:
    """Of one run, by torch's own counter; None where it knows of none, and before torch 2.1.

    It knows matrix products, convolutions and attention. What is computed beside them is not in.
    """
    try:
        from torch.utils.flop_counter import (  # noqa: PLC0415 - 1.13 lacks it
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
            formulas[operator] = _as_it_is(formula)
    try:
        with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
            run()
    except Exception:  # an operator that cannot be looked at from Python
        return None
    return int(counter.get_total_flops()) or None


def _as_it_is(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of torch's own, which it would otherwise make ready for tensors twice."""

    def same(*args: Any, **kwargs: Any) -> Any:
        return formula(*args, **kwargs)

    same._get_raw = True  # type: ignore[attr-defined]  # noqa: SLF001 - what the counter asks for
    return same


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


def kernels_of(run: Callable[[], Any]) -> List[Dict[str, Any]]:
    """Calls and seconds of one run by kernel, as torch's profiler tells them; own time alone."""
    run()
    with _profile(memory=False) as profiler:
        for _ in range(PROFILED_RUNS):
            run()
    return [
        {
            "kernel": event.key,
            "calls": event.count / PROFILED_RUNS,
            "seconds": event.self_cpu_time_total / 1e6 / PROFILED_RUNS,
        }
        for event in profiler.key_averages()
    ]


def onnx_kernels_of(file: str) -> List[Dict[str, Any]]:
    """The same from the file that ONNX Runtime's profiler wrote; the file is removed."""
    with open(file) as text:
        events = json.load(text)
    os.unlink(file)
    found = {}  # type: Dict[str, Dict[str, Any]]
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            name = event["args"]["op_name"]
            kernel = found.setdefault(name, {"kernel": name, "calls": 0, "seconds": 0.0})
            kernel["calls"] += 1
            kernel["seconds"] += event["dur"] / 1e6 / PROFILED_RUNS
    return [{**kernel, "calls": kernel["calls"] / PROFILED_RUNS} for kernel in found.values()]


def largest_error(expected: Sequence[Any], given: Sequence[Any]) -> float:
    """The largest difference of an element; infinite where shapes differ or one is not a number."""
    if len(expected) != len(given):
        return float("inf")
    return max([_difference(*pair) for pair in zip(expected, given)] + [0.0])


def results_of(value: Any) -> List[Any]:
    """The tensors of a result that can be compared."""
    return [tensor.detach() for tensor in tensors_of(value)]


def scale_of(tensors: Sequence[Any]) -> float:
    """The largest element, which an error is held against."""
    sizes = [float(t.abs().double().nan_to_num().max()) for t in tensors if t.numel()]
    return max([*sizes, 1.0])


def _difference(one: Any, other: Any) -> float:
    if one.shape != other.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    alike = (one == other) | (one.isnan() & other.isnan())
    apart = (one - other).abs().masked_fill(alike, 0.0)
    return float(apart.nan_to_num(nan=float("inf")).max())


def _profile(*, memory: bool) -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it tells stderr that it begins and ends
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=activities, profile_memory=memory)
