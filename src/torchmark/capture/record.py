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

import platform
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from torchmark.capture.keys import without_floats
from torchmark.model.trace import Place, RecordedCall, Step, Trace

if TYPE_CHECKING:
    from torchmark.capture.describing import CallDescription
    from torchmark.capture.keys import Key

KEPT_FLOATS = 8
"""Distinct calls that differ in floats alone. An optimizer computes new factors in every step; with
all of them kept no two steps would be the same, and a long training would fill the trace."""


class CapturedStep:
    """A sequence of pairs, as often as it came without a change."""

    __slots__ = ("pairs", "repeats")

    def __init__(self, pairs: list[int]) -> None:
        self.pairs = pairs
        self.repeats = 1


class Record:
    """Everything that a trace holds, in memory."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.calls: list[RecordedCall] = []
        self.places: list[Place] = []
        self.pairs: list[tuple[int, int]] = []
        """The numbers of a call and of its place."""

        self.sequence: list[int] = []
        """Numbers of pairs: the step that is going on. The list is never replaced."""

        self.steps: list[CapturedStep] = []
        self.exact: dict[str, torch.Tensor] = {}
        """Contents by name, where they are wanted."""

        self._numbers: dict[Key, int] = {}
        self._pair_numbers: dict[tuple[int, int], int] = {}
        self._families: dict[Key, list[int]] = {}
        self._folded: set[str] = set()
        self._unseen: Counter[str] = Counter()

    def number_of(self, key: Key) -> int | None:
        """The call's number; that of its family's last member where the family is full."""
        number = self._numbers.get(key)
        if number is None and self._families:
            family = self._families.get(without_floats(key), [])
            if len(family) >= KEPT_FLOATS:
                number = family[-1]
                self._folded.add(self.calls[number].op)
        return number

    def add_call(self, key: Key, func: Any, description: CallDescription) -> int:
        with self.lock:
            if (known := self._numbers.get(key)) is not None:
                return known
            number = len(self.calls)
            self.exact |= description.exact_contents(number)
            self.calls.append(
                RecordedCall(
                    op=op_name(func),
                    schema=_schema(func),
                    args=description.args,
                    kwargs=description.kwargs,
                    outputs=description.outputs,
                )
            )
            self._numbers[key] = number
            if float in key:
                self._families.setdefault(without_floats(key), []).append(number)
            return number

    def add_place(self, place: Place) -> int:
        with self.lock:
            self.places.append(place)
            return len(self.places) - 1

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
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        self.note_unseen(f"{{n}} calls of {op_name(func)} could not be described ({reason})")

    def unseen(self) -> list[str]:
        sentences = [said.replace("{n}", str(count)) for said, count in self._unseen.items()]
        if self._folded:
            sentences.append(
                f"{', '.join(sorted(self._folded))} had numbers that change from call to call: "
                f"{KEPT_FLOATS} such calls are kept, those that came later count as the last one"
            )
        return sentences

    def total_steps(self) -> int:
        return sum(step.repeats for step in self.steps)

    def total_calls(self) -> int:
        return sum(step.repeats * len(step.pairs) for step in self.steps)

    def as_trace(self) -> Trace:
        counts: Counter[tuple[int, int]] = Counter()
        for step in self.steps:
            for pair, count in Counter(step.pairs).items():
                counts[self.pairs[pair]] += count * step.repeats
        return Trace(
            source="capture",
            calls=tuple(self.calls),
            places=tuple(self.places),
            steps=tuple(self._step(step) for step in self.steps),
            counts=counts,
            torch=torch.__version__,
            python=platform.python_version(),
            command=tuple(sys.argv),
            unseen=tuple(self.unseen()),
        )

    def _step(self, step: CapturedStep) -> Step:
        calls, places = self.calls_and_places(step.pairs)
        return Step(calls=tuple(calls), places=tuple(places), repeats=step.repeats)

    def calls_and_places(self, pairs: list[int]) -> tuple[list[int], list[int]]:
        both = [self.pairs[pair] for pair in pairs]
        return [call for call, _ in both], [place for _, place in both]


def op_name(func: Any) -> str:
    """`namespace.name.overload`; an operator that takes functions has no overloads."""
    if isinstance(func, torch._ops.OpOverload):
        return str(func)
    return f"{getattr(func, 'namespace', 'higher_order')}.{func.name()}.default"


def _schema(func: Any) -> str | None:
    schema = getattr(func, "_schema", None)
    return None if schema is None else str(schema)


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
