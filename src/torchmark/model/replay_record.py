"""What a replay leaves: each distinct call of a trace, as every backend executed it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchmark.model.result import Status
    from torchmark.model.trace import RecordedCall


class ReplayMode(enum.Enum):
    """How calls are run again."""

    HOT = "hot"
    """Each distinct call by itself, many times in a row."""

    ORDER = "order"
    """All calls of a step in their order, pass after pass."""


class Backend(enum.Enum):
    """Who executes a call."""

    EAGER = "eager"
    COMPILE = "compile"
    ORT = "ort"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTime:
    """What one call takes."""

    seconds: float
    """The median."""

    low: float
    high: float
    """The ends of its 95 % interval, in seconds."""

    samples: int
    """Blocks of calls that it comes from; in order, calls."""

    doubts: tuple[str, ...] = ()
    """What makes it doubtful, in a word or two each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of one distinct call with one backend."""

    backend: Backend
    status: Status
    """FAILED where it could not be replayed, SKIPPED where it was not tried."""

    reason: str = ""
    """Why it is not DONE, for a person; the first line says the most."""

    time: CallTime | None = None
    """None where it was not timed."""

    instructions: float | None = None
    """Of one call; None where they were not counted."""

    prepare_seconds: float | None = None
    """What compiling or exporting took, first run included; None for eager."""

    largest_error: float | None = None
    """The largest difference of an output from eager's; None for eager, and where it says nothing:
    random operators, outputs that are no numbers."""

    remarks: tuple[str, ...] = ()
    """How outputs differ from what was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """How often a call comes from one part of the model."""

    phase: str
    """"forward", "backward", "optimizer" or "unknown"."""

    module: str | None
    """The path of the module; None outside of all modules."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """One distinct call, by all backends."""

    number: int
    """In the trace, from 0."""

    call: RecordedCall
    signature: str
    """Its arguments, short, for a person."""

    count: int
    """How often the trace has it."""

    places: tuple[CallPlace, ...] = ()
    """Where it is called from."""

    flops: int | None = None
    """Floating-point operations of one call; None where nobody knows."""

    by: tuple[Replayed, ...] = ()
    """One for each backend that has come to it."""

    @property
    def phases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.phase for place in self.places))

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.module for each in self.places if each.module is not None))

    def by_backend(self, backend: Backend) -> Replayed | None:
        return next((each for each in self.by if each.backend is backend), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpeeds:
    """What this machine can do at best with so many threads, measured in the same run."""

    small_call_seconds: float
    """What an addition of two tensors of one element takes: nothing but overhead."""

    bytes_per_second: Mapping[int, float]
    """What a copy moves, read and written, by how many bytes it moves in all."""

    flops_per_second: Mapping[str, float]
    """What a large matrix product does, by the type of its elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One call of `torchmark replay`."""

    trace: str
    """The file."""

    started: str
    """When, in UTC, as ISO 8601 with seconds."""

    mode: ReplayMode
    backends: tuple[Backend, ...]
    """Those that were asked for, in that order."""

    calls: tuple[ReplayedCall, ...]
    """All that were asked for; those that nobody came to have no results."""

    steps: int = 1
    """Of the trace, repeats counted."""

    threads: int = 1
    seed: int = 0
    """That inputs were made with."""

    speeds: MachineSpeeds | None = None
    """None where no times were taken, or the measurement of them failed."""

    pass_seconds: CallTime | None = None
    """In order: a whole pass on the clock, which the sum of its calls can be compared with."""

    environment: Mapping[str, Any] = field(default_factory=dict)
    """Where it ran (plain JSON)."""

    unseen: tuple[str, ...] = ()
    """What the trace says that it lacks."""
