"""The hooks of modules and optimizers that keep the labels of all threads up to date.

Hooks belong to the process, labels to a thread. If a module runs in a thread without labels, the
thread started before the capture: its calls are not recorded, and the trace says so.

The capture must not change compiled code: our labels must not be traced into it, and it must not be
compiled again. torch.compile guards on module hooks and on function modes, and would trace them
into the graph. So both are removed while compiled code runs. torch calls one function when compiled
code begins and when it ends, and this function is wrapped. The mode for dispatcher calls stays:
torch itself keeps it out of compilation.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch.nn.modules import module as nn_module
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from torchmark.capture.calls import EVAL_FRAME, mode_here, set_eval_frame, skip_compilation
from torchmark.capture.user_program import replace_attribute
from torchmark_probe.zygote.handlers import headline_of

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle

    from torchmark.capture.labels import Labels
    from torchmark.capture.record import Record


def _note_errors(hook: Callable[..., None]) -> Callable[..., None]:
    """Decorate a hook so that its errors are noted, because they must not end the training."""

    @functools.wraps(hook)
    def guarded(self: Hooks, *args: Any) -> None:
        try:
            hook(self, *args)
        except Exception as error:
            self._record.note_unseen(f"reliable labels: some may be wrong ({headline_of(error)})")

    return guarded


class Hooks:
    """Global hooks, which are removed while compiled code runs."""

    def __init__(
        self,
        record: Record,
        labels: dict[int, Labels],
        optimizer_stepped: Callable[[torch.optim.Optimizer], None],
    ) -> None:
        self._record = record
        self._labels = labels
        self._optimizer_stepped = optimizer_stepped
        self._compiled = 0
        self._handles: list[RemovableHandle] = []
        self._in_optimizer_hook = False

    def start(self) -> None:
        self.stop()
        self._handles = [
            register_optimizer_step_pre_hook(self._optimizer_begins),
            register_optimizer_step_post_hook(self._optimizer_ends),
            nn_module.register_module_forward_pre_hook(self._entered),
            nn_module.register_module_forward_hook(self._left, always_call=True),
        ]

    def stop(self) -> None:
        """Remove the hooks. May be called again, and while a hook of an optimizer runs.

        torch iterates over the optimizer's hooks then, so these two stay.
        """
        kept = self._handles[:2] if self._in_optimizer_hook else []
        for handle in self._handles[len(kept) :]:
            handle.remove()
        self._handles = kept

    @contextlib.contextmanager
    def watch_compiled_code(self) -> Iterator[None]:
        """Remove the hooks whenever compiled code begins in a thread, until it ends."""

        def watched(callback: Any) -> Any:
            prior = set_eval_frame(None)  # otherwise the next lines would be compiled as well
            if callback is not None and prior is None:
                self._compiled_code_begins()
            elif callback is None and prior is not None:
                self._compiled_code_ends()
            if callback is not None:
                set_eval_frame(callback)
            return prior

        # Skip only this function: with SKIP for what it calls, torch would undo what it sets.
        skip_compilation(watched, what_it_calls=EVAL_FRAME._FrameAction.DEFAULT)
        with (
            # A compiled module warns of global hooks. It should warn of the user's, not of ours.
            replace_attribute(nn_module, "_has_any_global_hook", self._are_not_alone),
            # The compiler may be imported during the capture, and takes the function from here.
            replace_attribute(EVAL_FRAME, "set_eval_frame", watched),
        ):
            _replace_in_compiler(set_eval_frame, watched)
            try:
                yield
            finally:
                _replace_in_compiler(watched, set_eval_frame)

    def _are_not_alone(self) -> bool:
        """Whether modules have global hooks that are not ours."""
        ours = 1 if self._handles else 0
        return bool(
            nn_module._global_backward_pre_hooks
            or nn_module._global_backward_hooks
            or len(nn_module._global_forward_pre_hooks) > ours
            or len(nn_module._global_forward_hooks) > ours
        )

    def _compiled_code_begins(self) -> None:
        if labels := self._labels_here():
            labels.compiled_code_began()
        with self._record.lock:
            self._compiled += 1
            if self._compiled == 1:
                self.stop()

    def _compiled_code_ends(self) -> None:
        with self._record.lock:
            if self._compiled == 0:  # the capture began inside of compiled code
                return
            self._compiled -= 1
            if self._compiled == 0:
                self.start()
        if labels := self._labels_here():
            labels.compiled_code_ended()

    def _labels_here(self) -> Labels | None:
        labels = self._labels.get(threading.get_ident())
        if labels is None and (mode := mode_here()):
            labels = mode.labels
        return labels

    @_note_errors
    def _entered(self, module: torch.nn.Module, _: Any) -> None:
        if labels := self._labels_here():
            labels.entered(module)
        else:
            self._record.note_unseen(
                f"the calls of modules in thread {threading.current_thread().name!r}, which "
                "started before the capture"
            )

    @_note_errors
    def _left(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        if labels := self._labels_here():
            labels.left(module)

    @_note_errors
    def _optimizer_begins(self, optimizer: torch.optim.Optimizer, _: Any, __: Any) -> None:
        if labels := self._labels_here():
            labels.optimizer_began(optimizer)

    @_note_errors
    def _optimizer_ends(self, optimizer: torch.optim.Optimizer, _: Any, __: Any) -> None:
        if labels := self._labels_here():
            labels.optimizer_ended()
            self._in_optimizer_hook = True
            try:
                self._optimizer_stepped(optimizer)
            finally:
                self._in_optimizer_hook = False


def _replace_in_compiler(old: object, new: object) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("torch._dynamo"):
            for attribute in ("set_eval_frame", "_maybe_set_eval_frame"):
                if vars(module).get(attribute) is old:
                    setattr(module, attribute, new)
