"""`Capture`: record the calls that are made inside of it, and then leave everything as it was.

With a path, the file has all calls after each step. If the file cannot be written (a full disk, for
example), the training continues, the record in memory stays complete, and a warning comes at the
end.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode,
    _push_mode,
)

from torchmark.capture.calls import CallMode
from torchmark.capture.compiled_graphs import CompiledGraphs
from torchmark.capture.hooks import Hooks
from torchmark.capture.labels import Labels, ModuleNames
from torchmark.capture.record import (
    Record,
    RecordWriter,
    StepEnds,
    require_safetensors,
    save_contents,
)
from torchmark.capture.traces.exact_values import values_file
from torchmark.capture.traces.files import clear_errors
from torchmark.capture.user_program import watch_processes, watch_threads
from torchmark.errors import CaptureError, InvalidArgumentError, TraceWriteError
from torchmark.files import replacing
from torchmark.model.trace import Trace

STEPS_WITH_FUNCTIONS = 3
"""Steps in which each call's function and line are looked up; later steps repeat them."""

_running: Capture | None = None


class Capture:
    """Records every dispatcher call of forward, backward and optimizer.

    >>> import torch
    >>> import torchmark
    >>> with torchmark.Capture() as trace:
    ...     product = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> [call.op for call in trace.trace().calls]
    ['aten.ones.default', 'aten.ones.default', 'aten.mm.default']

    A step ends when the optimizer steps, or where you call `step()`. With a `path`, the trace is
    written after each step, so a program that is killed loses only its last step. After `steps`
    steps the capture ends, and the program continues at its normal speed. The next ten steps are
    timed: `trace.trace().plain_steps` has the times of these real steps. `values` keeps the
    contents of tensors in a safetensors file next to the trace, once for each distinct call.
    `command` is the command line in the header of the trace (default: `sys.argv`).
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        steps: int | None = None,
        values: bool = False,
        command: Sequence[str] | None = None,
    ) -> None:
        if steps is not None and steps < 1:
            raise InvalidArgumentError(f"steps must be at least 1, not {steps}")
        self._path = path
        self._steps = steps
        self._values = values
        self._record = Record(command)
        self._ends = StepEnds()
        self._names = ModuleNames()
        self._labels: dict[int, Labels] = {}
        self._modes: list[CallMode] = []
        self._file: RecordWriter | None = None
        self._error: TraceWriteError | None = None
        """Why the file could not be written; it has the steps before that."""

        self._hooks = Hooks(self._record, self._labels, self._optimizer_stepped)
        self._undo = contextlib.ExitStack()
        self._mode: CallMode | None = None
        self._thread = 0
        self._process = 0
        self._is_used = False
        self._is_child = False

    def __enter__(self) -> Capture:
        global _running  # noqa: PLW0603 - one process, one capture
        self._check()
        if self._values:
            require_safetensors()
        if self._path is not None:
            self._file = RecordWriter(self._path, self._record)
            if self._values:  # a file of an older trace must not be taken for this one's
                values_file(self._path).unlink(missing_ok=True)
        self._is_used = True
        self._thread = threading.get_ident()
        self._process = os.getpid()
        _running = self
        try:
            self._start()
        except BaseException:
            self._stop()
            _running = None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        global _running  # noqa: PLW0603 - one process, one capture
        self._stop()
        _running = None
        if self._is_in_child():
            return
        for length in (*self._ends.rest(), None):
            self._end_step(length)
        self._write(RecordWriter.write_end)
        if self._path is not None:
            self._finish_files(self._path)

    def step(self) -> None:
        """End a step here. From now on, optimizers do not end steps."""
        self._ends.by_hand()
        if self._is_complete():
            self._plain_step_ended()
        else:
            self._end_step()

    def trace(self) -> Trace:
        """The trace so far, without the current step."""
        return self._record.as_trace()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace, and with `values` the file with exact values next to it."""
        with self._record.lock:
            with clear_errors(Path(path)), replacing(Path(path)) as part:
                writer = RecordWriter(path, self._record, part=part)
                with writer:
                    writer.write_steps()
                    writer.write_end()
            if self._values:
                save_contents(path, self._record.exact)

    def _write(self, write: Callable[[RecordWriter], None]) -> None:
        """Write to the file. An error must not end the training, so it is kept for the end."""
        if self._file is None or self._error is not None:
            return
        try:
            write(self._file)
        except TraceWriteError as error:
            self._error = error
            self._record.note_unseen(f"the rest of the capture in the file ({error})")
            with contextlib.suppress(TraceWriteError):
                self._file.close()

    def _finish_files(self, path: str | os.PathLike[str]) -> None:
        if self._values:
            try:
                save_contents(path, self._record.exact)
            except TraceWriteError as refused:
                self._error = self._error or refused
        if self._error is not None:
            warnings.warn(f"torchmark: {self._error}", stacklevel=3)

    def _check(self) -> None:
        if _running is not None:
            raise CaptureError(
                "a capture is already running, and a second one would record the same calls "
                "again; leave the first one, then start the next"
            )
        if self._is_used:
            raise CaptureError("this Capture was used before; create a new one")
        if not hasattr(TorchDispatchMode, "ignore_compile_internals"):
            raise CaptureError(
                f"torch {torch.__version__} has no dispatch mode that leaves compiled code alone; "
                "capture with torch 2.13 or newer"
            )

    def _start(self) -> None:
        """Start everything. The mode that records comes last, so that it records none of this."""
        running_before = [
            t.name for t in threading.enumerate() if t is not threading.current_thread()
        ]
        if running_before:
            self._record.note_unseen(
                "the calls of threads that started before the capture "
                f"({', '.join(running_before)})"
            )
        self._hooks.start()
        undo = self._undo
        undo.enter_context(self._hooks.watch_compiled_code())
        undo.enter_context(CompiledGraphs(self._record).watch())
        undo.enter_context(watch_processes(self._record.note_unseen, self._in_child))
        undo.enter_context(watch_threads(self._capture_thread))
        mode = self._new_mode()
        undo.callback(mode.labels.functions.stop)
        mode.labels.functions.start()
        mode.__enter__()  # type: ignore[no-untyped-call]
        self._mode = mode

    def _stop(self) -> None:
        """Stop recording, and remove what can be removed from this thread."""
        for mode in self._modes:
            mode.is_on = False
        if threading.get_ident() == self._thread:  # modes belong to their thread
            self._undo.close()
            self._hooks.stop()
            if self._mode is not None and _get_current_dispatch_mode() is self._mode:
                self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
                self._mode = None

    def _new_mode(self) -> CallMode:
        labels = Labels(len(self._modes), self._record, self._names)
        mode = CallMode(self._record, labels, exact=self._values)
        self._modes.append(mode)
        self._labels[threading.get_ident()] = labels
        return mode

    @contextlib.contextmanager
    def _capture_thread(self) -> Iterator[None]:
        mode = self._new_mode()
        # Not entered: that would change flags of the whole process, which outlive the thread.
        _push_mode(mode)
        mode.labels.functions.start()
        try:
            yield
        finally:
            mode.labels.functions.stop()
            if _get_current_dispatch_mode() is mode:
                _pop_mode()

    def _optimizer_stepped(self, optimizer: torch.optim.Optimizer) -> None:
        with self._record.lock:
            position = len(self._record.sequence)
            lengths = self._ends.optimizer_stepped(id(optimizer), position)
            if lengths and self._is_complete():
                self._plain_step_ended()
            for length in lengths:
                self._end_step(length)

    def _end_step(self, length: int | None = None) -> None:
        with self._record.lock:
            if self._is_complete() or not self._record.end_step(length):
                return
            for mode in self._modes:
                mode.step_ended()
            self._write(RecordWriter.write_steps)
            labels = self._labels.get(threading.get_ident())
            if labels is not None and self._record.total_steps() == STEPS_WITH_FUNCTIONS:
                labels.use_remembered_functions()
            if self._is_complete():
                self._stop()
                self._record.clock.capture_stopped(is_plain=self._mode is None)

    def _plain_step_ended(self) -> None:
        if not self._is_in_child() and self._record.clock.step_ended():
            self._write(RecordWriter.write_plain_steps)

    def _is_complete(self) -> bool:
        return self._steps is not None and self._record.total_steps() >= self._steps

    def _is_in_child(self) -> bool:
        """Whether this process is a fork. Forks after the captured steps are only noticed here."""
        if os.getpid() != self._process and not self._is_child:
            self._in_child()
        return self._is_child

    def _in_child(self) -> None:
        self._is_child = True
        for mode in self._modes:
            mode.is_on = False
        if self._file is not None:
            self._file.leave_to_parent()
