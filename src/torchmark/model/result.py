"""What came of one case: its status, what it printed, and the figures as they were taken.

A payload holds raw figures only: every sample, every function's count, the log ratio of every
process pair. What they mean (medians, intervals, verdicts) is derived by `torchmark.analyse`.
"""

from __future__ import annotations

import datetime
import enum
from typing import TypeAlias

import msgspec

from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.case import Case  # noqa: TC001 - msgspec reads the annotations
from torchmark.model.function_counts import FunctionCount, FunctionCounts
from torchmark.model.measurement import Measurement
from torchmark.model.task_spec import TaskSpec
from torchmark_probe.loops.sampling import Sampling  # noqa: TC001 - msgspec reads the annotations


class Metric(enum.Enum):
    """What is measured of a case."""

    TIME = "time"
    INSTRUCTIONS = "instructions"
    PROFILE = "profile"
    """Where the time goes: stacks for a flame graph, or kernels."""


class Status(enum.Enum):
    """How it went."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="timing"):
    """The times of a case in one environment."""

    processes: tuple[Sampling, ...]
    """Every sample, for each fresh process in which the case ran."""


class TimeSummary(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="time summary"
):
    """The time of a case of which only statistics are known; all in seconds of one run."""

    samples: int
    """What the statistics are of."""

    median: float
    """Of calls in their order: the mean over all positions, so that the sum of calls stays."""

    low: float
    """The 95 % interval of the median, from here; of calls in their order, the least."""

    high: float
    """To here; of calls in their order, the most."""

    mean: float | None = None
    least: float | None = None
    p95: float | None = None
    deviation: float | None = None


class FunctionTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Instructions by function, largest first."""

    exclusive: tuple[tuple[int, str], ...]
    """Every function by itself."""

    inclusive: tuple[tuple[int, str], ...]
    """Every function with what it called."""


class Counts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="counts"):
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


class PythonCalls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one run of a case does in one Python function."""

    function: str
    """Its name, with the file in which it is defined."""

    a: int
    """Bytecodes that it executes in A."""

    b: int
    """Bytecodes that it executes in B."""


class PairedTiming(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="paired timing"
):
    """The times of a case in two environments."""

    a_seconds: float
    """One run in A: the median of all its blocks."""

    replicates: tuple[tuple[Crossover, ...], ...]
    """For every fresh launch of both environments the crossovers that were taken in it."""

    control: tuple[Crossover, ...]
    """Crossovers of A and A."""

    penalty: float
    """What a p-value is multiplied by, because results were looked at several times."""

    layout_effect: float = 0.0
    """The log ratio that may follow from memory layout alone; 0 where both load the same files."""

    python_calls: tuple[PythonCalls, ...] = ()
    """Python functions that do not do the same in both; found where the case has changed."""


class PairedCounts(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="paired counts"
):
    """The instructions of a case in two environments, once for each layout of memory."""

    a: tuple[Counts, ...]
    b: tuple[Counts, ...]
    python_calls: tuple[PythonCalls, ...] = ()
    """Python functions that do not do the same in both; found where the case has changed."""


class PairedProfile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="paired profile"
):
    """Where the time of a case goes in two environments: stacks, as folded text, in nanoseconds."""

    a: str
    b: str
    samples: tuple[int, int]
    """How many each of them is from."""


class KernelCalls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one run of a case does in one kernel."""

    kernel: str
    """As the profiler calls it."""

    calls: float
    """In one run, the mean of several."""

    seconds: float
    """In one run, without what it calls in turn."""


class KernelTimes(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="kernel times"
):
    """Where the time of a case goes, by kernel."""

    kernels: tuple[KernelCalls, ...]
    """The longest first."""


Payload: TypeAlias = (
    Timing | TimeSummary | Counts | KernelTimes | PairedTiming | PairedCounts | PairedProfile
)


class Facts(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
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


class Result(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One case, one metric, one environment or a pair of them."""

    case: Case
    """As it runs in the first environment."""

    metric: Metric
    status: Status

    finished: str
    """When, in UTC, as ISO 8601 with seconds."""

    environments: tuple[str, ...] = ("",)
    """The name of the environment, or of the two that are compared."""

    other: Case | None = None
    """What runs in the second environment, if that is another statement."""

    seconds: float = 0.0
    """What it took to get, from the hand-over to the end."""

    reason: str = ""
    """Why it failed or was skipped, for a person; the first line says the most."""

    stdout: str = ""
    """What the case printed."""

    stderr: str = ""
    """What the case wrote to standard error."""

    payload: Payload | None = None
    """The figures, of a result that is DONE."""

    facts: Facts = Facts()
    """What else is known."""

    @property
    def key(self) -> ResultKey:
        return key_of(self.case, self.metric, self.environments)

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


ResultKey: TypeAlias = tuple[str, Metric, tuple[str, ...]]
"""What makes two results the same: the id of the case, the metric and the environments."""


def key_of(case: Case, metric: Metric, environments: tuple[str, ...]) -> ResultKey:
    return case.id, metric, environments


def utc_now() -> str:
    """The time in UTC, as records have it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def spec_of(case: Case) -> TaskSpec:
    """The case under the names that tables use."""
    return TaskSpec(
        stmt=case.stmt,
        setup=case.setup,
        global_setup=case.global_setup,
        label=" / ".join(case.label[:-1]) or None,
        sub_label=case.name.rpartition(" / ")[2],
        description=", ".join(case.facts),
        num_threads=case.num_threads,
    )


def counts_of_stats(stats: CallgrindStats) -> Counts:
    """The counts of a statement as a payload."""
    return Counts(
        runs=stats.number_per_run,
        statement=_table(stats.stmt_exclusive_stats, stats.stmt_inclusive_stats),
        loop=_table(stats.baseline_exclusive_stats, stats.baseline_inclusive_stats),
        has_debug_symbols=stats.built_with_debug_symbols,
        callgrind_out=stats.stmt_callgrind_out,
    )


def stats_of_counts(counts: Counts, spec: TaskSpec) -> CallgrindStats:
    """The payload as people read it."""
    return CallgrindStats(
        task_spec=spec,
        number_per_run=counts.runs,
        built_with_debug_symbols=counts.has_debug_symbols,
        baseline_inclusive_stats=_function_counts(counts.loop.inclusive, inclusive=True),
        baseline_exclusive_stats=_function_counts(counts.loop.exclusive, inclusive=False),
        stmt_inclusive_stats=_function_counts(counts.statement.inclusive, inclusive=True),
        stmt_exclusive_stats=_function_counts(counts.statement.exclusive, inclusive=False),
        stmt_callgrind_out=counts.callgrind_out,
    )


def _table(exclusive: FunctionCounts, inclusive: FunctionCounts) -> FunctionTable:
    return FunctionTable(
        exclusive=tuple((count, name) for count, name in exclusive),
        inclusive=tuple((count, name) for count, name in inclusive),
    )


def _function_counts(entries: tuple[tuple[int, str], ...], *, inclusive: bool) -> FunctionCounts:
    return FunctionCounts(tuple(FunctionCount(*entry) for entry in entries), inclusive)
