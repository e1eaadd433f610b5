"""Compiled code is left as it is: neither traced with our labels in it, nor compiled once more.

torch.compile guards on hooks of modules and on modes for functions, and would trace them into the
graph. So both are taken away for as long as compiled code runs: torch tells its interpreter that
it begins and ends by one function, and that one is watched. The mode for dispatcher calls stays;
torch itself keeps it out of compilation.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as nn_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchmark.capture.hooks import Hooks

_C_MODULE = torch._C._dynamo.eval_frame
_NAMES = ("set_eval_frame", "_maybe_set_eval_frame")

set_eval_frame = _C_MODULE.set_eval_frame
"""torch's own, whatever stands in its place later."""


@contextlib.contextmanager
def watch_compiled_code(hooks: Hooks) -> Iterator[None]:
    """Tells `hooks` when compiled code begins in a thread, and when it ends."""

    def watched(callback: Any) -> Any:
        prior = set_eval_frame(None)  # or what follows would be compiled as well
        if callback is not None and prior is None:
            hooks.compiled_code_begins()
        elif callback is None and prior is not None:
            hooks.compiled_code_ends()
        if callback is not None:
            set_eval_frame(callback)
        return prior

    # Itself alone: torch would set back what it sets, if that were told to hold below it.
    _skip(watched, what_it_calls=_C_MODULE._FrameAction.DEFAULT)
    has_any_global_hook = nn_module._has_any_global_hook
    # A compiled module warns of hooks like ours; it may warn of the user's.
    nn_module._has_any_global_hook = hooks.are_not_alone
    # The compiler may be imported while this is in place, and would take the name from here.
    _C_MODULE.set_eval_frame = watched
    _replace(set_eval_frame, watched)
    try:
        yield
    finally:
        _C_MODULE.set_eval_frame = set_eval_frame
        _replace(watched, set_eval_frame)
        nn_module._has_any_global_hook = has_any_global_hook


def _replace(old: object, new: object) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("torch._dynamo"):
            for attribute in _NAMES:
                if vars(module).get(attribute) is old:
                    setattr(module, attribute, new)


def never_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """For what runs between two graphs of compiled code, with all that it calls."""
    _skip(function, what_it_calls=_C_MODULE._FrameAction.SKIP)
    return function


def _skip(function: Callable[..., Any], what_it_calls: Any) -> None:
    strategy = _C_MODULE._FrameExecStrategy(_C_MODULE._FrameAction.SKIP, what_it_calls)
    _C_MODULE.set_code_exec_strategy(function.__code__, strategy)
