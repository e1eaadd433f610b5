"""A point of a sweep: sizes, dtype, backend, phase and threads, and the case that stands for it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from torchmark.model.case import Autograd, Case, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Dims: TypeAlias = tuple[tuple[str, int], ...]
"""The name of each dimension and its size, in the order of `input_scales`."""


class Phase(enum.Enum):
    """What one run does."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward+backward"
    BACKWARD = "backward"
    """Gradients of a fixed output gradient, on a graph that is kept; nothing accumulates."""


TORCH_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
"""What torch calls the dtypes in which it multiplies matrices."""

_RUNTIMES = {"pt": Runtime.EAGER, "compile": Runtime.COMPILED}
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
    """pt, compile or ort."""

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
