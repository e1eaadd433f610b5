"""Label the calls of one thread with their module, function, source line and phase.

Labels do not decide what is recorded, and a label that cannot be found is null. In the backward
pass, module and line are those of the forward call that created the autograd node. They are found
by the sequence number of the node, since the number of the next node is noted whenever a module is
entered or left and a function is called.

A TorchFunctionMode notes the function that the user called. torch removes the mode from its stack
while it handles a call, so the mode sees the outermost call only. It is removed inside of compiled
code, whose guards count the modes, and inside of optimizers.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from bisect import bisect_right
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode, _get_overridable_functions

from torchmark.capture.known import KnownCalls
from torchmark.capture.record import Record
from torchmark.capture.sources import Source, SourceLines
from torchmark.model.trace import Phase, Place

REMEMBERED_MOVES = 200_000
"""Noted changes of module or line: enough for the graphs of the last steps, some megabytes."""

Where: TypeAlias = tuple[Phase, "str | None", Any, "Source | None"]
"""Phase, module, function and line."""

_pop = torch._C._pop_torch_function_stack
_push = torch._C._push_on_torch_function_stack
_at = torch._C._get_function_stack_at
_depth = torch._C._len_torch_function_stack

_graph_task = torch._C._current_graph_task_id
_node = torch._C._current_autograd_node
_next_node = torch._C._autograd._get_sequence_nr

_BACKWARD = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)

_FAST_WHEN_PLAIN = (
    torch.nn.MultiheadAttention,
    torch.nn.TransformerEncoderLayer,
    torch.nn.TransformerEncoder,
)
"""Modules that use a fused operator in inference, except while a TorchFunctionMode is active."""


class ModuleNames:
    """Paths of modules, relative to the outermost module that was called. Keeps no module alive."""

    def __init__(self) -> None:
        self._paths: dict[tuple[int, int], tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._owners: dict[int, str] = {}

    def path(self, root: torch.nn.Module, parent: str, module: torch.nn.Module) -> str:
        known = self._known(root, module)
        if known is None:
            self._scan(root)
            known = self._known(root, module)
        if known is None:  # a module that the root calls without registering it
            known = ".".join(filter(None, (parent, f"<{type(module).__name__}>")))
            self._paths[id(root), id(module)] = weakref.ref(module), known
        return known

    def owner(self, parameter: object) -> str | None:
        """The path of the module that owns this parameter."""
        return self._owners.get(id(parameter))

    def _known(self, root: torch.nn.Module, module: torch.nn.Module) -> str | None:
        reference, path = self._paths.get((id(root), id(module)), (None, None))
        return path if reference is not None and reference() is module else None

    def _scan(self, root: torch.nn.Module) -> None:
        for path, module in root.named_modules():
            self._paths[id(root), id(module)] = weakref.ref(module), path
            for parameter in module._parameters.values():
                self._owners[id(parameter)] = path


class Labels:
    """The labels of one thread, which the hooks keep up to date."""

    def __init__(self, thread: int, record: Record, names: ModuleNames) -> None:
        self.module: str | None = None
        self.function: Any = None
        self.phase: Phase = "forward"
        self.functions = FunctionLabels(self)
        self._thread = thread
        self._record = record
        self._names = names
        self._lines = SourceLines()
        self._is_asking = True
        """Whether functions and lines are looked up; otherwise those of earlier steps are used."""
        self._stack: list[tuple[torch.nn.Module, str, int, bool]] = []
        self._optimizer: tuple[str, Source | None] | None = None
        self._known: dict[Where, KnownCalls] = {}
        self._function_names: dict[Any, str | None] = {}
        overridable_names()  # torch builds its table now, not during the first step
        self._here: KnownCalls | None = None
        """The calls of the current place outside of the backward pass; None until they are used."""
        self._moves: list[int] = [0]
        self._moved_to: list[tuple[str | None, Source | None]] = [(None, None)]
        self._first_node = 0
        """The sequence number of the first node of the current function, if it creates one."""

    def known_calls(self) -> KnownCalls:
        """The known calls of the place where this thread is now."""
        task = _graph_task()
        if task != -1:
            module, line = self._backward_origin(task)
            return self._known_at(("backward", module, self.function, line))
        here = self._here
        if here is None:
            if self._optimizer is not None:
                function, line = self._optimizer
            else:
                function, line = self.function, None
                if self._is_asking:
                    line = self._lines.here()
                    self._note_move(max(self._first_node, self._moves[-1]), self.module, line)
            here = self._here = self._known_at((self.phase, self.module, function, line))
        return here

    def place_of_graph(self) -> int:
        """The place where compiled code runs now. Its line is always looked up, once per graph."""
        if _graph_task() != -1:
            return self.known_calls().place
        return self._known_at((self.phase, self.module, None, self._lines.here())).place

    def set_function(self, function: Any) -> Any:
        """Set the function that the user calls now, and return the previous one."""
        outer, self.function = self.function, function
        self._here = None
        self._first_node = _next_node()
        return outer

    def use_remembered_functions(self) -> None:
        """From now on, use the functions and lines of earlier steps instead of looking them up.

        A call that comes as expected has those of the expected call. Another call has those of the
        first call in its module that looks the same. The look-up takes half as long as everything
        else that a capture does for a call.
        """
        self.functions.stop()
        self._is_asking = False
        self._move(self.module)  # nodes that are created from now on have no line
        for (phase, module, function, _), known in list(self._known.items()):
            remembered = self._known_at((phase, module, None, None))
            if isinstance(function, str) or known is remembered:  # a step of an optimizer, or done
                continue
            for calls, kept in ((known, remembered), (known.folded, remembered.folded)):
                for key, call in calls.items():
                    call.known = remembered
                    kept.setdefault(key, call)

    def compiled_code_began(self) -> None:
        self.functions.pause()
        self._move(self.module)

    def compiled_code_ended(self) -> None:
        self.functions.resume()
        self._move(self.module)

    def entered(self, module: torch.nn.Module) -> None:
        stack = self._stack
        if stack and stack[0][0] is module:
            # After Ctrl-C, modules are not left. The next call of the outermost module shows that.
            while stack:
                self._pop()
        path = self._names.path(stack[0][0], stack[-1][1], module) if stack else ""
        if not stack:
            self._names.path(module, "", module)
        plain = not module.training and isinstance(module, _FAST_WHEN_PLAIN)
        if plain:
            self.functions.pause()
        stack.append((module, path, _graph_task(), plain))
        self._move(path)

    def left(self, module: torch.nn.Module) -> None:
        stack = self._stack
        if (stack and stack[-1][0] is module) or any(entry[0] is module for entry in stack):
            while self._pop() is not module:
                pass

    def optimizer_began(self, optimizer: torch.optim.Optimizer) -> None:
        if self._optimizer is not None:  # the step before raised
            self.optimizer_ended()
        kind = type(optimizer)
        home = "torch.optim" if kind.__module__.startswith("torch.optim.") else kind.__module__
        self._optimizer = f"{home}.{kind.__qualname__}.step", self._lines.here()
        # An optimizer makes hundreds of small calls on its tensors. The mode would handle each.
        self.functions.pause()
        self._move(self.module)

    def optimizer_ended(self) -> None:
        if self._optimizer is not None:
            self._optimizer = None
            self.functions.resume()
            self._move(self.module)

    def _pop(self) -> torch.nn.Module:
        module, _, _, plain = self._stack.pop()
        if plain:
            self.functions.resume()
        self._move(self._stack[-1][1] if self._stack else None)
        return module

    def _move(self, path: str | None) -> None:
        self._here = None
        self.module = path
        self.phase = "optimizer" if self._optimizer is not None and path is None else "forward"
        self._note_move(_next_node(), path)

    def _note_move(self, node: int, path: str | None, line: Source | None = None) -> None:
        """Note that nodes with this number or a higher one are created here."""
        if node == self._moves[-1]:
            self._moved_to[-1] = path, line
        else:
            self._moves.append(node)
            self._moved_to.append((path, line))
            if len(self._moves) > REMEMBERED_MOVES:
                del self._moves[: REMEMBERED_MOVES // 2]
                del self._moved_to[: REMEMBERED_MOVES // 2]

    def _backward_origin(self, task: int) -> tuple[str | None, Source | None]:
        """The module and the line of the forward call whose gradient is computed."""
        if self._stack and self._stack[-1][2] == task:  # a recomputed forward (checkpointing)
            return self.module, self._lines.here() if self._is_asking else None
        node: Any = _node()
        if node is None:
            return None, None
        number = node._sequence_nr()
        if number >= _next_node():  # the node that accumulates the gradient of a parameter
            return self._names.owner(getattr(node, "variable", None)), None
        return self._moved_to[max(bisect_right(self._moves, number) - 1, 0)]

    def _name_of(self, function: Any) -> str | None:
        name = self._function_names.get(function)
        if name is None and function is not None:
            name = self._function_names[function] = _name(function)
        return name

    def _known_at(self, where: Where) -> KnownCalls:
        known = self._known.get(where)
        if known is None:
            phase, module, function, line = where
            place = Place(
                phase="backward" if function in _BACKWARD else phase,
                module=module,
                function=self._name_of(function),
                source=None if line is None else f"{line[0]}:{line[1]}",
                thread=self._thread,
            )
            known = self._known[where] = KnownCalls(self._record.add_place(place))
        return known


@functools.cache
def overridable_names() -> dict[Any, str]:
    """torch's names of its functions.

    `torch.overrides.resolve_name` reads the same table, and changes the filters of warnings at
    each call.
    """
    return _get_overridable_functions()[1]


def _name(function: Any) -> str | None:
    if function is None or isinstance(function, str):
        return function
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(function)
    with contextlib.suppress(Exception):  # a foreign callable may raise anything
        if (name := overridable_names().get(function)) is not None:
            return name
    home = getattr(function, "__module__", None)
    own = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return f"{home}.{own}" if home else str(own)


class FunctionLabels(TorchFunctionMode):
    """Sets the function in the thread's labels while the function runs."""

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self._labels = labels
        self._paused: list[int | None] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outer = self._labels.set_function(func)
        try:
            return func(*args, **kwargs) if kwargs else func(*args)
        finally:
            self._labels.set_function(outer)

    def start(self) -> None:
        _push(self)

    def stop(self) -> None:
        """Remove the mode from the stack for good, wherever it is."""
        self._paused.clear()
        self._remove()

    def pause(self) -> None:
        self._paused.append(self._remove())

    def resume(self) -> None:
        above = self._paused.pop() if self._paused else None
        if above is not None:
            self._insert(above)

    def _remove(self) -> int | None:
        """Remove the mode; return how many modes were above it, or None if it was not there."""
        stack = [_at(depth) for depth in range(_depth())]
        if not any(mode is self for mode in stack):
            return None
        above = []
        while (mode := _pop()) is not self:
            above.append(mode)
        for mode in reversed(above):
            _push(mode)
        return len(above)

    def _insert(self, above: int) -> None:
        users = [_pop() for _ in range(min(above, _depth()))]
        _push(self)
        for mode in reversed(users):
            _push(mode)
