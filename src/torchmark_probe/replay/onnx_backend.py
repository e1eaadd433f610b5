"""A function of torch, exported to ONNX and run by ONNX Runtime on memory that is bound once."""

import contextlib
import importlib
import io
import time
import warnings
from typing import Any, Callable, Dict, List, Sequence, Tuple

from torchmark_probe.replay.backends import BackendError, Prepared, first_line, tensors_of

INSTALL = "pip install 'torchmark[ort]' (onnxruntime, onnx, onnxscript) into this environment"


def prepare(function: Callable[..., Any], inputs: Sequence[Any], threads: int) -> Prepared:
    """Export with `torch.onnx.export(dynamo=True)`, and bind inputs and outputs.

    Inputs are bound as they lie in memory where that is row by row, and copied once where not: ONNX
    knows no strides. Outputs go into tensors of torch's, made before the first run.
    """
    check_installed()
    start = time.perf_counter()
    expected = tensors_of(function(*[tensor.clone() for tensor in inputs]))
    session = session_of(export_model(function, inputs), threads)
    run = bind(session, inputs, expected)
    return Prepared(run, run.outputs, time.perf_counter() - start)


def session_of(model: bytes, threads: int, profile_prefix: str = "") -> Any:
    """A session of ONNX Runtime's; with a prefix its profiler writes a file of that name."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors; warnings are for those who made the model
    if profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no class in common
        raise BackendError("ONNX Runtime: {}".format(first_line(error))) from error


def bind(session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> "Bound":
    """The session on these tensors, after its first run; outputs are as those expected."""
    try:
        run = Bound(session, inputs, expected)
        run()
    except BackendError:
        raise
    except Exception as error:  # its exceptions have no class in common
        raise BackendError("ONNX Runtime: {}".format(first_line(error))) from error
    return run


def check_installed() -> None:
    """An error that says what to install, unless all of it is there."""
    for name in ("onnxruntime", "onnx", "onnxscript"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise BackendError(
                "{} cannot be imported ({}): {}".format(name, error, INSTALL)
            ) from error


def export_model(
    function: Callable[..., Any], inputs: Sequence[Any], dynamic: Sequence[Dict[int, str]] = ()
) -> bytes:
    """The model in ONNX's form. `dynamic` names the axes of each input that may have any size."""
    import torch  # noqa: PLC0415 - the probe's modules import without it

    shapes = None
    if any(dynamic):
        names = {name: torch.export.Dim(name) for axes in dynamic for name in axes.values()}
        each = tuple({axis: names[name] for axis, name in axes.items()} for axes in dynamic)
        shapes = {"inputs": each}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # of the exporter's own making
            program = torch.onnx.export(
                _module_of(function), tuple(inputs), dynamo=True, verbose=False,
                dynamic_shapes=shapes,
            )  # fmt: skip
            return program.model_proto.SerializeToString()  # type: ignore[union-attr,no-any-return]
    except Exception as error:
        raise BackendError("torch.onnx.export: {}".format(first_line(error))) from error


def _module_of(function: Callable[..., Any]) -> Any:
    """The exporter takes nothing but modules; this one takes its inputs as a list of any length."""
    import torch  # noqa: PLC0415 - the probe's modules import without it

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = function  # a module is thereby a part of this one

        def forward(self, *inputs: Any) -> Any:
            return self.function(*inputs)

    return Wrapped().eval()


class Bound:
    """A session with the memory that it reads and writes; a call runs it."""

    def __init__(self, session: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> None:
        import torch  # noqa: PLC0415 - the probe's modules import without it

        wanted, given = session.get_inputs(), session.get_outputs()
        if len(wanted) != len(inputs) or len(given) != len(expected):
            raise BackendError(
                "the exported model has {} inputs and {} outputs in place of {} and {}".format(
                    len(wanted), len(given), len(inputs), len(expected)
                )
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


def _where(tensor: Any) -> Tuple[str, int, int, List[int], int]:
    """What a binding is told of a tensor: device and its number, type, shape, address."""
    return "cpu", 0, _element(tensor), list(tensor.shape), tensor.data_ptr()


_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}


def _element(tensor: Any) -> int:
    """The number that ONNX has for the type of the elements."""
    name = str(tensor.dtype).replace("torch.", "")
    types = importlib.import_module("onnx").TensorProto
    number = getattr(types, _NAMES.get(name, name.upper()), None)
    if number is None:
        raise BackendError("ONNX has no elements of type {}".format(name))
    return number  # type: ignore[no-any-return]
