"""The way of seed 003: a pre-hook on every module, and functions rewritten as modules.

`torch.nn.functional` whole and four methods of `Tensor` are wrapped, each call becoming the call of
a new module, which the hook then sees. It is shown inputs of modules and functions, not operator
calls; to set the two side by side, an operator call counts as seen where it is made within a module
without children or a wrapped function, whose inputs the hook was shown. That is generous: all that
an LSTM does within is seen as one call with its inputs.

Unlike the seed this takes its wrappers off again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules import module as modules

from operator_calls.execution_trace import Calls, Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

METHODS = ("repeat", "view", "ne", "cumsum")
"""Of Tensor: "included for now", says the seed."""


class Seen(Listener):
    """Counts operator calls that are made while something hooked runs."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0
        self.calls: Calls = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.running:
            self.calls["forward", func.name()] += 1
        return func(*args, **(kwargs or {}))

    def enter(self, module: nn.Module, _: object) -> None:
        self.running += not any(module.children())

    def leave(self, module: nn.Module, _: object, __: object) -> None:
        self.running -= not any(module.children())


def count_seen(make: Callable[[], Callable[[], object]], warm_up: int) -> Calls:
    """What the seed's hook sees of a step after `warm_up` others: backward calls no module."""
    seen = Seen()
    with _wrapped_functions(), contextlib.ExitStack() as hooks:
        step = make()
        for _ in range(warm_up):
            step()
        for handle in (
            modules.register_module_forward_pre_hook(seen.enter),
            modules.register_module_forward_hook(seen.leave),
        ):
            hooks.callback(handle.remove)
        with seen:
            step()
    return seen.calls


@contextlib.contextmanager
def _wrapped_functions() -> Iterator[None]:
    functions = torch.overrides.get_overridable_functions()[nn.functional]
    owners: list[tuple[Any, str]] = [(nn.functional, function.__name__) for function in functions]
    owners += [(torch.Tensor, name) for name in METHODS]
    with contextlib.ExitStack() as undo:
        for owner, name in owners:
            if not hasattr(owner, name):
                continue  # reached under another name
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, _as_module(getattr(owner, name)))
        yield


def _as_module(function: Callable[..., Any]) -> Callable[..., Any]:
    def forward(_: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        return type(function.__name__, (nn.Module,), {"forward": forward})()(*args, **kwargs)

    return call
