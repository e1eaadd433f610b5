"""Makes the model of a sweep at one point: built with its dimensions, in one dtype, with inputs.

An exception of the user's code becomes a `CaseError` that names the dimensions and their sizes.

One run is forward, forward and backward, or only backward: a function with its arguments, so that
the timed loop calls it as a user would, without a wrapper. Backward uses `torch.autograd.grad` with
a fixed output gradient, which does not write to `.grad`, so nothing accumulates.
"""

import copy
import functools
import inspect
import os
import sys
import types
import warnings
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple, Union

import torch

from torchmark_probe.replay.backends import compile_function, first_line
from torchmark_probe.replay.tensors import tensors_of
from torchmark_probe.zygote.handlers import UnsupportedError
from torchmark_probe.zygote.lacking import what_is_lacking
from torchmark_probe.zygote.messages import Input

DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp64": torch.float64,
    "int8": torch.float32,  # for inputs and results; the weights of some layers have 8 bits
}

_MOST_COMPILATIONS = 4096
"""Maximum number for one model; torch would stop compiling after eight, and run uncompiled."""

FORWARD = "forward"
FORWARD_BACKWARD = "forward+backward"
BACKWARD = "backward"


class CaseError(Exception):
    """A case failed because of the user's code; the message says why.

    A case that is not possible and is skipped raises `UnsupportedError`.
    """


def model_in(file: str) -> Any:
    """Run the user's file and return its `model`."""
    name = "torchmark_suite_" + os.path.splitext(os.path.basename(file))[0]
    module = types.ModuleType(name)
    module.__file__ = file
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    sys.modules[name] = module  # dataclasses and inspect look up their module there
    with open(file, "rb") as source:
        exec(compile(source.read(), file, "exec"), vars(module))  # noqa: S102 - the user's model
    return vars(module)["model"]


def build_model(model: Any, init: Dict[str, int], inputs: int) -> Callable[..., Any]:
    """Return the function or module that is called with the inputs.

    A function can be the model, if it takes the inputs, or can return the model.
    """
    if isinstance(model, torch.nn.Module):
        return copy.deepcopy(model).eval()
    name = getattr(model, "__name__", model)
    torch.manual_seed(0)
    try:
        if not inspect.isclass(model) and _takes(model, inputs, init):
            return functools.partial(model, **init) if init else model
        made = model(**init) if _takes(model, 0, init) else model(*init.values())
    except Exception as error:
        lacking = what_is_lacking(error)
        if lacking:
            raise UnsupportedError(lacking) from error
        raise CaseError(
            f"the constructor of {name} raised with {_sizes(init)}: {first_line(error)}"
        ) from error
    if not callable(made):
        raise CaseError(
            f"{name} returned {type(made).__name__} with {_sizes(init)}, "
            "which cannot be called with inputs"
        )
    return made.eval() if isinstance(made, torch.nn.Module) else made


def _takes(model: Any, positional: int, keywords: Dict[str, int]) -> bool:
    try:
        inspect.signature(model).bind(*[None] * positional, **keywords)
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        return positional > 0 or not inspect.isclass(model)
    return True


def in_dtype(function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    """Return the model with its weights in that dtype; functions have no weights."""
    if not isinstance(function, torch.nn.Module):
        if dtype == "int8":
            raise UnsupportedError("a function has no weights to quantise to int8")
        return function
    if dtype == "int8":
        return _quantise(function)
    if dtype == "fp32":
        return function.float()
    return copy.deepcopy(function).to(DTYPES[dtype])


def _quantise(module: torch.nn.Module) -> torch.nn.Module:
    quantize = getattr(getattr(torch.ao, "quantization", None), "quantize_dynamic", None)
    if quantize is None:
        raise UnsupportedError(f"torch {torch.__version__} has no dynamic quantisation")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces its successor in another package
        try:
            # Only submodules are replaced, so the module, which may be a layer, is wrapped.
            whole = quantize(torch.nn.Sequential(copy.deepcopy(module)), dtype=torch.qint8)
            quantised: torch.nn.Module = whole[0]
        except Exception as error:
            raise UnsupportedError(f"dynamic quantisation: {first_line(error)}") from error
    kinds = [[type(part) for part in each.modules()] for each in (module, quantised)]
    if kinds[0] == kinds[1]:
        raise UnsupportedError(
            "torch's dynamic quantisation covers only linear layers, recurrent layers and "
            "embeddings, and this model has none"
        )
    return quantised


def compile_model(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
    """Compile the model with torch.compile; it compiles when it is called.

    With dynamic sizes, one compilation serves all sizes, and torch adds others if necessary, such
    as for a size of 1. Otherwise it compiles for each size.
    """
    made = compile_function(function, dynamic=dynamic)
    from torch._dynamo import config  # noqa: PLC0415 - an older torch lacks it

    for name in ("recompile_limit", "cache_size_limit"):  # the older name is still an alias
        if hasattr(config, name):
            setattr(config, name, _MOST_COMPILATIONS)
            break
    _keep_buffers()
    return made


def forget_compilations() -> None:
    """Forget compilations before the next model: torch keeps them by code, not by model."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


def _keep_buffers() -> None:
    """Keep what a compiled backward pass would overwrite, so that it can run again."""
    try:
        from torch._functorch import config  # noqa: PLC0415 - an older torch lacks it
    except ImportError:
        return
    if hasattr(config, "donated_buffer"):
        config.donated_buffer = False


def make_inputs(described: Sequence[Input], sizes: Dict[str, int], dtype: str) -> List[Any]:
    """Make the inputs at this point, with the same numbers for every config."""
    names = " ".join(f"{name}={size}" for name, size in sorted(sizes.items()))
    generator = torch.Generator().manual_seed(zlib.crc32(names.encode()))
    return [_make_input(each, sizes, dtype, generator) for each in described]


def _make_input(each: Input, sizes: Dict[str, int], dtype: str, generator: Any) -> Any:
    shape = [_size(dim, sizes) for dim in each.dims]
    try:
        if each.below is None:
            return torch.randn(shape, generator=generator).to(DTYPES[dtype])
        below = _size(each.below, sizes)
        kind = getattr(torch, each.dtype)
        return torch.randint(0, below, shape, generator=generator, dtype=kind)
    except Exception as error:
        raise CaseError(
            f"the input {each.dims} of shape {shape} cannot be created: {first_line(error)}"
        ) from error


def _size(dim: Union[str, int], sizes: Dict[str, int]) -> int:
    return sizes[dim] if isinstance(dim, str) else dim


def inputs_text(described: Sequence[Input], sizes: Dict[str, int]) -> str:
    """Describe the inputs: each shape with the names of its dimensions."""
    texts = []
    for each in described:
        named = [f"{dim}={sizes[dim]}" if isinstance(dim, str) else str(dim) for dim in each.dims]
        texts.append(f"[{', '.join(named)}]")
    return ", ".join(texts) or "none"


def _sizes(init: Dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in init.items()) or "no arguments"


class Call(NamedTuple):
    """One run. Not a `functools.partial`, because partials merge, and a model may be one."""

    function: Callable[..., Any]
    arguments: Tuple[Any, ...]
    keywords: Dict[str, Any]

    def __call__(self) -> Any:
        return self.function(*self.arguments, **self.keywords)


def call_of_phase(
    phase: str, function: Callable[..., Any], module: Any, inputs: Sequence[Any]
) -> Call:
    """Return the run of this phase; `module` has the parameters of `function`, if any."""
    if phase == FORWARD:
        return Call(function, tuple(inputs), {})
    parameters = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    leaves = [tensor for tensor in [*parameters, *inputs] if tensor.requires_grad]
    if not leaves:
        raise UnsupportedError("no input and no parameter requires a gradient")
    outputs = _with_gradient(function(*inputs))
    if not outputs:
        raise UnsupportedError("no output requires a gradient")
    generator = torch.Generator().manual_seed(1)
    gradients = [torch.randn(each.shape, generator=generator).to(each.dtype) for each in outputs]
    grad = torch.autograd.grad
    if phase == BACKWARD:
        keywords = {"retain_graph": True, "allow_unused": True}
        return Call(grad, (outputs, leaves, gradients), keywords)
    del outputs

    def step(*tensors: Any) -> Any:
        return grad(_with_gradient(function(*tensors)), leaves, gradients, allow_unused=True)

    return Call(step, tuple(inputs), {})


def ready_for(phase: str, inputs: Sequence[Any]) -> List[Any]:
    """Return the inputs, as leaves of a graph if the phase has one."""
    if phase == FORWARD:
        return list(inputs)
    return [
        tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor
        for tensor in inputs
    ]


def _with_gradient(result: Any) -> List[Any]:
    return [tensor for tensor in tensors_of(result) if tensor.requires_grad]
