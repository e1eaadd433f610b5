"""The function that the user called, by a TorchFunctionMode that steps aside where it disturbs.

torch takes the mode off its stack while it handles a call, so that what it sees is the outermost
one. It is not there inside of compiled code, whose guards count the modes, nor in optimizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from torchmark.capture.labels import Labels

_pop = torch._C._pop_torch_function_stack
_push = torch._C._push_on_torch_function_stack
_at = torch._C._get_function_stack_at
_depth = torch._C._len_torch_function_stack


class FunctionLabels(TorchFunctionMode):
    """Notes the function in the thread's labels for as long as it runs."""

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self._labels = labels
        self._paused: list[int | None] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outer = self._labels.called(func)
        try:
            return func(*args, **kwargs) if kwargs else func(*args)
        finally:
            self._labels.called(outer)

    def start(self) -> None:
        _push(self)

    def stop(self) -> None:
        """Off the stack, wherever on it, and for good."""
        self._paused.clear()
        self._remove()

    def pause(self) -> None:
        self._paused.append(self._remove())

    def resume(self) -> None:
        above = self._paused.pop() if self._paused else None
        if above is not None:
            self._insert(above)

    def _remove(self) -> int | None:
        """How many modes were above it; None if it was not there."""
        stack = [_at(depth) for depth in range(_depth())]
        if not any(mode is self for mode in stack):
            return None
        above = 0
        while (mode := _pop()) is not self:
            above += 1
        for mode in stack[len(stack) - above :]:
            _push(mode)
        return above

    def _insert(self, above: int) -> None:
        users = [_pop() for _ in range(min(above, _depth()))]
        _push(self)
        for mode in reversed(users):
            _push(mode)
