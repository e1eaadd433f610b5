"""A trace: the distinct operator calls of a model, where they came from, and in which order.

The file's form is in docs/trace-format.md. Arguments stay as the tagged JSON that they have there:
this side never needs them as anything else, and the probe makes tensors of them where they run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
"""Of the file's form."""

PHASES = ("forward", "backward", "optimizer", "unknown")
"""Of a training step, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One distinct call: an operator with arguments that look the same."""

    op: str
    """`namespace.name.overload`, as in "aten.add.Tensor"."""

    schema: str | None
    """The operator's schema as torch prints it; None if the source did not have it."""

    args: tuple[Any, ...]
    """Tagged JSON, one for each positional argument."""

    kwargs: Mapping[str, Any]
    """Tagged JSON by the argument's name."""

    outputs: Any = None
    """Tagged JSON of what came back."""

    has_outputs: bool = True
    """Whether the source knew what came back."""

    def to_record(self) -> dict[str, Any]:
        """What stands behind `call` in a line of a trace, and what the probe takes."""
        names = ("op", "schema", "args", "kwargs", *(["outputs"] if self.has_outputs else []))
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where calls come from."""

    phase: str
    """One of PHASES."""

    module: str | None = None
    """The path of the module; "" for the outermost one, None outside of all modules."""

    function: str | None = None
    """What the user called, as "torch.nn.functional.linear"."""

    thread: int = 0
    """0 for the thread that captured."""

    compiled: bool = False
    """Whether the calls are of a graph that torch.compile made kernels of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A sequence of calls, as often as it was repeated without a change."""

    calls: tuple[int, ...]
    """Numbers of calls, in their order."""

    places: tuple[int, ...]
    """The place of each of them."""

    repeats: int = 1


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
    """How often each call came from each place, by their numbers, repeats counted."""

    torch: str | None = None
    """The version of torch that ran the model."""

    python: str | None = None
    command: tuple[str, ...] | None = None
    """What was captured."""

    unseen: tuple[str, ...] = ()
    """Sentences: what could not be captured, and what is missing from a file that was cut off."""

    def counts_by_call(self) -> Counter[int]:
        """How often each call was made, wherever it came from."""
        total: Counter[int] = Counter()
        for (call, _), count in self.counts.items():
            total[call] += count
        return total
