"""What a replay was asked for and what it took from its trace: the settings of a run of that kind.

With these a run is resumed, analysed and shown when the trace is gone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from torchmark.model.run import Run


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


class CallPlace(msgspec.Struct, frozen=True, kw_only=True):
    """How often a call comes from one part of the model."""

    phase: str
    """"forward", "backward", "optimizer" or "unknown"."""

    module: str | None
    """The path of the module; None outside of all modules."""

    count: int


class TracedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One distinct call of the trace."""

    number: int
    """In the trace, from 0."""

    op: str
    """As in "aten.add.Tensor"."""

    signature: str
    """Its arguments, short, for a person."""

    record: str
    """The call as JSON: what stands behind `call` in a line of a trace."""

    count: int
    """How often the trace, or the step, has it."""

    places: tuple[CallPlace, ...]
    """Where it is called from."""

    cases: Mapping[Backend, str]
    """The id of the case that measures it, for each backend."""

    @property
    def phases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.phase for place in self.places))

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.module for each in self.places if each.module is not None))


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a replay needs beside its plan."""

    trace: str
    """The file, as it was named."""

    mode: ReplayMode
    backends: tuple[Backend, ...]
    """Those that were asked for; shares are of the first one's time."""

    steps: int
    """Of the trace, repeats counted; 1 in order."""

    threads: int
    seed: int
    """That inputs are made with."""

    unseen: tuple[str, ...]
    """What the trace says that it lacks."""

    calls: tuple[TracedCall, ...]
    """All that were asked for."""

    top: int = 20
    """Calls that text shows, those that take the most; all other formats have all."""

    order: tuple[int, ...] = ()
    """In order: the numbers of the calls of a pass."""

    pass_case: str = ""
    """In order: the id of the case that is a whole pass."""


def settings_of(run: Run) -> ReplaySettings:
    """The settings of a run that is a replay."""
    return msgspec.convert(run.settings["replay"], ReplaySettings)
