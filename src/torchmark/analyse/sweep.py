"""Rows of a sweep, derived from its results, and what tables and charts need.

A row describes one case and its result. Its fields are the columns of the CSV, in this order and
with these names; docs/guides/sweep-sizes.md explains them. Seconds are for one run.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from torchmark.analyse.estimates import time_of
from torchmark.model.case import Case
from torchmark.model.result import KernelCalls, KernelTimes, Metric, Result, Status, TimeSummary
from torchmark.model.result_warnings import kinds_text
from torchmark.model.run import Run
from torchmark.model.run_settings import THREADS, Dims, Phase, dims_text, point_of
from torchmark.model.units import collect, first_line, ordered_unique

EAGER = "pt"
"""The backend that the others are compared with."""

FIRST_BACKENDS = (EAGER, "compile", "ort", "compile-static")
"""Backends with a fixed order, and so a fixed colour, in all sweeps."""


class RowStatus(enum.Enum):
    """The status of a case, as in the CSV."""

    MEASURED = "measured"
    SKIPPED = "skipped"
    """The backend cannot run the case; the reason says why."""

    FAILED = "failed"


class Config(NamedTuple):
    """Backend and dtype: one line of a chart within a phase."""

    backend: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.backend} {self.dtype}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One case."""

    case_id: str
    model: str
    dims: Dims
    dtype: str
    """fp32, fp16, bf16, fp64 or int8."""

    backend: str
    """pt, compile, compile-static or ort."""

    phase: Phase
    threads: int

    samples: int = 0
    """Number of timed blocks that the statistics are computed from."""

    median_s: float | None = None
    mean_s: float | None = None
    min_s: float | None = None
    p95_s: float | None = None
    std_s: float | None = None
    low_s: float | None = None
    """Lower end of the 95 % interval of the median."""

    high_s: float | None = None
    """Upper end of the 95 % interval of the median."""

    flops: int | None = None
    """Floating-point operations of one run; None if not known."""

    bytes: int | None = None
    """Bytes of inputs, parameters and outputs, each counted once."""

    flop_per_s: float | None = None
    bytes_per_s: float | None = None
    peak_memory_bytes: int | None = None
    """Peak memory that a run allocated, without what was allocated before."""

    max_error: float | None = None
    """Largest difference from the eager result in the same dtype."""

    prepare_s: float | None = None
    """Seconds to compile with torch.compile, or to export to ONNX."""

    status: RowStatus = RowStatus.MEASURED
    reason: str = ""
    """Why there is no measurement, or why a measured result is doubtful. One line."""

    environment: str = ""
    """The ID of the environment."""

    warnings: str = ""
    """The kinds of its warnings, such as "wide interval; disturbed"."""

    @property
    def place(self) -> Dims:
        """Its position on all axes: its sizes and the number of threads."""
        return (*self.dims, (THREADS, self.threads))

    @property
    def sizes_text(self) -> str:
        """Its sizes as text, with the number of threads if there are several."""
        return dims_text(self.dims if self.threads == 1 else self.place)

    @property
    def config(self) -> Config:
        return Config(self.backend, self.dtype)


class Ratio(NamedTuple):
    """Eager's time over the time of another backend."""

    value: float
    low: float
    """From the ends of both intervals: eager at its fastest, the other at its slowest. So low to
    high is an interval of at least 95 %."""

    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedUp:
    """The speed-up of a backend over eager, over all points that both have."""

    model: str
    phase: Phase
    config: Config
    mean: float
    """The geometric mean: twice and half as fast average to 1."""

    least: tuple[float, str]
    """The smallest speed-up, and the sizes at which it occurs."""

    most: tuple[float, str]
    """The largest speed-up, and the sizes at which it occurs."""

    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Points that differ only in one dimension."""

    dim: str
    held: Dims
    """The other dimensions that vary in the sweep, with their sizes in this slice."""

    rows: tuple[SweepRow, ...]
    """Measured rows, sorted by the size of the dimension."""

    @property
    def sizes(self) -> list[int]:
        return sorted({size_of(row, self.dim) for row in self.rows})


def rows_of(run: Run) -> tuple[SweepRow, ...]:
    """A row for each case that has a result, in the order of the plan."""
    times = {each.case.id: each for each in run.results if each.metric is Metric.TIME}
    planned = [each.case.id for each in run.plan if each.metric is Metric.TIME]
    return tuple(row_of(times[case_id], run) for case_id in planned if case_id in times)


def row_of(result: Result, run: Run) -> SweepRow:
    """The row of a result."""
    facts, times, known = result.facts, _time_summary(result), time_of(result)
    is_done = result.status is Status.DONE
    reason = " ".join(facts.remarks) if is_done else first_line(result.reason)
    return SweepRow(
        case_id=result.case.id,
        model=result.case.label[0],
        **asdict(point_of(result.case, run.settings)),
        samples=times.samples if times else 0,
        median_s=times.median if times else None,
        mean_s=times.mean if times else None,
        min_s=times.least if times else None,
        p95_s=times.p95 if times else None,
        std_s=times.deviation if times else None,
        low_s=times.interval.low if times and times.interval else None,
        high_s=times.interval.high if times and times.interval else None,
        flops=facts.flops,
        bytes=facts.bytes,
        flop_per_s=_rate(facts.flops, times),
        bytes_per_s=_rate(facts.bytes, times),
        peak_memory_bytes=facts.peak_memory_bytes,
        max_error=facts.max_error,
        prepare_s=facts.prepare_seconds,
        status=RowStatus.MEASURED if is_done else RowStatus(result.status.value),
        reason=" ".join(reason.split()),
        environment=run.environment.id,
        warnings=kinds_text(known.warnings if known else ()),
    )


def kernels_of(run: Run) -> list[tuple[Case, KernelCalls]]:
    """All known kernels with their cases, in the order of the plan."""
    known = {each.case.id: each.payload for each in run.results if each.metric is Metric.PROFILE}
    found = []
    for planned in run.plan:
        payload = known.get(planned.case.id) if planned.metric is Metric.PROFILE else None
        if isinstance(payload, KernelTimes):
            found += [(planned.case, kernel) for kernel in payload.kernels]
    return found


def _time_summary(result: Result) -> TimeSummary | None:
    """The statistics of a result, stored or computed from its samples."""
    if isinstance(result.payload, TimeSummary):
        return result.payload
    measurement = result.measurement
    return None if measurement is None else TimeSummary.of_samples(measurement)


def _rate(amount: int | None, times: TimeSummary | None) -> float | None:
    return amount / times.median if amount is not None and times and times.median > 0 else None


def measured(rows: Iterable[SweepRow]) -> list[SweepRow]:
    return [row for row in rows if row.status is RowStatus.MEASURED and row.median_s is not None]


def size_of(row: SweepRow, dim: str) -> int:
    return dict(row.place)[dim]


def split_by_model(rows: Iterable[SweepRow]) -> dict[str, list[SweepRow]]:
    return collect((row.model, row) for row in rows)


def backends_in(rows: Iterable[SweepRow]) -> list[str]:
    """The backends that occur, eager first because the others are compared with it."""
    found = ordered_unique(row.backend for row in rows)
    return ordered_unique([*(name for name in FIRST_BACKENDS if name in found), *found])


def dtypes_in(rows: Iterable[SweepRow]) -> list[str]:
    return ordered_unique(row.dtype for row in rows)


def configs_in(rows: Sequence[SweepRow]) -> list[Config]:
    """The configs that occur, by backend and then by dtype."""
    backends, dtypes = backends_in(rows), dtypes_in(rows)
    present = {row.config for row in rows}
    every = [Config(backend, dtype) for backend in backends for dtype in dtypes]
    return [config for config in every if config in present]


def phases_in(rows: Iterable[SweepRow]) -> list[Phase]:
    found = {row.phase for row in rows}
    return [phase for phase in Phase if phase in found]


def dims_in(rows: Iterable[SweepRow]) -> list[str]:
    return ordered_unique(name for row in rows for name, _ in row.dims)


def varying_dims(rows: Sequence[SweepRow]) -> list[str]:
    """Dimensions with more than one size, including the number of threads."""
    points = [dict(row.place) for row in rows]
    names = [*dims_in(rows), THREADS]
    return [name for name in names if len({point.get(name) for point in points}) > 1]


def eager_of(rows: Iterable[SweepRow]) -> dict[tuple[object, ...], SweepRow]:
    """Eager's measured rows, by what a row of another backend must have in common with it."""
    return {_shared(row): row for row in measured(rows) if row.backend == EAGER}


def ratio_to(eager: Mapping[tuple[object, ...], SweepRow], row: SweepRow) -> Ratio | None:
    """The speed-up over eager; None for eager itself, and if one of the two has no time."""
    base = eager.get(_shared(row))
    if base is None or row.backend == EAGER or not row.median_s or not base.median_s:
        return None
    return Ratio(
        value=base.median_s / row.median_s,
        low=(base.low_s or base.median_s) / (row.high_s or row.median_s),
        high=(base.high_s or base.median_s) / (row.low_s or row.median_s),
    )


def speed_ups(rows: Sequence[SweepRow]) -> list[SpeedUp]:
    """The speed-ups for each model, phase, dtype and backend that shares points with eager."""
    eager = eager_of(rows)
    found = collect(
        ((row.model, row.phase, row.config), (ratio.value, row.sizes_text))
        for row in measured(rows)
        if (ratio := ratio_to(eager, row)) is not None
    )
    lines = []
    for (model, phase, config), ratios in found.items():
        lines.append(
            SpeedUp(
                model=model,
                phase=phase,
                config=config,
                mean=math.exp(math.fsum(math.log(value) for value, _ in ratios) / len(ratios)),
                least=min(ratios),
                most=max(ratios),
                points=len(ratios),
            )
        )
    return lines


def slices(rows: Sequence[SweepRow], dim: str) -> list[Slice]:
    """The slices of one model, one for each combination of the other dimensions.

    The most informative slice is first. It has the most sizes of the dimension, because a sampled
    sweep does not have all points; among several, the largest other sizes, which do most work.
    """
    others = [name for name in varying_dims(rows) if name != dim]
    found: dict[Dims, list[SweepRow]] = {}
    for row in measured(rows):
        of_row = dict(row.place)
        if dim in of_row:
            held = tuple((name, of_row[name]) for name in others if name in of_row)
            found.setdefault(held, []).append(row)
    cut = [
        Slice(dim=dim, held=held, rows=tuple(sorted(members, key=lambda each: size_of(each, dim))))
        for held, members in found.items()
    ]
    return sorted(
        cut,
        key=lambda each: (
            -len(each.sizes),
            -math.prod(size for _, size in each.held),
            each.held,
        ),
    )


def _shared(row: SweepRow) -> tuple[object, ...]:
    return (row.model, row.place, row.dtype, row.phase)
