"""A trace: the distinct operator calls of a model, where they came from, and their order.

docs/reference/trace-format.md describes the file format. Arguments stay tagged JSON, because only
the probe needs tensors: it makes them where the calls run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import UNSET, Meta, Struct, structs

VERSION = 1
"""Version of the file format."""

Phase: TypeAlias = Literal["forward", "backward", "optimizer", "unknown"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""Phases of a training step, in their order."""

Size: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""torch stores sizes, strides and counts as signed 64-bit integers."""

Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a file."""

    version: Count
    source: Literal["capture", "cnt", "chakra", "samples"]
    torch: str | None = None
    """The version of torch that ran the model."""

    python: str | None = None
    command: tuple[str, ...] | None = None
    """The command that was captured."""


class RecordedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One distinct call: an operator with its arguments, without the contents of tensors."""

    op: str
    """`namespace.name.overload`, as in "aten.add.Tensor"."""

    schema: str | None = None
    """The operator's schema as torch prints it; None if the source does not have it."""

    args: tuple[Any, ...]
    """Positional arguments as tagged JSON."""

    kwargs: dict[str, Any]
    """Keyword arguments as tagged JSON."""

    outputs: Any = UNSET
    """The outputs as tagged JSON, if the source has them."""

    def to_record(self) -> dict[str, Any]:
        """The value of `call` in a line of a trace; the probe takes the same."""
        return {name: value for name, value in structs.asdict(self).items() if value is not UNSET}


class Place(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where calls come from."""

    phase: Phase

    module: str | None = None
    """The path of the module; "" for the outermost one, None outside of all modules."""

    function: str | None = None
    """The function that the user called, such as "torch.nn.functional.linear"."""

    source: str | None = None
    """The user's line that calls it, such as "train.py:41". A backward call has the line of its
    forward call."""

    thread: Size = 0
    """0 for the thread that captured."""

    compiled: bool = False
    """Whether the calls belong to a graph that torch.compile compiled to kernels."""


class PlainSteps(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times of steps that ran after the capture had stopped, at normal speed."""

    seconds: tuple[Annotated[float, Meta(gt=0)], ...] = ()
    """Seconds of each step, from the end of the previous one; empty if no step followed."""

    running: tuple[Annotated[float, Meta(ge=0)], ...] = ()
    """Seconds of each step in which the thread ran and did not wait for data or for a core."""

    threads: Count
    """Number of torch threads when the capture stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A sequence of calls, and how often it was repeated without a change."""

    calls: tuple[int, ...]
    """The numbers of the calls, in their order."""

    places: tuple[int, ...]
    """The number of the place of each call."""

    repeats: int = 1


def count_calls(steps: Iterable[Step]) -> Counter[tuple[int, int]]:
    """How often each call came from each place, by their numbers; repeats are counted."""
    counts: Counter[tuple[int, int]] = Counter()
    for step in steps:
        for pair, count in Counter(zip(step.calls, step.places, strict=True)).items():
            counts[pair] += count * step.repeats
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The contents of a trace file."""

    source: str
    """"capture", "cnt", "chakra" or "samples"."""

    calls: tuple[RecordedCall, ...]
    places: tuple[Place, ...]

    steps: tuple[Step, ...] = ()
    """Empty if the source does not know the order."""

    counts: Mapping[tuple[int, int], int]
    """As from `count_calls`; includes calls whose order is not known or was not kept."""

    torch: str | None = None
    """The version of torch that ran the model."""

    python: str | None = None
    command: tuple[str, ...] | None = None
    """The command that was captured."""

    plain_steps: PlainSteps | None = None
    """None if the source does not have them."""

    unseen: tuple[str, ...] = ()
    """Phrases for what was not captured, or what a truncated file lacks."""

    values: str = ""
    """Full path of the file with the exact contents of tensors; "" if no call has any."""

    def counts_by_call(self) -> Counter[int]:
        """How often each call was made, from any place."""
        total: Counter[int] = Counter()
        for (call, _), count in self.counts.items():
            total[call] += count
        return total

    def counts_by_phase(self) -> Counter[str]:
        """The number of calls in each phase."""
        total: Counter[str] = Counter()
        for (_, place), count in self.counts.items():
            total[self.places[place].phase] += count
        return total
