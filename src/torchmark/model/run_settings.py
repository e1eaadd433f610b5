"""What replays and sweeps store in the settings of their run.

With these settings a run can be resumed, analysed and shown without the trace or specification.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import (
    Iterable,
    Mapping,
)
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from torchmark.model.case import Autograd, Case, Runtime
from torchmark.model.run import Run
from torchmark.model.trace import PlainSteps


class ReplayMode(enum.Enum):
    """How calls are replayed."""

    HOT = "hot"
    """Each distinct call alone, many times in a row."""

    ORDER = "order"
    """All calls of a step in their order, pass after pass."""


class Backend(enum.Enum):
    """The backend that runs a call."""

    EAGER = "eager"
    COMPILE = "compile"
    ORT = "ort"


class CallPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the model that makes a call, and how often."""

    phase: str
    """One of `torchmark.model.trace.PHASES`."""

    module: str | None
    """The path of the module; None outside of all modules."""

    count: int
    function: str | None = None
    """The function that the user called, such as "torch.nn.functional.linear", if known."""

    source: str | None = None
    """The user's line that calls it, such as "train.py:41", if known."""


class TracedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One distinct call of the trace."""

    number: int
    """Its number in the trace, from 0."""

    op: str
    """The operator, such as "aten.add.Tensor"."""

    signature: str
    """Its arguments in short form, to be shown."""

    record: str
    """The call as JSON: the value of `call` in a line of a trace."""

    count: int
    """How often the trace, or the step, has it."""

    places: tuple[CallPlace, ...]
    cases: Mapping[Backend, str]
    """The ID of the case that measures it, for each backend."""

    has_values: bool = False
    """Whether its inputs have the recorded contents."""

    @property
    def phases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.phase for place in self.places))

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.module for each in self.places if each.module is not None))

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.function for each in self.places if each.function))

    @property
    def sources(self) -> tuple[str, ...]:
        """The lines that call it, the most frequent first."""
        found: Counter[str] = Counter()
        for place in self.places:
            if place.source:
                found[place.source] += place.count
        return tuple(source for source, _ in found.most_common())


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a replay, in addition to its plan."""

    trace: str
    """The path of the trace, as the user gave it."""

    mode: ReplayMode
    mode_reason: str = ""
    """Why the mode is hot although the user did not ask for it."""

    backends: tuple[Backend, ...]
    """The requested backends; shares refer to the time of the first."""

    steps: int
    """Number of steps in the trace, repeats included; 1 in mode order."""

    threads: int
    seed: int
    """Seed of the generated inputs."""

    unseen: tuple[str, ...]
    """Phrases for what the trace lacks."""

    calls: tuple[TracedCall, ...]
    top: int = 20
    """Number of calls in text reports, longest first; all other formats show all."""

    order: tuple[int, ...] = ()
    """In mode order: the numbers of the calls in a pass."""

    values: str = ""
    """The file with recorded contents of inputs; "" if there is none."""

    pass_case: str = ""
    """In mode order: the ID of the case that is a whole pass."""

    is_whole: bool = True
    """Whether all calls are replayed, not only those selected with -k."""

    plain_steps: PlainSteps | None = None
    """Times of real steps where the trace was captured; None if the trace has none."""


def settings_of(run: Run) -> ReplaySettings:
    """The settings of a replay."""
    return msgspec.convert(run.settings["replay"], ReplaySettings)


Dims: TypeAlias = tuple[tuple[str, int], ...]
"""The name of each dimension and its size, in the order of `input_scales`."""


THREADS = "threads"
"""The dimension for the number of torch threads, which is not a size of a tensor."""


class Phase(enum.Enum):
    """The passes that one run executes."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward+backward"
    BACKWARD = "backward"
    """Gradients for a fixed output gradient, on a retained graph; nothing accumulates."""


TORCH_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
"""torch's names of the dtypes in which it multiplies matrices."""

_RUNTIMES = {
    "pt": Runtime.EAGER,
    "compile": Runtime.COMPILED,
    "compile-static": Runtime.COMPILED,
}
"""By backend; all others are explicit."""

_AUTOGRAD = {
    Phase.FORWARD: Autograd.FORWARD,
    Phase.FORWARD_BACKWARD: Autograd.FORWARD_BACKWARD,
    Phase.BACKWARD: Autograd.EXPLICIT,
}
_PHASES = {autograd: phase for phase, autograd in _AUTOGRAD.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """The parameters of one case of a sweep."""

    dims: Dims
    dtype: str
    """fp32, fp16, bf16, fp64 or int8."""

    backend: str
    """pt, compile, compile-static or ort."""

    phase: Phase
    threads: int


def case_of(point: SweepPoint, *, model: str, stmt: str, setup: str) -> Case:
    """The case of a point; `stmt` and `setup` show the model and are the same for all points."""
    params = [("dtype", point.dtype), ("backend", point.backend)]
    params += [("phase", point.phase.value)] if point.phase is Phase.BACKWARD else []
    return Case(
        label=(model, dims_text(point.dims)),
        stmt=stmt,
        setup=setup,
        runtime=_RUNTIMES.get(point.backend, Runtime.EXPLICIT),
        autograd=_AUTOGRAD[point.phase],
        num_threads=point.threads,
        params=tuple(params),
    )


def sizes_setting(points: Iterable[tuple[Case, SweepPoint]]) -> dict[str, Any]:
    """The sizes of all cases, as settings of a run that `point_of` reads."""
    found = list(points)
    return {
        "dims": [name for name, _ in found[0][1].dims] if found else [],
        "sizes": {case.id: [size for _, size in point.dims] for case, point in found},
    }


def point_of(case: Case, settings: Mapping[str, Any]) -> SweepPoint:
    """The point of a case, from the settings of its run."""
    params = dict(case.params)
    return SweepPoint(
        dims=tuple(zip(settings["dims"], settings["sizes"][case.id], strict=True)),
        dtype=params["dtype"],
        backend=params["backend"],
        phase=_PHASES[case.autograd],
        threads=case.num_threads,
    )


def dims_text(dims: Dims, names: Iterable[str] | None = None) -> str:
    """
    >>> dims = (("batch", 8), ("width", 64))
    >>> dims_text(dims), dims_text(dims, ["width"])
    ('batch=8 width=64', 'width=64')
    """
    wanted = [name for name, _ in dims] if names is None else list(names)
    return " ".join(f"{name}={size}" for name, size in dims if name in wanted)
