"""Made-up sweeps: runs whose times follow from the sizes, so that a person can check them."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from torchmark.analyse.sweep import SweepRow, rows_of
from torchmark.model.result import Facts, Metric, PlannedResult, Result, Status, TimeSummary
from torchmark.model.run import Environment, Run, RunKind, RunState
from torchmark.model.run_settings import Phase, SweepPoint, case_of, sizes_setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchmark.model.case import Case
    from torchmark.model.run import MachineSpeeds

    Made = tuple[Case, SweepPoint, Result]
    """A case of a made-up sweep, and what came of it."""

_SPEEDS = {"pt": 1.0, "compile": 1.6, "ort": 2.5}
"""Times as fast as eager, once the overhead is small."""

_OVERHEADS = {"pt": 2e-6, "compile": 9e-6, "ort": 4e-6}
_DTYPES = {"fp32": 1.0, "fp16": 3.0, "bf16": 2.0, "fp64": 2.1, "int8": 0.6}
_PHASES = {Phase.FORWARD: 1.0, Phase.FORWARD_BACKWARD: 3.0, Phase.BACKWARD: 2.0}

ENVIRONMENT = Environment(facts={"torch": {"version": "2.13.0"}, "machine": {"cpu": "Fast One"}})


def result(
    *,
    model: str = "Linear",
    dims: tuple[tuple[str, int], ...] = (("batch", 8),),
    dtype: str = "fp32",
    backend: str = "pt",
    phase: Phase = Phase.FORWARD,
    threads: int = 1,
    status: Status = Status.DONE,
    reason: str = "",
    median: float = 1e-5,
    low: float | None = None,
    high: float | None = None,
    **facts: Any,
) -> Made:
    """A case with its result; the figures that follow from the median are filled in."""
    point = SweepPoint(dims=dims, dtype=dtype, backend=backend, phase=phase, threads=threads)
    case = case_of(point, model=model, stmt=f"{model}()", setup=f"class {model}: ...")
    times = TimeSummary(
        samples=40,
        median=median,
        low=median * 0.99 if low is None else low,
        high=median * 1.02 if high is None else high,
        mean=median * 1.01,
        least=median * 0.98,
        p95=median * 1.05,
        deviation=median * 0.02,
    )
    is_done = status is Status.DONE
    known = {"peak_memory_bytes": 4096, **facts} if is_done else {}
    remarks = (reason,) if is_done and reason else ()
    return case, point, Result(
        case=case,
        metric=Metric.TIME,
        status=status,
        finished="2026-11-17T12:00:00+00:00",
        reason="" if is_done else reason,
        payload=times if is_done else None,
        facts=Facts(**known, remarks=remarks),
    )  # fmt: skip


def skipped(reason: str = "ONNX Runtime has no gradients", **fields: Any) -> Made:
    return result(**{"status": Status.SKIPPED, "reason": reason, "backend": "ort", **fields})


def failed(reason: str = "RuntimeError: mat1 and mat2 do not fit", **fields: Any) -> Made:
    return result(**{"status": Status.FAILED, "reason": reason, **fields})


def sweep(
    scales: Mapping[str, Sequence[int]],
    *,
    dtypes: Sequence[str] = ("fp32",),
    backends: Sequence[str] = ("pt", "compile", "ort"),
    phases: Sequence[Phase] = (Phase.FORWARD,),
    **fields: Any,
) -> list[Made]:
    """All points; ONNX Runtime has no gradients, so its results of other phases say so."""
    found = []
    for sizes in itertools.product(*scales.values()):
        dims = tuple(zip(scales, sizes, strict=True))
        for dtype, backend, phase in itertools.product(dtypes, backends, phases):
            one = {"dims": dims, "dtype": dtype, "backend": backend, "phase": phase, **fields}
            if backend == "ort" and phase is not Phase.FORWARD:
                found.append(skipped(**one))
                continue
            work = math.prod(sizes)
            seconds = _OVERHEADS[backend] + work * 1e-9 / _SPEEDS[backend] * _DTYPES[dtype]
            found.append(
                result(
                    median=seconds * _PHASES[phase],
                    flops=int(2 * work * 32 * _PHASES[phase]),
                    bytes=4 * (work + sum(sizes) * 32),
                    max_error=None if backend == "pt" else 1.2e-7,
                    prepare_seconds=None if backend == "pt" else 1.5,
                    **one,
                )
            )
    return found


def run_of(
    made: Iterable[Made], *, speeds: MachineSpeeds | None = None, kernels: Iterable[Result] = ()
) -> Run:
    """The run that has these results."""
    found = list(made)
    also = list(kernels)
    planned = [PlannedResult(case=case, metric=Metric.TIME) for case, _, _ in found]
    planned += [PlannedResult(case=each.case, metric=each.metric) for each in also]
    return Run(
        id="20261117-120000-abc123",
        kind=RunKind.SWEEP,
        started="2026-11-17T12:00:00+00:00",
        state=RunState.FINISHED,
        plan=tuple(planned),
        environments=(ENVIRONMENT,),
        settings=sizes_setting((case, point) for case, point, _ in found),
        speeds=speeds,
        results=(*(result for _, _, result in found), *also),
    )


def rows(made: Iterable[Made]) -> list[SweepRow]:
    """The rows of these results; they may have different dimensions."""
    return [row for each in made for row in rows_of(run_of([each]))]


LARGE = sweep(
    {"batch": (1, 8, 64, 512), "features": (64, 256, 1024, 4096), "heads": (4, 8, 12)},
    dtypes=("fp32", "fp16", "bf16"),
    phases=tuple(Phase),
)
"""As much as a picture has to cope with: 3 dtypes x 3 backends x 3 phases, three dimensions."""
