"""The model of a sweep as torch.compile and ONNX Runtime execute it, prepared once for many sizes.

torch.compile is told that sizes are dynamic, so that one compilation serves all of them; it makes
another where it has to, as for a size of 1. ONNX Runtime gets one export with dynamic dimensions,
and where that does not work one for each size. What a case had to wait for is its `seconds`.
"""

import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from torchmark_probe.replay import onnx_backend
from torchmark_probe.replay.backends import BackendError, first_line
from torchmark_probe.sweep.facts import PROFILED_RUNS, onnx_kernels_of
from torchmark_probe.sweep.messages import Kernel
from torchmark_probe.sweep.models import CaseError
from torchmark_probe.sweep.phases import Call

_MOST_COMPILATIONS = 4096
"""Of one model; torch would give up after eight, and run the rest by itself."""


class Exported(NamedTuple):
    """A model in ONNX's form, with a session."""

    content: bytes
    session: Any


class OnnxModel:
    """A model in one dtype: exported once if that works, and per size where not."""

    def __init__(self, function: Callable[..., Any], threads: int) -> None:
        self._function = function
        self._threads = threads
        self._dynamic: Optional[Exported] = None
        self._dynamic_works = True
        self._last: Optional[Exported] = None

    def bind(
        self, inputs: Sequence[Any], axes: Sequence[Dict[int, str]], expected: Sequence[Any]
    ) -> onnx_backend.Bound:
        """A run on these inputs; `axes` names those of each input that may have any size."""
        onnx_backend.check_installed()
        if any(axes) and self._dynamic_works:
            try:
                return self._bind_dynamically(inputs, axes, expected)
            except BackendError:
                self._dynamic_works = self._dynamic is not None  # this size alone, or all
        return self._bind(self._export(inputs, ()), inputs, expected)

    def kernels(self, inputs: Sequence[Any], expected: Sequence[Any], prefix: str) -> List[Kernel]:
        """Calls and times by kernel, from a session of its own that is profiled."""
        assert self._last is not None
        session = onnx_backend.session_of(self._last.content, self._threads, prefix)
        run = onnx_backend.bind(session, inputs, expected)
        for _ in range(PROFILED_RUNS - 1):
            run()
        return onnx_kernels_of(session.end_profiling())

    def _bind_dynamically(
        self, inputs: Sequence[Any], axes: Sequence[Dict[int, str]], expected: Sequence[Any]
    ) -> onnx_backend.Bound:
        if self._dynamic is None:
            self._dynamic = self._export(_of_size_two_or_more(inputs, axes), axes)
        return self._bind(self._dynamic, inputs, expected)

    def _export(self, inputs: Sequence[Any], axes: Sequence[Dict[int, str]]) -> Exported:
        content = onnx_backend.export_model(self._function, inputs, axes)
        return Exported(content, onnx_backend.session_of(content, self._threads))

    def _bind(
        self, exported: Exported, inputs: Sequence[Any], expected: Sequence[Any]
    ) -> onnx_backend.Bound:
        run = onnx_backend.bind(exported.session, inputs, expected)
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
    if not hasattr(torch, "compile"):
        raise BackendError("torch {} has no torch.compile".format(torch.__version__))
    from torch._dynamo import config  # noqa: PLC0415 - an older torch lacks it

    for name in ("recompile_limit", "cache_size_limit"):  # the older name is still an alias
        if hasattr(config, name):
            setattr(config, name, _MOST_COMPILATIONS)
            break
    _keep_buffers()
    made: Callable[..., Any] = torch.compile(function, fullgraph=True, dynamic=True)
    return made


def forget_compilations() -> None:
    """Before another model: torch keeps what it has compiled by the code, not by the model."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


def first_run(make: Callable[[], Call], name: str) -> "FirstRun":
    """Make the call and run it once; what a compiler raises is a BackendError."""
    start = time.perf_counter()
    try:
        call = make()
        result = call()
    except (BackendError, CaseError):
        raise
    except Exception as error:
        raise BackendError("{}: {}".format(name, first_line(error))) from error
    return FirstRun(call, result, time.perf_counter() - start)


class FirstRun(NamedTuple):
    """A run that has been done once."""

    call: Call
    result: Any
    seconds: float
    """What it took, compiling included."""


def _keep_buffers() -> None:
    """A compiled backward pass that is run again needs what it would overwrite otherwise."""
    try:
        from torch._functorch import config  # noqa: PLC0415 - an older torch lacks it
    except ImportError:
        return
    if hasattr(config, "donated_buffer"):
        config.donated_buffer = False
