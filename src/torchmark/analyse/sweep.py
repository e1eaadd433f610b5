"""Rows of a sweep, derived from its results.

A row says what one case is and what came of it. Its fields are the columns of the CSV, in this
order and by these names: docs/sweep.md has them for people. Seconds are of one run.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.model.result import KernelTimes, Metric, Status, TimeSummary, Timing
from torchmark.model.sweep_point import point_of
from torchmark_probe.loops.intervals import median_interval, quantile_of_sorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.case import Case
    from torchmark.model.result import KernelCalls, Result
    from torchmark.model.run import Run
    from torchmark.model.sweep_point import Dims, Phase


class RowStatus(enum.Enum):
    """What came of a case, in the words of the CSV."""

    MEASURED = "measured"
    SKIPPED = "skipped"
    """The backend cannot run it, and the reason says why."""

    FAILED = "failed"


_STATUSES = {
    Status.DONE: RowStatus.MEASURED,
    Status.SKIPPED: RowStatus.SKIPPED,
    Status.FAILED: RowStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One case."""

    case_id: str
    """Sixteen hexadecimal digits that follow from all that defines the case."""

    model: str
    dims: Dims
    dtype: str
    """fp32, fp16, bf16, fp64 or int8."""

    backend: str
    """pt, compile or ort."""

    phase: Phase
    threads: int

    samples: int = 0
    """Blocks that were timed; the statistics are of them."""

    median_s: float | None = None
    mean_s: float | None = None
    min_s: float | None = None
    p95_s: float | None = None
    std_s: float | None = None
    low_s: float | None = None
    """The 95 % interval of the median, from here."""

    high_s: float | None = None
    """To here."""

    flops: int | None = None
    """Of one run; None where nobody knows."""

    bytes: int | None = None
    """Inputs, parameters and outputs, each once."""

    flop_per_s: float | None = None
    bytes_per_s: float | None = None
    peak_memory_bytes: int | None = None
    """What a run had allocated at most, over what was there before."""

    max_error: float | None = None
    """The largest difference from eager's result in the same dtype."""

    prepare_s: float | None = None
    """The compilation by torch.compile, or the export to ONNX."""

    status: RowStatus = RowStatus.MEASURED
    reason: str = ""
    """Why there is no measurement; of a measured row, why its result is doubtful. One line."""

    environment: str = ""
    """The id of the environment."""


def rows_of(run: Run) -> tuple[SweepRow, ...]:
    """A row for each case that has a result, in the order of the plan."""
    times = {each.case.id: each for each in run.results if each.metric is Metric.TIME}
    planned = [each.case.id for each in run.plan if each.metric is Metric.TIME]
    return tuple(row_of(times[case_id], run) for case_id in planned if case_id in times)


def row_of(result: Result, run: Run) -> SweepRow:
    """The row that a result of the run makes."""
    point, facts = point_of(result.case, run.settings), result.facts
    times = _time_summary(result)
    reason = " ".join(facts.remarks) if result.status is Status.DONE else result.reason
    return SweepRow(
        case_id=result.case.id,
        model=result.case.label[0],
        dims=point.dims,
        dtype=point.dtype,
        backend=point.backend,
        phase=point.phase,
        threads=point.threads,
        samples=times.samples if times else 0,
        median_s=times.median if times else None,
        mean_s=times.mean if times else None,
        min_s=times.least if times else None,
        p95_s=times.p95 if times else None,
        std_s=times.deviation if times else None,
        low_s=times.low if times else None,
        high_s=times.high if times else None,
        flops=facts.flops,
        bytes=facts.bytes,
        flop_per_s=_rate(facts.flops, times),
        bytes_per_s=_rate(facts.bytes, times),
        peak_memory_bytes=facts.peak_memory_bytes,
        max_error=facts.max_error,
        prepare_s=facts.prepare_seconds,
        status=_STATUSES[result.status],
        reason=" ".join(reason.split()),
        environment=run.environment.id,
    )


def kernels_of(run: Run) -> list[tuple[Case, KernelCalls]]:
    """Every kernel of every case whose kernels are known, in the order of the plan."""
    known = {each.case.id: each.payload for each in run.results if each.metric is Metric.PROFILE}
    found = []
    for planned in run.plan:
        payload = known.get(planned.case.id) if planned.metric is Metric.PROFILE else None
        if isinstance(payload, KernelTimes):
            found += [(planned.case, kernel) for kernel in payload.kernels]
    return found


def _time_summary(result: Result) -> TimeSummary | None:
    """The statistics of a result: of its samples, or as they are where only they are known."""
    if isinstance(result.payload, TimeSummary):
        return result.payload
    if not isinstance(result.payload, Timing):
        return None
    times = [
        each.wall[index] / each.number
        for each in result.payload.processes
        for index in each.counted()
    ]
    ordered, mean, interval = sorted(times), math.fsum(times) / len(times), median_interval(times)
    return TimeSummary(
        samples=len(times),
        median=quantile_of_sorted(ordered, 0.5),
        low=max(0.0, interval.low),
        high=interval.high,
        mean=mean,
        least=ordered[0],
        p95=quantile_of_sorted(ordered, 0.95),
        deviation=_deviation(times, mean),
    )


def _deviation(times: Sequence[float], mean: float) -> float:
    """Of a sample: over one less than there are; nothing deviates from itself."""
    if len(times) < 2:
        return 0.0
    return math.sqrt(math.fsum((time - mean) ** 2 for time in times) / (len(times) - 1))


def _rate(amount: int | None, times: TimeSummary | None) -> float | None:
    return amount / times.median if amount is not None and times and times.median > 0 else None
