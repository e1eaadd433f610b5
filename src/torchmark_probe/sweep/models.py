"""The model of a sweep at one point: built from its dimensions, in one dtype, with its inputs.

Whatever the user's code raises becomes a `CaseError` that names the dimensions and their sizes.
"""

import copy
import functools
import inspect
import os
import sys
import types
import warnings
import zlib
from typing import Any, Callable, Dict, List, Sequence, Union

import torch

from torchmark_probe.replay.backends import first_line
from torchmark_probe.sweep.messages import Input

DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp64": torch.float64,
    "int8": torch.float32,  # inputs and results; the weights of some layers are 8 bits
}


class CaseError(Exception):
    """A case that gives no measurement; the message says why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        """failed or skipped."""


def model_in(file: str) -> Any:
    """What the user's file calls `model`; the file is run."""
    name = "torchmark_suite_" + os.path.splitext(os.path.basename(file))[0]
    module = types.ModuleType(name)
    module.__file__ = file
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    sys.modules[name] = module  # dataclasses and inspect look their module up there
    with open(file, "rb") as source:
        exec(compile(source.read(), file, "exec"), vars(module))  # noqa: S102 - it is what is swept
    return vars(module)["model"]


def build_model(model: Any, init: Dict[str, int], inputs: int) -> Callable[..., Any]:
    """The function or module that is called with the inputs.

    A function may be the model itself, or give it back: it is the model if it takes the inputs.
    """
    if isinstance(model, torch.nn.Module):
        return copy.deepcopy(model).eval()
    torch.manual_seed(0)
    try:
        if not inspect.isclass(model) and _takes(model, inputs, init):
            return functools.partial(model, **init) if init else model
        made = model(**init) if _takes(model, 0, init) else model(*init.values())
    except Exception as error:
        raise CaseError(
            "failed",
            "the constructor of {} raised with {}: {}".format(
                getattr(model, "__name__", model), _sizes(init), first_line(error)
            ),
        ) from error
    if not callable(made):
        raise CaseError(
            "failed",
            "{} gave {} with {}, which cannot be called with inputs".format(
                getattr(model, "__name__", model), type(made).__name__, _sizes(init)
            ),
        )
    return made.eval() if isinstance(made, torch.nn.Module) else made


def _takes(model: Any, positional: int, keywords: Dict[str, int]) -> bool:
    try:
        inspect.signature(model).bind(*[None] * positional, **keywords)
    except TypeError:
        return False
    except ValueError:  # a function in C does not say what it takes
        return positional > 0 or not inspect.isclass(model)
    return True


def in_dtype(function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    """The model with its weights in that dtype; a function has none of its own."""
    if not isinstance(function, torch.nn.Module):
        if dtype == "int8":
            raise CaseError("skipped", "a function has no weights that could be quantised to int8")
        return function
    if dtype == "int8":
        return _quantise(function)
    if dtype == "fp32":
        return function.float()
    return copy.deepcopy(function).to(DTYPES[dtype])


class _Holder(torch.nn.Module):
    """A module with one part."""

    def __init__(self, held: torch.nn.Module) -> None:
        super().__init__()
        self.held = held


def _quantise(module: torch.nn.Module) -> torch.nn.Module:
    quantize = getattr(getattr(torch.ao, "quantization", None), "quantize_dynamic", None)
    if quantize is None:
        raise CaseError("skipped", "torch {} has no dynamic quantisation".format(torch.__version__))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of its successor in another package
        try:
            # The parts of a module are replaced, not the module itself, which may be a layer.
            whole = quantize(_Holder(copy.deepcopy(module)), dtype=torch.qint8)
            quantised: torch.nn.Module = whole.held
        except Exception as error:
            raise CaseError("skipped", "dynamic quantisation: " + first_line(error)) from error
    kinds = [[type(part) for part in each.modules()] for each in (module, quantised)]
    if kinds[0] == kinds[1]:
        raise CaseError(
            "skipped",
            "torch's dynamic quantisation has nothing to do here: it covers linear and recurrent "
            "layers and embeddings, and this model has none of them",
        )
    return quantised


def make_inputs(described: Sequence[Input], sizes: Dict[str, int], dtype: str) -> List[Any]:
    """The inputs at this point, the same numbers for every config."""
    names = " ".join("{}={}".format(*each) for each in sorted(sizes.items()))
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
            "failed",
            "the input {} of shape {} cannot be made: {}".format(
                each.dims, shape, first_line(error)
            ),
        ) from error


def _size(dim: Union[str, int], sizes: Dict[str, int]) -> int:
    return sizes[dim] if isinstance(dim, str) else dim


def inputs_text(described: Sequence[Input], sizes: Dict[str, int]) -> str:
    """The inputs for a person: each shape with the names of its dimensions."""
    texts = []
    for each in described:
        named = ["{}={}".format(d, sizes[d]) if isinstance(d, str) else str(d) for d in each.dims]
        texts.append("[{}]".format(", ".join(named)))
    return ", ".join(texts) or "none"


def _sizes(init: Dict[str, int]) -> str:
    return ", ".join("{}={}".format(*each) for each in init.items()) or "no arguments"
