"""The model of a sweep as torch.compile and ONNX Runtime execute it, prepared once for many sizes.

torch.compile is told that sizes are dynamic, so that one compilation serves all of them; it makes
another where it has to, as for a size of 1. ONNX Runtime gets one export with dynamic dimensions,
and where that does not work one for each size. What a case had to wait for is its `seconds`.

What is known of a run beside its time is found here too: bytes, memory, kernels.
"""

import json
import os
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

import torch

from torchmark_probe.replay import backends
from torchmark_probe.replay.backends import BackendError, Bound
from torchmark_probe.sweep.models import Call
from torchmark_probe.zygote.messages import Kernel

_MOST_COMPILATIONS = 4096
"""Of one model; torch would give up after eight, and run the rest by itself."""

_PROFILED_RUNS = 10
"""Runs over which the times of kernels are averaged, after one that is not looked at."""


class _Exported(NamedTuple):
    """A model in ONNX's form, with a session."""

    content: bytes
    session: Any


class OnnxModel:
    """A model in one dtype: exported once if that works, and per size where not."""

    def __init__(self, function: Callable[..., Any], threads: int) -> None:
        self._function = function
        self._threads = threads
        self._dynamic: Optional[_Exported] = None
        self._dynamic_works = True
        self._last: Optional[_Exported] = None

    def bind(
        self, inputs: Sequence[Any], axes: Sequence[Dict[int, str]], expected: Sequence[Any]
    ) -> Bound:
        """A run on these inputs; `axes` names those of each input that may have any size."""
        backends.check_onnx_installed()
        if any(axes) and self._dynamic_works:
            try:
                if self._dynamic is None:
                    self._dynamic = self._export(_of_size_two_or_more(inputs, axes), axes)
                return self._bind(self._dynamic, inputs, expected)
            except BackendError:
                self._dynamic_works = self._dynamic is not None  # this size alone, or all
        return self._bind(self._export(inputs, ()), inputs, expected)

    def kernels(self, inputs: Sequence[Any], expected: Sequence[Any], prefix: str) -> List[Kernel]:
        """Calls and times by kernel, from a session of its own that is profiled."""
        assert self._last is not None
        session = backends.start_session(self._last.content, self._threads, prefix)
        run = backends.bind(session, inputs, expected)
        for _ in range(_PROFILED_RUNS - 1):
            run()
        return _onnx_kernels_of(session.end_profiling())

    def _export(self, inputs: Sequence[Any], axes: Sequence[Dict[int, str]]) -> _Exported:
        content = backends.export_model(self._function, inputs, axes)
        return _Exported(content, backends.start_session(content, self._threads))

    def _bind(self, exported: _Exported, inputs: Sequence[Any], expected: Sequence[Any]) -> Bound:
        run = backends.bind(exported.session, inputs, expected)
        self._last = exported
        return run


def _of_size_two_or_more(inputs: Sequence[Any], axes: Sequence[Dict[int, str]]) -> List[Any]:
    """Examples for an export: a size of 1 would be taken for one that is always 1."""
    examples = []
    for tensor, dynamic in zip(inputs, axes):
        shape = [
            max(2, size) if axis in dynamic else size for axis, size in enumerate(tensor.shape)
        ]
        examples.append(tensor if shape == list(tensor.shape) else tensor.expand(shape).clone())
    return examples


def compile_model(function: Callable[..., Any]) -> Callable[..., Any]:
    """The model as torch.compile makes it; it compiles when it is called."""
    made = backends.compile_function(function, dynamic=True)
    from torch._dynamo import config  # noqa: PLC0415 - an older torch lacks it

    for name in ("recompile_limit", "cache_size_limit"):  # the older name is still an alias
        if hasattr(config, name):
            setattr(config, name, _MOST_COMPILATIONS)
            break
    _keep_buffers()
    return made


def forget_compilations() -> None:
    """Before another model: torch keeps what it has compiled by the code, not by the model."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


def _keep_buffers() -> None:
    """A compiled backward pass that is run again needs what it would overwrite otherwise."""
    try:
        from torch._functorch import config  # noqa: PLC0415 - an older torch lacks it
    except ImportError:
        return
    if hasattr(config, "donated_buffer"):
        config.donated_buffer = False


class FirstRun(NamedTuple):
    """A run that has been done once."""

    call: Call
    result: Any
    seconds: float
    """What it took, compiling included."""


def first_run(make: Callable[[], Call], name: str) -> FirstRun:
    """Make the call and run it once; what a compiler raises is a BackendError."""
    start = time.perf_counter()
    with backends.errors_of(name):
        call = make()
        result = call()
    return FirstRun(call, result, time.perf_counter() - start)


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
        for _ in range(_PROFILED_RUNS):
            run()
    return [
        _kernel(event.key, event.count, event.self_cpu_time_total / 1e6)
        for event in profiler.key_averages()
    ]


def _onnx_kernels_of(file: str) -> List[Kernel]:
    """The same from the file that ONNX Runtime's profiler wrote; the file is removed."""
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


def _profile(*, memory: bool) -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it tells stderr that it begins and ends
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=activities, profile_memory=memory)
