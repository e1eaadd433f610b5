"""The trace's file while a capture goes on, and the file with exact contents beside it.

After each step all of it is in the file. A disk that is full costs the file and not the training:
the reason is kept for the end, and the record in memory stays whole.
"""

from __future__ import annotations

import contextlib
import platform
import sys
from typing import TYPE_CHECKING

import torch

from torchmark.capture.traces.writing import TraceWriter, contents_path
from torchmark.errors import MissingToolError, TraceWriteError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from torchmark.capture.record import Record


class TraceFile:
    """Written along with the record."""

    def __init__(self, path: str | os.PathLike[str], record: Record) -> None:
        self._record = record
        self._writer = TraceWriter(path)
        self._calls = 0
        self._places = 0
        self.error: TraceWriteError | None = None
        """What kept it from being written; the steps before that are in the file."""

        self._writer.header(
            source="capture",
            torch=torch.__version__,
            python=platform.python_version(),
            command=sys.argv,
        )
        self._writer.flush()

    def step_ended(self) -> None:
        """Writes the record's last step."""
        self._guard(self._write_step)

    def end(self) -> None:
        self._guard(self._write_end)

    def leave_to_parent(self) -> None:
        """In a forked process: nothing that is left in here may reach the file."""
        self._writer.leave_to_parent()

    def _guard(self, write: Callable[[], None]) -> None:
        if self.error is not None:
            return
        try:
            write()
        except TraceWriteError as error:
            self.error = error
            self._record.note_unseen(f"{error}: what came after is missing from that file")
            with contextlib.suppress(TraceWriteError):
                self._writer.close()

    def _write_step(self) -> None:
        record, writer = self._record, self._writer
        step = record.steps[-1]
        for call in record.calls[self._calls :]:
            self._calls = writer.call(call) + 1
        for place in record.places[self._places :]:
            self._places = writer.place(place) + 1
        if step.repeats > 1:
            writer.again()
        else:
            writer.step(*record.calls_and_places(step.pairs))
        writer.flush()

    def _write_end(self) -> None:
        record = self._record
        self._writer.end(
            calls=record.total_calls(), steps=record.total_steps(), unseen=record.unseen()
        )
        self._writer.close()


def require_safetensors() -> None:
    """Before anything runs: hours of training must not end without their values."""
    try:
        import safetensors.torch  # noqa: F401, PLC0415 - an extra of its own
    except ImportError as error:
        raise MissingToolError(
            "exact values are kept in a safetensors file: pip install 'torchmark[capture]', or "
            "capture without values=True"
        ) from error


def save_contents(path: str | os.PathLike[str], contents: dict[str, torch.Tensor]) -> None:
    """Exact contents by name, in the file beside the trace `path`."""
    from safetensors.torch import save_file  # noqa: PLC0415 - an extra of its own

    target = contents_path(path)
    try:
        save_file(contents, target)
    except Exception as error:
        raise TraceWriteError(
            f"the exact values cannot be written to {target}: {error}. Make room or name "
            "another file"
        ) from error
