"""The suite `overrides`: the cost of overriding torch's functions.

One call on one-element tensors, with seven kinds of input. Every kind computes the same once and
returns the result. So the time in addition to that of a plain Tensor is the cost of the override:
finding it, calling the Python function, and the least that the function can do. An override that
returned None would skip the addition and could cost less than a Tensor.

- The method is `t.add(x)` with a plain Tensor `t`. An object that is not a Tensor does not have
  torch's methods, so it is passed as an argument.
- `F.relu` looks for overrides in Python, with `has_torch_function` and `handle_torch_function`; the
  two other calls do it in C++.
- A subclass that defines `__torch_function__` calls that of Tensor, as torch recommends.
- The subclass with `__torch_dispatch__` is a wrapper, as such classes usually are: it contains the
  tensor that it computes with, so it need not disable dispatch. Its `__torch_function__` is
  disabled, because that is not what is measured there.
- A mode is entered in the setup and never left: only this case runs in its process.
"""

from __future__ import annotations

from torchmark.analyse.overheads import PLAIN
from torchmark.define.grouped import GroupedSetup, GroupedStmts
from torchmark.model.case import joined

SEED_KINDS = (PLAIN, "SubTensor", "WithTorchFunction", "SubWithTorchFunction")
"""The kinds of input in seed 002; the others are additions."""

IMPORTED_BY_DISPATCH = ("torch._dynamo", "torch.distributed.tensor")
"""Modules that the first `__torch_dispatch__` of a process imports with torch 2.13, which takes
seconds."""

_CALLS = {"torch.add": "torch.add(x, y)", "t.add": "t.add(x)", "F.relu": "F.relu(x)"}
"""The measured calls, by label."""

_TENSORS = "t, x, y = torch.ones(1), torch.ones(1), torch.ones(1)"

_SUB_TENSOR = """
class SubTensor(torch.Tensor):
    pass

x, y = x.as_subclass(SubTensor), y.as_subclass(SubTensor)
"""

_WITH_TORCH_FUNCTION = """
class WithTorchFunction:
    def __init__(self, plain):
        self.plain = plain

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [arg.plain if type(arg) is cls else arg for arg in args]
        return func(*args, **(kwargs or {}))

x, y = WithTorchFunction(x), WithTorchFunction(y)
"""

_SUB_WITH_TORCH_FUNCTION = """
class SubWithTorchFunction(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)

x, y = x.as_subclass(SubWithTorchFunction), y.as_subclass(SubWithTorchFunction)
"""

_TORCH_FUNCTION_MODE = """
from torch.overrides import TorchFunctionMode

class PassingOn(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

PassingOn().__enter__()
"""

_TORCH_DISPATCH_MODE = """
from torch.utils._python_dispatch import TorchDispatchMode

class PassingOn(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

PassingOn().__enter__()
"""

_SUB_WITH_TORCH_DISPATCH = """
class SubWithTorchDispatch(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, plain):
        made = torch.Tensor._make_wrapper_subclass(cls, plain.size(), dtype=plain.dtype)
        made.plain = plain
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [arg.plain if type(arg) is cls else arg for arg in args]
        return func(*args, **(kwargs or {}))

x, y = SubWithTorchDispatch(x), SubWithTorchDispatch(y)
"""

_KINDS = {
    PLAIN: "",
    "SubTensor": _SUB_TENSOR,
    "WithTorchFunction": _WITH_TORCH_FUNCTION,
    "SubWithTorchFunction": _SUB_WITH_TORCH_FUNCTION,
    "TorchFunctionMode": _TORCH_FUNCTION_MODE,
    "TorchDispatchMode": _TORCH_DISPATCH_MODE,
    "SubWithTorchDispatch": _SUB_WITH_TORCH_DISPATCH,
}

SETUPS = {kind: joined(_TENSORS, text) for kind, text in _KINDS.items()}
"""The setup for each kind: defines the class, makes a Tensor `t` and inputs `x` and `y`, and enters
the mode."""

SUITE = {
    "overrides": {
        call: {
            kind: GroupedStmts(
                stmt,
                setup=GroupedSetup(
                    joined("import torch.nn.functional as F" if "F." in stmt else "", setup)
                ),
            )
            for kind, setup in SETUPS.items()
        }
        for call, stmt in _CALLS.items()
    }
}
