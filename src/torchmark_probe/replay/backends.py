"""Who else executes a function of torch: torch.compile, or ONNX Runtime.

Replays prepare an operator for one size, sweeps a whole model for many. `first_run` does whatever
the backend has to do before (compile, export) and gives back what a timed loop calls.
"""

import contextlib
import importlib
import io
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import torch

from torchmark_probe.zygote.handlers import UnsupportedError, headline_of

INSTALL = "pip install 'torchmark[ort]' (onnxruntime, onnx, onnxscript) into this environment"


class BackendError(UnsupportedError):
    """The backend cannot execute this function; the message says why."""


def largest_difference(expected: Sequence[Any], given: Sequence[Any]) -> float:
    """Of an element of these tensors; infinite where shapes differ or one is not a number."""
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in given]:
        return float("inf")
    return max(map(_difference, expected, given), default=0.0)


def _difference(one: Any, other: Any) -> float:
    if not one.numel():
        return 0.0
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    alike = (one == other) | (one.isnan() & other.isnan())
    apart = (one - other).abs().masked_fill(alike, 0.0)
    return float(apart.nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def first_line(error: BaseException) -> str:
    """What an exception of a compiler says, on one line: the cause where there is one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return headline_of(error)


@contextlib.contextmanager
def errors_of(backend: str) -> Iterator[None]:
    """Whatever the backend raises becomes a BackendError: its exceptions have no common class."""
    try:
        yield
    except UnsupportedError:
        raise
    except Exception as error:
        raise BackendError(f"{backend}: {_without_class(first_line(error))}") from error


def _without_class(headline: str) -> str:
    """What was said, where that is a sentence: who reads why a call was skipped needs no class.

    >>> _without_class("torch.Unsupported: no such kernel"), _without_class("KeyError: 'x'")
    ('no such kernel', "KeyError: 'x'")
    """
    kind, _, said = headline.partition(": ")
    return said if " " in said and " " not in kind else headline


def compile_function(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
    """The function as torch.compile makes it, in one graph; it compiles when it is called."""
    if not hasattr(torch, "compile"):
        raise BackendError(f"torch {torch.__version__} has no torch.compile")
    made: Callable[..., Any] = torch.compile(function, fullgraph=True, dynamic=dynamic)
    return made


class FirstRun(NamedTuple):
    """What a backend prepared, run once."""

    call: Any
    result: Any
    seconds: float
    """What it took, compiling or exporting included."""


def first_run(make: Callable[[], Any], backend: str) -> FirstRun:
    """Make the call and run it once; what a compiler raises is a BackendError."""
    start = time.perf_counter()
    with errors_of(backend):
        call = make()
        result = call()
    return FirstRun(call, result, time.perf_counter() - start)


class OnnxModel:
    """A function in ONNX's form: exported once for all sizes if that works, and per size where not.

    Exports are by `torch.onnx.export(dynamo=True)`.
    """

    def __init__(self, function: Callable[..., Any], threads: int) -> None:
        self._function = function
        self._threads = threads
        self._dynamic: Any = None
        self._dynamic_works = True
        self._last = b""

    def bind(
        self, inputs: Sequence[Any], axes: Sequence[Dict[int, str]], expected: Sequence[Any]
    ) -> "Bound":
        """A run on these inputs; `axes` names those of each input that may have any size."""
        check_onnx_installed()
        if any(axes) and self._dynamic_works:
            try:
                if self._dynamic is None:
                    self._dynamic = self._export(_of_size_two_or_more(inputs, axes), axes)
                return self._bind(self._dynamic, inputs, expected)
            except BackendError:
                self._dynamic_works = self._dynamic is not None  # this size alone, or all
        return self._bind(self._export(inputs, ()), inputs, expected)

    def start_profiled_session(self, prefix: str) -> Any:
        """A session of its own for what was bound last; its profiler's file has that prefix."""
        return start_session(self._last, self._threads, prefix)

    def _export(self, inputs: Sequence[Any], axes: Sequence[Dict[int, str]]) -> Tuple[bytes, Any]:
        content = export_model(self._function, inputs, axes)
        return content, start_session(content, self._threads)

    def _bind(
        self, exported: Tuple[bytes, Any], inputs: Sequence[Any], expected: Sequence[Any]
    ) -> "Bound":
        content, session = exported
        run = bind(session, inputs, expected)
        self._last = content
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


def start_session(model: bytes, threads: int, profile_prefix: str = "") -> Any:
    """A session of ONNX Runtime's; with a prefix its profiler writes a file of that name."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors; warnings are for those who made the model
    if profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    with errors_of("ONNX Runtime"):
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def bind(session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> "Bound":
    """The session on these tensors, after its first run; outputs are as those expected."""
    with errors_of("ONNX Runtime"):
        run = Bound(session, inputs, expected)
        run()
    return run


def check_onnx_installed() -> None:
    """An error that says what to install, unless all of it is there."""
    for name in ("onnxruntime", "onnx", "onnxscript"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise BackendError(f"{name} cannot be imported ({error}): {INSTALL}") from error


def export_model(
    function: Callable[..., Any], inputs: Sequence[Any], dynamic: Sequence[Dict[int, str]] = ()
) -> bytes:
    """The model in ONNX's form. `dynamic` names the axes of each input that may have any size."""
    shapes = None
    if any(dynamic):
        names = {name: torch.export.Dim(name) for axes in dynamic for name in axes.values()}
        each = tuple({axis: names[name] for axis, name in axes.items()} for axes in dynamic)
        shapes = {"inputs": each}
    module = _Wrapped(function).eval()
    silence = contextlib.redirect_stdout(io.StringIO())
    with errors_of("torch.onnx.export"), warnings.catch_warnings(), silence:
        warnings.simplefilter("ignore")  # of the exporter's own making
        program = torch.onnx.export(
            module, tuple(inputs), dynamo=True, verbose=False, dynamic_shapes=shapes
        )
        return program.model_proto.SerializeToString()  # type: ignore[union-attr,no-any-return]


class _Wrapped(torch.nn.Module):
    """The exporter takes nothing but modules; this one takes its inputs as a list of any length."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function  # a module is thereby a part of this one

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Bound:
    """A session with the memory that it reads and writes; a call runs it.

    Inputs are bound as they lie in memory where that is row by row, and copied once where not: ONNX
    knows no strides. Outputs go into tensors of torch's, made before the first run.
    """

    def __init__(self, session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> None:
        wanted, given = session.get_inputs(), session.get_outputs()
        if len(wanted) != len(inputs) or len(given) != len(expected):
            raise BackendError(
                f"the exported model has {len(wanted)} inputs and {len(given)} outputs "
                f"in place of {len(inputs)} and {len(expected)}"
            )
        self.run = session.run_with_iobinding
        self.binding = session.io_binding()
        # The binding has their addresses alone, so they must live as long as it.
        self._inputs = [tensor.detach().contiguous() for tensor in inputs]
        self.outputs = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in expected]
        for slot, tensor in zip(wanted, self._inputs):
            self.binding.bind_input(slot.name, *_where(tensor))
        for slot, tensor in zip(given, self.outputs):
            self.binding.bind_output(slot.name, *_where(tensor))

    def __call__(self) -> None:
        self.run(self.binding)


_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}


def _where(tensor: Any) -> Tuple[str, int, int, List[int], int]:
    """What a binding is told of a tensor: device and its number, type, shape, address."""
    name = str(tensor.dtype).replace("torch.", "")
    types = importlib.import_module("onnx").TensorProto
    element = getattr(types, _NAMES.get(name, name.upper()), None)
    if element is None:
        raise BackendError(f"ONNX has no elements of type {name}")
    return "cpu", 0, element, list(tensor.shape), tensor.data_ptr()
