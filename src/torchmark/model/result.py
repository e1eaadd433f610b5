"""What came of one case: its status, what it printed, and the figures as they were taken.

A payload holds raw figures only: every sample, every function's count, the log ratio of every
process pair. What they mean (medians, intervals, verdicts) is derived by `torchmark.analyse`.
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
    """What is kept: a key that nobody knows is an error."""


class Metric(enum.Enum):
    """What is measured of a case."""

    TIME = "time"
    INSTRUCTIONS = "instructions"
    PROFILE = "profile"
    """Where the time goes: stacks for a flame graph, or kernels."""

    CONTROL = "control"
    """The time of a case in the first environment compared with itself, launched apart."""


class Status(enum.Enum):
    """How it went."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    PARTIAL = "partial"
    """Cut short: it has the figures there were by then, and a resumed run measures it again."""


class Timing(Record, frozen=True, kw_only=True, tag="timing"):
    """The times of a case in one environment."""

    processes: tuple[Sampling, ...]
    """Every sample, for each fresh process in which the case ran."""


class TimeSummary(Record, frozen=True, kw_only=True, tag="time summary"):
    """The time of a case of which only statistics are known; all in seconds of one run."""

    samples: int
    median: float
    """Of calls in their order: the mean over all positions, so that the sum of calls stays."""

    low: float
    """The 95 % interval of the median, from here to `high`."""

    high: float

    mean: float | None = None
    least: float | None = None
    p95: float | None = None
    deviation: float | None = None

    @property
    def interval(self) -> Interval | None:
        """None where there are too few samples for one."""
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
    """Instructions by function, largest first: by itself, and with what it called."""

    exclusive: tuple[FunctionCount, ...]
    inclusive: tuple[FunctionCount, ...]


class Counts(Record, frozen=True, kw_only=True, tag="counts"):
    """The instructions of a case in one environment."""

    runs: int
    """How often the statement ran while instructions were counted."""

    statement: FunctionTable
    """With the loop around the statement."""

    loop: FunctionTable
    """The same loop around `pass`; empty where it was not counted."""

    has_debug_symbols: bool = True
    """Whether torch's own functions come with their source files."""

    callgrind_out: str | None = None
    """The text of callgrind's file, if it was asked for."""


Crossover: TypeAlias = tuple[float, float]
"""The log of B's time over A's from two process pairs: started A-first, and B-first."""


class PythonCalls(Record, frozen=True, kw_only=True):
    """Bytecodes that one run of a case executes in one Python function, in A and in B."""

    function: str
    """Its name, with the file in which it is defined."""

    a: int
    b: int


class PairedTiming(Record, frozen=True, kw_only=True, tag="paired timing"):
    """The times of a case in two environments, or in one that was launched twice (a control)."""

    a_seconds: float
    """One run in A: the median of all its blocks."""

    replicates: tuple[tuple[Crossover, ...], ...]
    """For every fresh launch of both environments the crossovers that were taken in it."""

    alpha_share: float = 1.0
    """Of the false alarms that are allowed, the share that the last look may spend: results were
    checked several times."""

    same_files: bool = True
    """Whether both environments load the same files; others lie elsewhere in memory."""

    forecast: float | None = None
    """The detectable change that the first replicates foretold, where a size was asked for."""

    python_calls: tuple[PythonCalls, ...] = ()
    """Python functions that do not do the same in both; found where the case has changed."""


class PairedCounts(Record, frozen=True, kw_only=True, tag="paired counts"):
    """The instructions of a case in two environments, once for each layout of memory."""

    a: tuple[Counts, ...]
    b: tuple[Counts, ...]
    python_calls: tuple[PythonCalls, ...] = ()
    """Python functions that do not do the same in both; found where the case has changed."""


class PairedProfile(Record, frozen=True, kw_only=True, tag="paired profile"):
    """Where the time of a case goes in two environments: stacks, as folded text, in nanoseconds."""

    a: str
    b: str
    samples: tuple[int, int]
    """How many each of them is from."""


class KernelCalls(Record, frozen=True, kw_only=True):
    """What one run of a case does in one kernel."""

    kernel: str
    """As the profiler calls it."""

    calls: float
    """In one run, the mean of several."""

    seconds: float
    """In one run, without what it calls in turn."""


class KernelTimes(Record, frozen=True, kw_only=True, tag="kernel times"):
    """Where the time of a case goes, by kernel."""

    kernels: tuple[KernelCalls, ...]
    """The longest first."""


Payload: TypeAlias = (
    Timing | TimeSummary | Counts | KernelTimes | PairedTiming | PairedCounts | PairedProfile
)


class Facts(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What else is known of a case beside its metric; None where it is not known."""

    flops: int | None = None
    """Floating-point operations of one run."""

    bytes: int | None = None
    """Inputs, parameters and outputs of one run, each once."""

    peak_memory_bytes: int | None = None
    """What a run had allocated at most, over what was there before."""

    max_error: float | None = None
    """The largest difference from eager's result in the same dtype."""

    prepare_seconds: float | None = None
    """Compiling or exporting, the first run included."""

    remarks: tuple[str, ...] = ()
    """How outputs differ from what was expected, in sentences."""


ResultKey: TypeAlias = tuple[str, Metric, tuple[str, ...]]
"""What makes two results the same: the id of the case, the metric and the environments."""


class PlannedResult(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A result that is to be."""

    case: Case
    """As it runs in the first environment."""

    metric: Metric
    environments: tuple[str, ...] = ("",)
    """The name of the environment, or of the two that are compared."""

    other: Case | None = None
    """What runs in the second environment, if that is another statement."""

    @property
    def key(self) -> ResultKey:
        return self.case.id, self.metric, self.environments

    @property
    def cases(self) -> tuple[Case, Case]:
        """What runs in the first and in the second environment."""
        return self.case, self.other or self.case

    def finish(self, status: Status = Status.DONE, **found: Any) -> Result:
        """What came of it now; `found` are other fields of the result."""
        planned = msgspec.structs.asdict(self)
        return Result(**planned, status=status, finished=utc_now(), **found)


class Result(PlannedResult, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one case, one metric, one environment or a pair of them."""

    status: Status
    finished: str
    """When, in UTC, as ISO 8601 with seconds."""

    seconds: float = 0.0
    """What it took to get, from the hand-over to the end."""

    reason: str = ""
    """Why it failed, was skipped or is partial, for a person; the first line says the most."""

    stdout: str = ""
    """What the case printed; likewise `stderr`."""

    stderr: str = ""
    payload: Payload | None = None
    """The figures, of a result that is DONE or PARTIAL."""

    facts: Facts = Facts()

    @property
    def measurement(self) -> Measurement | None:
        """The samples as people read them; None where there are none."""
        if not isinstance(self.payload, Timing) or not self.payload.processes:
            return None
        spec = spec_of(self.case)
        parts = [Measurement.from_sampling(spec, each) for each in self.payload.processes]
        return parts[0] if len(parts) == 1 else Measurement.merge(parts)[0]

    @property
    def stats(self) -> CallgrindStats | None:
        """The counts as people read them; None where there are none."""
        if not isinstance(self.payload, Counts):
            return None
        return stats_of_counts(self.payload, spec_of(self.case))


def utc_now() -> str:
    """The time in UTC, as records have it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def counts_of_stats(stats: CallgrindStats) -> Counts:
    """The counts of a statement as a payload."""
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
    """The payload as people read it."""
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
