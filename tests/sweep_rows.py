"""Made-up rows of sweeps: times that follow from the sizes, so that a person can check them."""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import TYPE_CHECKING, Any

from torchmark.model.sweep_record import Phase, RowStatus, SweepRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPEEDS = {"pt": 1.0, "compile": 1.6, "ort": 2.5}
"""Times as fast as eager, once the overhead is small."""

_OVERHEADS = {"pt": 2e-6, "compile": 9e-6, "ort": 4e-6}
_DTYPES = {"fp32": 1.0, "fp16": 3.0, "bf16": 2.0, "fp64": 2.1, "int8": 0.6}
_PHASES = {Phase.FORWARD: 1.0, Phase.FORWARD_BACKWARD: 3.0, Phase.BACKWARD: 2.0}


def row(**fields: Any) -> SweepRow:
    """A measured row; the figures that follow from the median are filled in."""
    given: dict[str, Any] = {
        "model": "Linear",
        "dims": (("batch", 8),),
        "dtype": "fp32",
        "backend": "pt",
        "phase": Phase.FORWARD,
        "threads": 1,
        "status": RowStatus.MEASURED,
        "median_s": 1e-5,
        **fields,
    }
    median = given["median_s"]
    if given["status"] is RowStatus.MEASURED and median is not None:
        figures = {
            "samples": 40,
            "mean_s": median * 1.01,
            "min_s": median * 0.98,
            "p95_s": median * 1.05,
            "std_s": median * 0.02,
            "low_s": median * 0.99,
            "high_s": median * 1.02,
            "peak_memory_bytes": 4096,
        }
        given = {**figures, **given}
        if given.get("flops") and given.get("bytes"):
            speeds = (given["flops"] / median, given["bytes"] / median)
            given = {"flop_per_s": speeds[0], "bytes_per_s": speeds[1], **given}
    else:
        given["median_s"] = None
    identity = (given["model"], given["dims"], given["dtype"], given["backend"], given["phase"])
    return SweepRow(
        **{"case_id": hashlib.sha256(repr(identity).encode()).hexdigest()[:16], **given}
    )


def skipped(reason: str = "ONNX Runtime has no gradients", **fields: Any) -> SweepRow:
    return row(**{"status": RowStatus.SKIPPED, "reason": reason, "backend": "ort", **fields})


def failed(reason: str = "RuntimeError: mat1 and mat2 do not fit", **fields: Any) -> SweepRow:
    return row(**{"status": RowStatus.FAILED, "reason": reason, **fields})


def sweep(
    scales: Mapping[str, Sequence[int]],
    *,
    dtypes: Sequence[str] = ("fp32",),
    backends: Sequence[str] = ("pt", "compile", "ort"),
    phases: Sequence[Phase] = (Phase.FORWARD,),
    **fields: Any,
) -> list[SweepRow]:
    """All points; ONNX Runtime has no gradients, so its rows of other phases say so."""
    rows = []
    for sizes in itertools.product(*scales.values()):
        dims = tuple(zip(scales, sizes, strict=True))
        for dtype, backend, phase in itertools.product(dtypes, backends, phases):
            one = {"dims": dims, "dtype": dtype, "backend": backend, "phase": phase, **fields}
            if backend == "ort" and phase is not Phase.FORWARD:
                rows.append(skipped(**one))
                continue
            work = math.prod(sizes)
            seconds = _OVERHEADS[backend] + work * 1e-9 / _SPEEDS[backend] * _DTYPES[dtype]
            rows.append(
                row(
                    median_s=seconds * _PHASES[phase],
                    flops=int(2 * work * 32 * _PHASES[phase]),
                    bytes=4 * (work + sum(sizes) * 32),
                    max_error=None if backend == "pt" else 1.2e-7,
                    prepare_s=None if backend == "pt" else 1.5,
                    **one,
                )
            )
    return rows


LARGE = sweep(
    {"batch": (1, 8, 64, 512), "features": (64, 256, 1024, 4096), "heads": (4, 8, 12)},
    dtypes=("fp32", "fp16", "bf16"),
    phases=tuple(Phase),
)
"""As much as a picture has to cope with: 3 dtypes x 3 backends x 3 phases, three dimensions."""
