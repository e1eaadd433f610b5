"""The captured calls in memory: distinct calls, places, and the order of the calls.

The order is a list of numbers. Each stands for a pair of a call and its place, because the hot path
can afford no more than appending one number per call. Several threads append to `sequence` without
a lock, since Python does not interrupt an append. Everything else holds the lock.

A step ends when the optimizers have stepped. An iteration may have several optimizers, as that of a
GAN has. So the first step ends after the last optimizer that stepped before one of them steps
again. From then on, a step ends as soon as all of these have stepped. After a call of
`trace.step()`, only further calls of it end steps.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from torchmark.capture.describing import CallDescription
from torchmark.capture.known import Key, without_floats
from torchmark.capture.looks import TensorLooks
from torchmark.capture.step_clock import StepClock
from torchmark.capture.traces.checking import check_names
from torchmark.capture.traces.exact_values import values_file
from torchmark.capture.traces.files import TraceWriter
from torchmark.errors import MissingToolError, TraceWriteError
from torchmark.files import replacing
from torchmark.model.trace import Place, RecordedCall, Step, Trace, count_calls
from torchmark_probe.zygote.handlers import headline_of

KEPT_FLOATS = 8
"""Distinct calls that differ only in floats. An optimizer computes new factors in every step. With
all of them kept, no two steps would be equal, and a long training would fill the trace."""


@dataclass(slots=True)
class CapturedStep:
    """A sequence of pairs, and how often it came in a row."""

    pairs: list[int]
    repeats: int = 1


class Record:
    """Everything that a trace holds, in memory."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self.lock = threading.RLock()
        self.origin: dict[str, Any] = {
            "source": "capture",
            "torch": torch.__version__,
            "python": platform.python_version(),
            "command": tuple(sys.argv if command is None else command),
        }
        """The fields of the trace's header."""

        self.lines: list[bytes] = []
        """The distinct calls, each as a line of the trace. One object per call is less work for
        Python's garbage collector than dozens."""

        self.places: list[Place] = []
        self.pairs: list[tuple[int, int]] = []
        """The numbers of a call and its place."""

        self.sequence: list[int] = []
        """Numbers of pairs in the current step. The list object stays the same."""

        self.steps: list[CapturedStep] = []
        self.clock = StepClock()
        """Times the steps after the captured ones."""

        self.looks = TensorLooks()
        """Shared by all threads, since keys of calls contain them."""

        self.exact: dict[str, torch.Tensor] = {}
        """Exact contents by name, if they are wanted."""

        self._ops: dict[Any, tuple[str, str | None]] = {}
        """Name and schema of each operator, by the operator's part of a key."""
        self._named: set[tuple[str, tuple[str, ...]]] = set()
        """Operators and names of keywords that a trace can have."""
        self._numbers: dict[Key, int] = {}
        self._place_numbers: dict[Place, int] = {}
        self._pair_numbers: dict[tuple[int, int], int] = {}
        self._families: dict[Key, list[int]] = {}
        self._folded: set[str] = set()
        self._unseen: Counter[str] = Counter()
        self._opaque: dict[int, set[str]] = {}
        """Types that a trace cannot hold, by the numbers of the calls that have them."""

    def number_of(self, key: Key) -> int | None:
        """The number of the call, or of the last similar call if KEPT_FLOATS of them are kept."""
        number = self._numbers.get(key)
        if number is None and float in key:
            family = self._families.get(without_floats(key), [])
            if len(family) >= KEPT_FLOATS:
                number = family[-1]
                self._folded.add(self._ops[key[0]][0])
        return number

    def add_call(self, key: Key, func: Any, description: CallDescription) -> int:
        """Add a call, and return its number. Raise a WrongValueError if no trace can name it."""
        with self.lock:
            op, schema = self._ops.get(key[0]) or self._add_op(key[0], func)
            if description.kwargs and (op, names := tuple(description.kwargs)) not in self._named:
                check_names(op, names)
                self._named.add((op, names))
            exact = description.exact_contents(len(self.lines)) if description.has_exact else {}
            call = {
                "op": op,
                "schema": schema,
                "args": description.args,
                "kwargs": description.kwargs,
                "outputs": description.outputs,
            }
            line = msgspec.json.encode({"call": call})
            number = self._numbers.setdefault(key, len(self.lines))
            if number < len(self.lines):  # another thread was first
                return number
            self.lines.append(line)
            self.exact |= exact
            if description.opaque:
                self._opaque[number] = description.opaque
            if float in key:
                self._families.setdefault(without_floats(key), []).append(number)
            return number

    def _add_op(self, call: Any, func: Any) -> tuple[str, str | None]:
        name, schema = op_name(func), getattr(func, "_schema", None)
        check_names(name, ())
        self._ops[call] = name, None if schema is None else str(schema)
        return self._ops[call]

    def add_place(self, place: Place) -> int:
        with self.lock:
            number = self._place_numbers.setdefault(place, len(self.places))
            if number == len(self.places):
                self.places.append(place)
            return number

    def pair_of(self, call: int, place: int) -> int:
        with self.lock:
            number = self._pair_numbers.setdefault((call, place), len(self.pairs))
            if number == len(self.pairs):
                self.pairs.append((call, place))
            return number

    def end_step(self, length: int | None = None) -> bool:
        """End a step after its first `length` calls, or after all. Return False if it is empty."""
        with self.lock:
            # Other threads may append while these calls are removed.
            pairs = self.sequence[:length]
            del self.sequence[: len(pairs)]
            if not pairs:
                return False
            if self.steps and self.steps[-1].pairs == pairs:
                self.steps[-1].repeats += 1
            else:
                self.steps.append(CapturedStep(pairs))
            return True

    def is_kept(self, key: Key) -> bool:
        """Whether this call itself has a number, and not a similar call."""
        return key in self._numbers

    def note_unseen(self, sentence: str) -> None:
        """Note what the trace lacks. `{n}` in the sentence becomes the number of such notes."""
        self._unseen[sentence] += 1

    def note_trouble(self, func: Any, error: Exception) -> None:
        """Note that the recorder failed on a call. The program continues."""
        reason = headline_of(error)
        self.note_unseen(f"{{n}} calls of {op_name(func)} that could not be described ({reason})")

    def unseen(self) -> list[str]:
        sentences = [noted.replace("{n}", str(count)) for noted, count in self._unseen.items()]
        sentences += self._opaque_sentences()
        if self._folded:
            sentences.append(
                f"some floats of {', '.join(sorted(self._folded))}, which change from call to "
                f"call: {KEPT_FLOATS} variants are kept, and later calls count as the last of them"
            )
        return sentences

    def _opaque_sentences(self) -> list[str]:
        counts: Counter[str] = Counter()
        for step in self.steps if self._opaque else ():
            for pair in step.pairs:
                counts.update(
                    dict.fromkeys(self._opaque.get(self.pairs[pair][0], ()), step.repeats)
                )
        return [
            f"{count} calls have a {kind}, which a trace cannot hold: they cannot be replayed"
            for kind, count in sorted(counts.items())
        ]

    def total_steps(self) -> int:
        return sum(step.repeats for step in self.steps)

    def total_calls(self) -> int:
        return sum(step.repeats * len(step.pairs) for step in self.steps)

    def as_trace(self) -> Trace:
        steps = []
        for step in self.steps:
            calls, places = self.calls_and_places(step)
            steps.append(Step(calls=tuple(calls), places=tuple(places), repeats=step.repeats))
        return Trace(
            calls=tuple(map(_recorded_call, self.lines)),
            places=tuple(self.places),
            steps=tuple(steps),
            counts=count_calls(steps),
            plain_steps=self.clock.plain_steps(),
            unseen=tuple(self.unseen()),
            **self.origin,
        )

    def calls_and_places(self, step: CapturedStep) -> tuple[list[int], list[int]]:
        both = [self.pairs[pair] for pair in step.pairs]
        return [call for call, _ in both], [place for _, place in both]


def _recorded_call(line: bytes) -> RecordedCall:
    call = msgspec.json.decode(line)["call"]
    return RecordedCall(**call | {"args": tuple(call["args"])})


def op_name(func: Any) -> str:
    """`namespace.name.overload`. A higher-order operator has no overloads."""
    if isinstance(func, torch._ops.OpOverload):
        return str(func)
    return f"{getattr(func, 'namespace', 'higher_order')}.{func.name()}.default"


class RecordWriter(TraceWriter):
    """Writes the trace of a record to a file, also while the record grows."""

    def __init__(
        self, path: str | os.PathLike[str], record: Record, *, part: Path | None = None
    ) -> None:
        super().__init__(path, part=part)
        self._record = record
        self._calls = 0
        self._places = 0
        self._steps = 0
        self._has_plain_steps = False
        self.header(**record.origin)
        self.flush()

    def write_steps(self) -> None:
        """Write the new steps. If there are none, the last step was repeated."""
        record = self._record
        new_steps = record.steps[self._steps :]
        for line in record.lines[self._calls :]:
            self.line(line)
        for place in record.places[self._places :]:
            self.place(place)
        for step in new_steps:
            self.step(*record.calls_and_places(step), step.repeats)
        if record.steps and not new_steps:
            self.again()
        self._calls, self._places = len(record.lines), len(record.places)
        self._steps = len(record.steps)
        self.flush()

    def write_plain_steps(self) -> None:
        """Write the plain steps, if that was not done. They must not wait for the end."""
        if not self._has_plain_steps:
            self._has_plain_steps = True
            self.plain_steps(self._record.clock.plain_steps())
            self.flush()

    def write_end(self) -> None:
        record = self._record
        self.write_plain_steps()
        self.end(calls=record.total_calls(), steps=record.total_steps(), unseen=record.unseen())
        self.close()


def require_safetensors() -> None:
    """Raise without safetensors, because values could not be written after hours of training."""
    try:
        import safetensors.torch  # noqa: F401, PLC0415 - an optional extra
    except ImportError as error:
        raise MissingToolError(
            "values=True needs safetensors: pip install 'torchmark[capture]', or leave values=True "
            "out"
        ) from error


def save_contents(path: str | os.PathLike[str], contents: dict[str, torch.Tensor]) -> None:
    """Write exact contents by name, next to the trace."""
    from safetensors.torch import save_file  # noqa: PLC0415 - an optional extra

    target = values_file(path)
    try:
        with replacing(target) as part:
            save_file(contents, part)
    except Exception as error:
        raise TraceWriteError(
            f"the exact values cannot be written to {target}: {error}; make room or use another "
            "file"
        ) from error


class StepEnds:
    """Finds where steps end, from the optimizers and where in the sequence they stepped."""

    def __init__(self) -> None:
        self._by_hand = False
        self._stepped: set[int] = set()
        self._cycle: frozenset[int] = frozenset()
        self._last = 0

    def by_hand(self) -> None:
        self._by_hand = True

    def optimizer_stepped(self, optimizer: int, position: int) -> list[int]:
        """The lengths of the steps that end now, of the `position` calls in no step yet."""
        if self._by_hand:
            return []
        lengths = []
        if optimizer in self._stepped:
            lengths.append(self._last)
            position -= self._last
            self._cycle = frozenset(self._stepped)
            self._stepped.clear()
        self._stepped.add(optimizer)
        self._last = position
        if self._cycle and self._stepped >= self._cycle:
            lengths.append(position)
            self._stepped.clear()
        return lengths

    def rest(self) -> list[int]:
        """The length of a first step at the end of the capture, if no second step began."""
        return [self._last] if self._stepped and not self._cycle and not self._by_hand else []
