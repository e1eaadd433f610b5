"""What was captured so far: distinct calls, places, and the order in which they came.

The order is kept as numbers of pairs, a call and its place, because one number a call is what the
hot path can afford. Several threads add to it at once: adding to `sequence` is one operation that
Python does not interrupt, everything else holds the lock.

A step ends with the optimizers, or where the user says so. An iteration may have several
optimizers, as that of a GAN has. The first step ends where the last optimizer had stepped before
one of them steps again; from then on a step ends as soon as all of those have stepped.
`trace.step()` turns this off: from then on the user ends every step.
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
from torchmark.capture.step_clock import StepClock
from torchmark.capture.traces.checking import check_names
from torchmark.capture.traces.exact_values import values_file
from torchmark.capture.traces.files import TraceWriter
from torchmark.errors import MissingToolError, TraceWriteError
from torchmark.files import replacing
from torchmark.model.trace import Place, RecordedCall, Step, Trace, count_calls
from torchmark_probe.zygote.handlers import headline_of

KEPT_FLOATS = 8
"""Distinct calls that differ in floats alone. An optimizer computes new factors in every step; with
all of them kept no two steps would be the same, and a long training would fill the trace."""


@dataclass(slots=True)
class CapturedStep:
    """A sequence of pairs, as often as it came without a change."""

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
        """What the header of a trace says."""

        self.lines: list[bytes] = []
        """The distinct calls, each as a line of a trace: one object, not dozens that Python's
        garbage collector goes through."""

        self.places: list[Place] = []
        self.pairs: list[tuple[int, int]] = []
        """The numbers of a call and of its place."""

        self.sequence: list[int] = []
        """Numbers of pairs: the step that is going on. The list is never replaced."""

        self.steps: list[CapturedStep] = []
        self.clock = StepClock()
        """Of the steps that come after the captured ones."""

        self.exact: dict[str, torch.Tensor] = {}
        """Contents by name, where they are wanted."""

        self._ops: dict[Any, tuple[str, str | None]] = {}
        """Name and schema of each operator, by how it is called in a key."""
        self._numbers: dict[Key, int] = {}
        self._place_numbers: dict[Place, int] = {}
        self._pair_numbers: dict[tuple[int, int], int] = {}
        self._families: dict[Key, list[int]] = {}
        self._folded: set[str] = set()
        self._unseen: Counter[str] = Counter()
        self._opaque: dict[int, set[str]] = {}
        """Numbers of calls with something that no trace can hold, and the types of that."""

    def number_of(self, key: Key) -> int | None:
        """The call's number; that of its family's last member where the family is full."""
        number = self._numbers.get(key)
        if number is None and float in key:
            family = self._families.get(without_floats(key), [])
            if len(family) >= KEPT_FLOATS:
                number = family[-1]
                self._folded.add(self._ops[key[0]][0])
        return number

    def add_call(self, key: Key, func: Any, description: CallDescription) -> int:
        """The number of a call, which is new; a WrongValueError if no trace can name it."""
        with self.lock:
            op, schema = self._ops.get(key[0]) or self._add_op(key[0], func)
            if description.kwargs:
                check_names(op, description.kwargs)
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
        """Makes a step of the first `length` calls, of all without it; none of none."""
        with self.lock:
            # Other threads go on adding behind what is taken here.
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
        """Whether this very call has a number, rather than one of its family."""
        return key in self._numbers

    def note_unseen(self, sentence: str) -> None:
        """Kept once; `{n}` in it stands for how often it was said."""
        self._unseen[sentence] += 1

    def note_trouble(self, func: Any, error: Exception) -> None:
        """The recorder failed on a call: the program goes on, and the trace says so."""
        reason = headline_of(error)
        self.note_unseen(f"{{n}} calls of {op_name(func)} could not be described ({reason})")

    def unseen(self) -> list[str]:
        sentences = [said.replace("{n}", str(count)) for said, count in self._unseen.items()]
        sentences += self._opaque_sentences()
        if self._folded:
            sentences.append(
                f"{', '.join(sorted(self._folded))} had numbers that change from call to call: "
                f"{KEPT_FLOATS} such calls are kept, those that came later count as the last one"
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
    """`namespace.name.overload`; an operator that takes functions has no overloads."""
    if isinstance(func, torch._ops.OpOverload):
        return str(func)
    return f"{getattr(func, 'namespace', 'higher_order')}.{func.name()}.default"


class RecordWriter(TraceWriter):
    """The file of a record's trace; it can be written while the record goes on."""

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
        """The steps that are new; if none is, the last one came again."""
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
        """Once: a file whose training goes on for hours has them by then."""
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
    """Before anything runs: hours of training must not end without their values."""
    try:
        import safetensors.torch  # noqa: F401, PLC0415 - an extra of its own
    except ImportError as error:
        raise MissingToolError(
            "exact values are kept in a safetensors file: pip install 'torchmark[capture]', or "
            "capture without values=True"
        ) from error


def save_contents(path: str | os.PathLike[str], contents: dict[str, torch.Tensor]) -> None:
    """Exact contents by name, next to the trace."""
    from safetensors.torch import save_file  # noqa: PLC0415 - an extra of its own

    target = values_file(path)
    try:
        with replacing(target) as part:
            save_file(contents, part)
    except Exception as error:
        raise TraceWriteError(
            f"the exact values cannot be written to {target}: {error}. Make room or name "
            "another file"
        ) from error


class StepEnds:
    """Told of every optimizer that has stepped, and where that was; says where to cut."""

    def __init__(self) -> None:
        self._by_hand = False
        self._stepped: set[int] = set()
        self._cycle: frozenset[int] = frozenset()
        self._last = 0

    def by_hand(self) -> None:
        self._by_hand = True

    def optimizer_stepped(self, optimizer: int, position: int) -> list[int]:
        """Lengths of the steps that end now, of `position` calls that belong to none yet."""
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
        """At the end: the length of a first step that no second one has shown to be over."""
        return [self._last] if self._stepped and not self._cycle and not self._by_hand else []
