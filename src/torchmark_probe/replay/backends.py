"""Who executes a function of torch: torch itself, torch.compile, or ONNX Runtime.

`prepare` takes a function or a module with tensors for it, does once whatever that backend has to
do before the first run (compile, export), and gives back what a timed loop calls. It is the same
for one operator and for a whole model.
"""

import time
import warnings
from typing import Any, Callable, List, NamedTuple, Sequence

from torchmark_probe.zygote.failures import UnsupportedError

BACKENDS = ("eager", "compile", "ort")


class Prepared(NamedTuple):
    """A function that is ready to be timed."""

    run: Callable[[], Any]
    """One run, without arguments."""

    outputs: List[Any]
    """The tensors that the first run gave, in the order in which they stand in its result."""

    prepare_seconds: float
    """What it took until the first run was over, compiling or exporting included."""


class BackendError(UnsupportedError):
    """The backend cannot execute this function; the message says why."""


def prepare(
    backend: str, function: Callable[..., Any], inputs: Sequence[Any], threads: int
) -> Prepared:
    """The function as that backend executes it, on these tensors, with so many threads."""
    if backend == "eager":
        return _prepare_eager(function, inputs)
    if backend == "compile":
        return _prepare_compiled(function, inputs)
    if backend == "ort":
        # Only here: it is written for packages that few have.
        from torchmark_probe.replay import onnx_backend  # noqa: PLC0415

        return onnx_backend.prepare(function, inputs, threads)
    raise BackendError(
        "there is no backend {!r}; there are {}".format(backend, ", ".join(BACKENDS))
    )


def tensors_of(value: Any) -> List[Any]:
    """The tensors in nested lists, tuples and dictionaries, in their order."""
    import torch  # noqa: PLC0415 - the probe's modules import without it
    from torch.utils._pytree import tree_flatten  # noqa: PLC0415

    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def difference(one: Any, other: Any) -> float:
    """The largest difference of an element of two tensors of one shape.

    It is infinite where only one of the two is a number.
    """
    import torch  # noqa: PLC0415 - the probe's modules import without it

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
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    told = " ".join(lines[: 2 if lines[0].endswith(":") else 1])  # the first may only announce
    return "{}: {}".format(type(error).__name__, told)


def _prepare_eager(function: Callable[..., Any], inputs: Sequence[Any]) -> Prepared:
    start = time.perf_counter()
    outputs = tensors_of(function(*inputs))
    return Prepared(lambda: function(*inputs), outputs, time.perf_counter() - start)


def _prepare_compiled(function: Callable[..., Any], inputs: Sequence[Any]) -> Prepared:
    """One graph for these shapes; where torch.compile would break or compile again it is told."""
    import torch  # noqa: PLC0415 - the probe's modules import without it

    if not hasattr(torch, "compile"):
        raise BackendError("torch {} has no torch.compile".format(torch.__version__))
    from torch._dynamo import config  # noqa: PLC0415

    if hasattr(config, "error_on_recompile"):  # torch 2.0 lacks it
        config.error_on_recompile = True  # for good: it is the timed runs that must not compile
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the compiler's own making
            outputs = tensors_of(compiled(*inputs))
    except Exception as error:
        raise BackendError("torch.compile: {}".format(first_line(error))) from error
    seconds = time.perf_counter() - start
    return Prepared(lambda: compiled(*inputs), outputs, seconds)
