"""The result of a case: its status, its output and its raw figures.

A payload has raw figures only: every sample, the count of every function, the log ratio of every
process pair. `torchmark.analyse` derives medians, intervals and verdicts from them.
"""

from __future__ import annotations

import datetime
import enum
from statistics import fmean
from typing import Any, TypeAlias

import msgspec

from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.case import Case, TaskSpec, spec_of
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.model.measurement import Measurement
from torchmark_probe.loops.intervals import FEWEST_SAMPLES, Interval
from torchmark_probe.loops.sampling import Sampling


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of what is stored; an unknown key is an error."""


class Metric(enum.Enum):
    """What is measured."""

    TIME = "time"
    INSTRUCTIONS = "instructions"
    PROFILE = "profile"
    """Where the time is spent: stacks for a flame graph, or kernels."""

    CONTROL = "control"
    """The time in the first environment compared with itself (A/A), launched separately."""


class Status(enum.Enum):
    """Whether a case was measured."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    PARTIAL = "partial"
    """Cut short: it has the figures so far, and a resumed run measures it again."""


class Timing(Record, frozen=True, kw_only=True, tag="timing"):
    """The times of a case in one environment."""

    processes: tuple[Sampling, ...]
    """All samples of each fresh process in which the case ran."""


class TimeSummary(Record, frozen=True, kw_only=True, tag="time summary"):
    """The time of a case if only statistics are known, in seconds of one run."""

    samples: int
    median: float
    """For calls in order: the mean over all positions, so that calls add up to the pass."""

    low: float
    """Lower end of the 95 % interval of the median."""

    high: float

    mean: float | None = None
    least: float | None = None
    p95: float | None = None
    deviation: float | None = None

    @property
    def interval(self) -> Interval | None:
        """None if there are too few samples."""
        return Interval(self.low, self.high) if self.samples >= FEWEST_SAMPLES else None

    @classmethod
    def of_samples(cls, measurement: Measurement) -> TimeSummary:
        times, interval = measurement.times, measurement.median_interval
        return cls(
            samples=len(times),
            median=measurement.median,
            low=max(0.0, interval.low),
            high=interval.high,
            mean=fmean(times),
            least=min(times),
            p95=measurement.percentile(95),
            deviation=measurement.std,
        )


class FunctionTable(Record, frozen=True, kw_only=True):
    """Instructions by function, largest first: without (exclusive) and with its callees."""

    exclusive: tuple[FunctionCount, ...]
    inclusive: tuple[FunctionCount, ...]


class Counts(Record, frozen=True, kw_only=True, tag="counts"):
    """The instructions of a case in one environment."""

    runs: int
    """Runs of the statement that were counted."""

    statement: FunctionTable
    """The statement with the loop around it."""

    loop: FunctionTable
    """The same loop around `pass`; empty if it was not counted."""

    has_debug_symbols: bool = True
    """Whether torch's functions have source files."""

    callgrind_out: str | None = None
    """The text of callgrind's file, if it was requested."""


Crossover: TypeAlias = tuple[float, float]
"""log(B's time / A's time) of two process pairs: one started A-first, one B-first."""


class PythonCalls(Record, frozen=True, kw_only=True):
    """Bytecodes that one run of a case executes in one Python function, in A and in B."""

    function: str
    """Name and file of the function."""

    a: int
    b: int


class PairedTiming(Record, frozen=True, kw_only=True, tag="paired timing"):
    """The times of a case in two environments, or in one that was launched twice (a control)."""

    a_seconds: float
    """One run in A: the median of all its blocks."""

    replicates: tuple[tuple[Crossover, ...], ...]
    """The crossovers of each replicate (a fresh launch of both environments)."""

    alpha_share: float = 1.0
    """The share of alpha that the last look may spend, because results were checked at several
    looks."""

    same_files: bool = True
    """Whether both environments load the same files; otherwise their code has other addresses."""

    forecast: float | None = None
    """The detectable change predicted from the first replicates, if a size was requested."""

    python_calls: tuple[PythonCalls, ...] = ()
    """Python functions that differ between A and B; only for cases that have changed."""


class PairedCounts(Record, frozen=True, kw_only=True, tag="paired counts"):
    """The instructions of a case in two environments, one count for each memory layout."""

    a: tuple[Counts, ...]
    b: tuple[Counts, ...]
    python_calls: tuple[PythonCalls, ...] = ()
    """Python functions that differ between A and B; only for cases that have changed."""


class PairedProfile(Record, frozen=True, kw_only=True, tag="paired profile"):
    """The profiles of a case in two environments: folded stacks with nanoseconds."""

    a: str
    b: str
    samples: tuple[int, int]
    """Number of samples in each profile."""


class KernelCalls(Record, frozen=True, kw_only=True):
    """The calls of one kernel in one run of a case."""

    kernel: str
    """Its name in the profiler."""

    calls: float
    """Calls in one run, as the mean of several runs."""

    seconds: float
    """Seconds in one run, without the kernels that it calls."""


class KernelTimes(Record, frozen=True, kw_only=True, tag="kernel times"):
    """The time of a case by kernel."""

    kernels: tuple[KernelCalls, ...]
    """The longest first."""


Payload: TypeAlias = (
    Timing | TimeSummary | Counts | KernelTimes | PairedTiming | PairedCounts | PairedProfile
)


class Facts(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Other facts about a case; None if a fact is not known."""

    flops: int | None = None
    """Floating-point operations of one run."""

    bytes: int | None = None
    """Bytes of the inputs, parameters and outputs of one run, each counted once."""

    peak_memory_bytes: int | None = None
    """Peak memory that a run allocated, without what was allocated before."""

    max_error: float | None = None
    """Largest difference from the eager result in the same dtype."""

    prepare_seconds: float | None = None
    """Seconds to compile or export, including the first run."""

    remarks: tuple[str, ...] = ()
    """Sentences about outputs that differ from what was expected."""


ResultKey: TypeAlias = tuple[str, Metric, tuple[str, ...]]
"""Identifies a result: the ID of the case, the metric and the environments."""


class PlannedResult(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A result that is planned."""

    case: Case
    """The case in the first environment."""

    metric: Metric
    environments: tuple[str, ...] = ("",)
    """The name of the environment, or of the two that are compared."""

    other: Case | None = None
    """The case in the second environment, if it is another statement."""

    @property
    def key(self) -> ResultKey:
        return self.case.id, self.metric, self.environments

    @property
    def cases(self) -> tuple[Case, Case]:
        """The cases in the first and in the second environment."""
        return self.case, self.other or self.case

    def finish(self, status: Status = Status.DONE, **found: Any) -> Result:
        """The result, finished now; `found` are its other fields."""
        planned = msgspec.structs.asdict(self)
        return Result(**planned, status=status, finished=utc_now(), **found)


class Result(PlannedResult, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one case for one metric, in one environment or in a pair of them."""

    status: Status
    finished: str
    """The time at which it finished, in UTC, as ISO 8601 with seconds."""

    seconds: float = 0.0
    """Seconds that it took to measure."""

    reason: str = ""
    """Why it failed, was skipped or is partial; the first line is the most important."""

    stdout: str = ""
    """Standard output of the case."""

    stderr: str = ""
    """Standard error of the case."""

    payload: Payload | None = None
    """The figures of a result that is DONE or PARTIAL."""

    facts: Facts = Facts()

    @property
    def measurement(self) -> Measurement | None:
        """The samples as a Measurement; None if there are none."""
        if not isinstance(self.payload, Timing) or not self.payload.processes:
            return None
        spec = spec_of(self.case)
        parts = [Measurement.from_sampling(spec, each) for each in self.payload.processes]
        return parts[0] if len(parts) == 1 else Measurement.merge(parts)[0]

    @property
    def stats(self) -> CallgrindStats | None:
        """The counts as CallgrindStats; None if there are none."""
        if not isinstance(self.payload, Counts):
            return None
        return stats_of_counts(self.payload, spec_of(self.case))


def utc_now() -> str:
    """The time now, in UTC, as ISO 8601 with seconds."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def counts_of_stats(stats: CallgrindStats) -> Counts:
    """The payload for the counts of a statement."""
    return Counts(
        runs=stats.number_per_run,
        statement=FunctionTable(
            exclusive=tuple(stats.stmt_exclusive_stats), inclusive=tuple(stats.stmt_inclusive_stats)
        ),
        loop=FunctionTable(
            exclusive=tuple(stats.baseline_exclusive_stats),
            inclusive=tuple(stats.baseline_inclusive_stats),
        ),
        has_debug_symbols=stats.built_with_debug_symbols,
        callgrind_out=stats.stmt_callgrind_out,
    )


def stats_of_counts(counts: Counts, spec: TaskSpec) -> CallgrindStats:
    """The counts in a payload as CallgrindStats."""
    return CallgrindStats(
        task_spec=spec,
        number_per_run=counts.runs,
        built_with_debug_symbols=counts.has_debug_symbols,
        baseline_inclusive_stats=FunctionCounts(counts.loop.inclusive, inclusive=True),
        baseline_exclusive_stats=FunctionCounts(counts.loop.exclusive, inclusive=False),
        stmt_inclusive_stats=FunctionCounts(counts.statement.inclusive, inclusive=True),
        stmt_exclusive_stats=FunctionCounts(counts.statement.exclusive, inclusive=False),
        stmt_callgrind_out=counts.callgrind_out,
    )
