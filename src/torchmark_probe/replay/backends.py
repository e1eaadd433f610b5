"""Other ways to run a function of torch: torch.compile and ONNX Runtime.

Replays prepare an operator for one size, sweeps prepare a whole model for many. `first_run` does
everything that the backend needs first (compile, export) and returns what a timed loop calls.
"""

import contextlib
import importlib
import io
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import torch

from torchmark_probe.zygote.handlers import UnsupportedError, headline_of

INSTALL = (
    "install it in this environment: pip install 'torchmark[ort]', or onnxruntime, onnx and "
    "onnxscript"
)


class BackendError(UnsupportedError):
    """The backend cannot run this function; the message says why."""


def largest_difference(expected: Sequence[Any], given: Sequence[Any]) -> float:
    """Return the largest difference of elements; infinite for different shapes or a NaN."""
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
    """Return an exception of a compiler on one line; its cause, if there is one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return headline_of(error)


@contextlib.contextmanager
def errors_of(backend: str) -> Iterator[None]:
    """Turn any exception of the backend into a BackendError: they have no common class."""
    try:
        yield
    except UnsupportedError:
        raise
    except Exception as error:
        raise BackendError(f"{backend}: {_without_class(first_line(error))}") from error


def _without_class(headline: str) -> str:
    """Return the message without the class, if it is a sentence that explains enough.

    >>> _without_class("torch.Unsupported: no such kernel"), _without_class("KeyError: 'x'")
    ('no such kernel', "KeyError: 'x'")
    """
    kind, _, said = headline.partition(": ")
    return said if " " in said and " " not in kind else headline


def compile_function(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
    """Compile the function with torch.compile, in one graph; it compiles on the first call."""
    if not hasattr(torch, "compile"):
        raise BackendError(f"torch {torch.__version__} has no torch.compile")
    made: Callable[..., Any] = torch.compile(function, fullgraph=True, dynamic=dynamic)
    return made


class FirstRun(NamedTuple):
    """What a backend prepared, after one run."""

    call: Any
    result: Any
    seconds: float
    """Time of the run, including compiling or exporting."""


def first_run(make: Callable[[], Any], backend: str) -> FirstRun:
    """Make the call and run it once; an exception of a compiler becomes a BackendError."""
    start = time.perf_counter()
    with errors_of(backend):
        call = make()
        result = call()
    return FirstRun(call, result, time.perf_counter() - start)


class OnnxModel:
    """A function exported to ONNX: once for all sizes if that works, otherwise for each size.

    Exports with `torch.onnx.export(dynamo=True)`.
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
        """Return a run on these inputs; `axes` has the axes of each input that may vary."""
        check_onnx_installed()
        if any(axes) and self._dynamic_works:
            try:
                if self._dynamic is None:
                    self._dynamic = self._export(_of_size_two_or_more(inputs, axes), axes)
                return self._bind(self._dynamic, inputs, expected)
            except BackendError:
                self._dynamic_works = self._dynamic is not None  # failed for this size, or for all
        return self._bind(self._export(inputs, ()), inputs, expected)

    def start_profiled_session(self, prefix: str) -> Any:
        """Start another session for the last model; its profiler's file has this prefix."""
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
    """Return example inputs for an export, which would treat a size of 1 as constant."""
    examples = []
    for tensor, dynamic in zip(inputs, axes):
        shape = [
            max(2, size) if axis in dynamic else size for axis, size in enumerate(tensor.shape)
        ]
        examples.append(tensor if shape == list(tensor.shape) else tensor.expand(shape).clone())
    return examples


def start_session(model: bytes, threads: int, profile_prefix: str = "") -> Any:
    """Start a session of ONNX Runtime; with a prefix, its profiler writes a file."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only; warnings are for the authors of models
    if profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    with errors_of("ONNX Runtime"):
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def bind(session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> "Bound":
    """Return the session on these tensors after a first run; outputs are like those expected."""
    with errors_of("ONNX Runtime"):
        run = Bound(session, inputs, expected)
        run()
    return run


def check_onnx_installed() -> None:
    """Raise an error that says what to install if something is missing."""
    for name in ("onnxruntime", "onnx", "onnxscript"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise BackendError(f"{name} cannot be imported ({error}); {INSTALL}") from error


def export_model(
    function: Callable[..., Any], inputs: Sequence[Any], dynamic: Sequence[Dict[int, str]] = ()
) -> bytes:
    """Export the function to ONNX. `dynamic` has the axes of each input that may vary."""
    shapes = None
    if any(dynamic):
        names = {name: torch.export.Dim(name) for axes in dynamic for name in axes.values()}
        each = tuple({axis: names[name] for axis, name in axes.items()} for axes in dynamic)
        shapes = {"inputs": each}
    module = _Wrapped(function).eval()
    silence = contextlib.redirect_stdout(io.StringIO())
    with errors_of("torch.onnx.export"), warnings.catch_warnings(), silence:
        warnings.simplefilter("ignore")  # they come from the exporter itself
        program = torch.onnx.export(
            module, tuple(inputs), dynamo=True, verbose=False, dynamic_shapes=shapes
        )
        return program.model_proto.SerializeToString()  # type: ignore[union-attr,no-any-return]


class _Wrapped(torch.nn.Module):
    """A module for the exporter, which only accepts modules; it takes any number of inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function  # if this is a module, it becomes a submodule

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Bound:
    """A session with the memory that it reads and writes; calling it runs the session.

    Inputs that are contiguous are used directly, and others are copied once, because ONNX has no
    strides. Outputs are written to torch tensors that are created before the first run.
    """

    def __init__(self, session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> None:
        wanted, given = session.get_inputs(), session.get_outputs()
        if len(wanted) != len(inputs) or len(given) != len(expected):
            raise BackendError(
                f"the exported model has {len(wanted)} inputs and {len(given)} outputs "
                f"instead of {len(inputs)} and {len(expected)}"
            )
        self.run = session.run_with_iobinding
        self.binding = session.io_binding()
        # The binding only has their addresses, so they must live as long as it does.
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
    """Return a tensor's description for a binding: device, its number, type, shape, address."""
    name = str(tensor.dtype).replace("torch.", "")
    types = importlib.import_module("onnx").TensorProto
    element = getattr(types, _NAMES.get(name, name.upper()), None)
    if element is None:
        raise BackendError(f"ONNX has no elements of type {name}")
    return "cpu", 0, element, list(tensor.shape), tensor.data_ptr()
