"""A trace written line by line, as docs/trace-format.md has it.

Nothing is held back: a line goes out when it is known, so a program that is killed leaves all that
came before its last `flush`. What is written is tagged JSON already; nothing here knows torch.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from torchmark.errors import TraceWriteError
from torchmark.model.trace import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchmark.model.trace import Place, RecordedCall, Trace

LONGEST_STEP_LINE = 100_000
"""Calls in one line of a step: a line of about a megabyte, which a reader takes whole."""


class TraceWriter:
    """Writes a trace to `path`, compressed where the name ends in `.gz`.

    The header comes first, a step after its calls and places, the end last. Calls and places are
    numbered by the order in which they are written; `call` and `place` return that number.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._calls = 0
        self._places = 0
        with self._clear_errors():
            self._raw = self.path.open("wb")
        compressed = self.path.name.endswith(".gz")
        # No time and no name inside: the same calls make the same file.
        self._lines: IO[bytes] | gzip.GzipFile = (
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._raw, mtime=0)
            if compressed
            else self._raw
        )

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def header(
        self,
        *,
        source: str,
        torch: str | None = None,
        python: str | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self._line(
            "trace",
            {
                "version": VERSION,
                "source": source,
                "torch": torch,
                "python": python,
                "command": None if command is None else list(command),
            },
        )

    def call(self, call: RecordedCall) -> int:
        body: dict[str, Any] = {
            "op": call.op,
            "schema": call.schema,
            "args": call.args,
            "kwargs": call.kwargs,
        }
        if call.has_outputs:
            body["outputs"] = call.outputs
        self._line("call", body)
        self._calls += 1
        return self._calls - 1

    def place(self, place: Place) -> int:
        body: dict[str, Any] = {
            "phase": place.phase,
            "module": place.module,
            "function": place.function,
            "thread": place.thread,
        }
        if place.compiled:
            body["compiled"] = True
        self._line("place", body)
        self._places += 1
        return self._places - 1

    def step(self, calls: Sequence[int], places: Sequence[int], repeats: int = 1) -> None:
        """One step; a long one in several lines."""
        last = max(len(calls) - 1, 0) // LONGEST_STEP_LINE * LONGEST_STEP_LINE
        for start in range(0, last, LONGEST_STEP_LINE):
            part = slice(start, start + LONGEST_STEP_LINE)
            self.unfinished_step(calls[part], places[part])
        self._line(
            "step",
            {"calls": list(calls[last:]), "places": list(places[last:]), "repeats": repeats},
        )

    def unfinished_step(self, calls: Sequence[int], places: Sequence[int]) -> None:
        """The beginning of a step whose rest follows."""
        self._line("step", {"calls": list(calls), "places": list(places), "more": True})

    def again(self, repeats: int = 1) -> None:
        """The step that was written last came again, so many times."""
        self._line("again", repeats)

    def counts(self, counts: Mapping[tuple[int, int], int]) -> None:
        """How often each call came from each place, where no order is known."""
        self._line("counts", [[call, place, count] for (call, place), count in counts.items()])

    def end(self, *, calls: int, steps: int, unseen: Iterable[str] = ()) -> None:
        self._line("end", {"calls": calls, "steps": steps, "unseen": list(unseen)})

    def flush(self) -> None:
        """What was written so far is in the file, whatever happens to this process."""
        with self._clear_errors():
            self._lines.flush()

    def close(self) -> None:
        try:
            with self._clear_errors():
                self._lines.close()
                self._raw.close()
        except TraceWriteError:
            # A full disk refuses what is left in the buffers once more.
            with contextlib.suppress(OSError):
                self._raw.close()
            raise

    def leave_to_parent(self) -> None:
        """In a forked process: what is still in the buffers here goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._raw.fileno())
        os.close(nowhere)

    def _line(self, kind: str, body: Any) -> None:
        text = json.dumps({kind: body}, separators=(",", ":"), allow_nan=False)
        with self._clear_errors():
            self._lines.write(text.encode() + b"\n")

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TraceWriteError(
                f"the trace {self.path} cannot be written: {error.strerror or error}. "
                "Make room or name another file"
            ) from error


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """All of a trace at once."""
    with TraceWriter(path) as writer:
        writer.header(
            source=trace.source, torch=trace.torch, python=trace.python, command=trace.command
        )
        for call in trace.calls:
            writer.call(call)
        for place in trace.places:
            writer.place(place)
        for step in trace.steps:
            writer.step(step.calls, step.places, step.repeats)
        if not trace.steps:
            writer.counts(trace.counts)
        writer.end(
            calls=sum(trace.counts.values()),
            steps=sum(step.repeats for step in trace.steps),
            unseen=trace.unseen,
        )


def contents_path(path: str | os.PathLike[str]) -> Path:
    """Where the exact contents of a trace's tensors are: beside it.

    >>> contents_path("runs/train.jsonl.gz").as_posix()
    'runs/train.safetensors'
    """
    path = Path(path)
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return path.with_name(f"{name}.safetensors")
