"""What replays and sweeps keep in the settings of their run.

With these a run is resumed, analysed and shown when the trace or the specification is gone.
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
    """One of `torchmark.model.trace.PHASES`."""

    module: str | None
    """The path of the module; None outside of all modules."""

    count: int
    function: str | None = None
    """What the user called, as "torch.nn.functional.linear"; None if it is not known."""

    source: str | None = None
    """The user's line that called it, as "train.py:41"; None if it is not known."""


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
    cases: Mapping[Backend, str]
    """The id of the case that measures it, for each backend."""

    has_values: bool = False
    """Whether its inputs have the contents that were recorded."""

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
        """Those that call it most often first."""
        found: Counter[str] = Counter()
        for place in self.places:
            if place.source:
                found[place.source] += place.count
        return tuple(source for source, _ in found.most_common())


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a replay needs beside its plan."""

    trace: str
    """The file, as it was named."""

    mode: ReplayMode
    mode_reason: str = ""
    """Why calls are not in their order, where nobody asked for that."""

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
    top: int = 20
    """Calls that text shows, those that take the most; all other formats have all."""

    order: tuple[int, ...] = ()
    """In order: the numbers of the calls of a pass."""

    values: str = ""
    """The file with recorded contents of inputs; "" if there is none."""

    pass_case: str = ""
    """In order: the id of the case that is a whole pass."""

    is_whole: bool = True
    """Whether all calls are meant, rather than some by their words."""

    plain_steps: PlainSteps | None = None
    """Real steps where the trace was captured; None where the trace does not know them."""


def settings_of(run: Run) -> ReplaySettings:
    """The settings of a run that is a replay."""
    return msgspec.convert(run.settings["replay"], ReplaySettings)


Dims: TypeAlias = tuple[tuple[str, int], ...]
"""The name of each dimension and its size, in the order of `input_scales`."""


THREADS = "threads"
"""The dimension that is no size of a tensor: how many threads torch has."""


class Phase(enum.Enum):
    """What one run does."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward+backward"
    BACKWARD = "backward"
    """Gradients of a fixed output gradient, on a graph that is kept; nothing accumulates."""


TORCH_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
"""What torch calls the dtypes in which it multiplies matrices."""

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
    """What sets one case of a sweep apart from the others."""

    dims: Dims
    dtype: str
    """fp32, fp16, bf16, fp64 or int8."""

    backend: str
    """pt, compile, compile-static or ort."""

    phase: Phase
    threads: int


def case_of(point: SweepPoint, *, model: str, stmt: str, setup: str) -> Case:
    """The case of a point; `stmt` and `setup` are the text of the model, alike for all points."""
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
    """The sizes of all cases as settings of a run, from which `point_of` reads them."""
    found = list(points)
    return {
        "dims": [name for name, _ in found[0][1].dims] if found else [],
        "sizes": {case.id: [size for _, size in point.dims] for case, point in found},
    }


def point_of(case: Case, settings: Mapping[str, Any]) -> SweepPoint:
    """The point that a case of a sweep stands for; the settings are those of its run."""
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
