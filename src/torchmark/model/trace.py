"""A trace: the distinct operator calls of a model, where they came from, and in which order.

The file's form is in docs/trace-format.md. Arguments stay as the tagged JSON that they have there:
this side never needs them as anything else, and the probe makes tensors of them where they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import UNSET, Meta, Struct, structs

VERSION = 1
"""Of the file's form."""

Phase: TypeAlias = Literal["forward", "backward", "optimizer", "unknown"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""Of a training step, in their order."""

Size: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Sizes, strides and counts are signed numbers of 64 bits everywhere in torch."""

Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a file begins."""

    version: Count
    source: Literal["capture", "cnt", "chakra", "samples"]
    torch: str | None = None
    """The version of torch that ran the model."""

    python: str | None = None
    command: tuple[str, ...] | None = None
    """What was captured."""


class RecordedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One distinct call: an operator with arguments that look the same."""

    op: str
    """`namespace.name.overload`, as in "aten.add.Tensor"."""

    schema: str | None = None
    """The operator's schema as torch prints it; None if the source did not have it."""

    args: tuple[Any, ...]
    """Tagged JSON, one for each positional argument."""

    kwargs: dict[str, Any]
    """Tagged JSON by the argument's name."""

    outputs: Any = UNSET
    """Tagged JSON of what came back, if the source knew that."""

    def to_record(self) -> dict[str, Any]:
        """What stands behind `call` in a line of a trace, and what the probe takes."""
        return {name: value for name, value in structs.asdict(self).items() if value is not UNSET}


class Place(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where calls come from."""

    phase: Phase

    module: str | None = None
    """The path of the module; "" for the outermost one, None outside of all modules."""

    function: str | None = None
    """What the user called, as "torch.nn.functional.linear"."""

    source: str | None = None
    """The user's line that called it, as "train.py:41"; of a backward call that of its forward."""

    thread: Size = 0
    """0 for the thread that captured."""

    compiled: bool = False
    """Whether the calls are of a graph that torch.compile made kernels of."""


class PlainSteps(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Steps that ran when the capture had stopped, which nothing slowed down."""

    seconds: tuple[Annotated[float, Meta(gt=0)], ...] = ()
    """Of each, from the end of the step before it; empty where none followed."""

    running: tuple[Annotated[float, Meta(ge=0)], ...] = ()
    """Of these the seconds in which the thread ran, rather than waited for data or for a core."""

    threads: Count
    """Of torch, when the capture stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A sequence of calls, as often as it was repeated without a change."""

    calls: tuple[int, ...]
    """Numbers of calls, in their order."""

    places: tuple[int, ...]
    """The place of each of them."""

    repeats: int = 1


def count_calls(steps: Iterable[Step]) -> Counter[tuple[int, int]]:
    """How often each call came from each place, by their numbers, repeats counted."""
    counts: Counter[tuple[int, int]] = Counter()
    for step in steps:
        for pair, count in Counter(zip(step.calls, step.places, strict=True)).items():
            counts[pair] += count * step.repeats
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is in the file."""

    source: str
    """"capture", "cnt", "chakra" or "samples"."""

    calls: tuple[RecordedCall, ...]
    places: tuple[Place, ...]

    steps: tuple[Step, ...] = ()
    """Empty where the source knows no order."""

    counts: Mapping[tuple[int, int], int]
    """As of `count_calls`; of more than the steps where no order is known or kept."""

    torch: str | None = None
    """The version of torch that ran the model."""

    python: str | None = None
    command: tuple[str, ...] | None = None
    """What was captured."""

    plain_steps: PlainSteps | None = None
    """None where the source does not know them."""

    unseen: tuple[str, ...] = ()
    """Sentences: what could not be captured, and what is missing from a file that was cut off."""

    values: str = ""
    """The file with the exact contents of tensors, by its full path; "" if no call has any."""

    def counts_by_call(self) -> Counter[int]:
        """How often each call was made, wherever it came from."""
        total: Counter[int] = Counter()
        for (call, _), count in self.counts.items():
            total[call] += count
        return total

    def counts_by_phase(self) -> Counter[str]:
        """How many calls each phase made."""
        total: Counter[str] = Counter()
        for (_, place), count in self.counts.items():
            total[self.places[place].phase] += count
        return total
