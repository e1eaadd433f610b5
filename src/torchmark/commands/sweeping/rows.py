"""What a worker tells of a case becomes its row, and its result as the store has it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torchmark.engine.measuring import now, spec_of
from torchmark.engine.zygote.conversation import sampling_in
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric, Result, Status
from torchmark.model.sweep_record import RowStatus
from torchmark_probe.loops.intervals import median_interval, quantile_of_sorted

if TYPE_CHECKING:
    from torchmark.define.sweep.points import SweepCase
    from torchmark.model.sweep_record import SweepRow

_OUTCOMES = {
    RowStatus.MEASURED: Status.DONE,
    RowStatus.SKIPPED: Status.SKIPPED,
    RowStatus.FAILED: Status.FAILED,
}


def filled_in(row: SweepRow, told: dict[str, Any], environment: str) -> SweepRow:
    """The row with what the worker told of its case."""
    row = replace(row, environment=environment)
    status = RowStatus(told["status"])
    reason = " ".join(told["reason"].split())
    if status is not RowStatus.MEASURED:
        return replace(row, status=status, reason=reason)
    sampling = sampling_in(told)
    times = [sampling.wall[index] / sampling.number for index in sampling.counted()]
    ordered = sorted(times)
    mean = math.fsum(times) / len(times)
    middle, interval = quantile_of_sorted(ordered, 0.5), median_interval(times)
    return replace(
        row,
        samples=len(times),
        median_s=middle,
        mean_s=mean,
        min_s=ordered[0],
        p95_s=quantile_of_sorted(ordered, 0.95),
        std_s=_deviation(times, mean),
        low_s=max(0.0, interval.low),
        high_s=interval.high,
        flops=told["flops"],
        bytes=told["bytes"],
        flop_per_s=_rate(told["flops"], middle),
        bytes_per_s=_rate(told["bytes"], middle),
        peak_memory_bytes=told["peak_memory_bytes"],
        max_error=told["max_error"],
        prepare_s=told["prepare_s"],
        status=status,
        reason=reason,
    )


def result_of(case: SweepCase, row: SweepRow, told: dict[str, Any] | None) -> Result:
    """The row as the store has it, with its samples where they are known."""
    return Result(
        case=case.case,
        metric=Metric.TIME,
        status=_OUTCOMES[row.status],
        finished=now(),
        reason="" if row.status is RowStatus.MEASURED else row.reason,
        measurement=(
            Measurement.from_sampling(spec_of(case.case), sampling_in(told))
            if told is not None and "sampling" in told
            else None
        ),
        compile_seconds=row.prepare_s if row.backend == "compile" else None,
        sweep=row,
    )


def _deviation(times: list[float], mean: float) -> float:
    """Of a sample: over one less than there are; nothing deviates from itself."""
    if len(times) < 2:
        return 0.0
    return math.sqrt(math.fsum((time - mean) ** 2 for time in times) / (len(times) - 1))


def _rate(amount: int | None, seconds: float) -> float | None:
    return amount / seconds if amount is not None and seconds > 0 else None
