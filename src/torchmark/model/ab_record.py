"""What an A/B comparison leaves: the two environments, and for each case what both gave.

Figures here are raw: the log ratios of every pair, the counts of every function. What they mean
(ratios, intervals, verdicts) is derived from them by `torchmark.analyse.ab`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.case import Case
    from torchmark.model.result import Metric, Status


Turn = tuple[float, float]
"""The log of B's time over A's from two couples of fresh processes: that of which A was started
first, and that of which B was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEnvironment:
    """One of the environments, as it was found before anything was measured."""

    name: str
    """"A", "B", or the name that the user gave."""

    command: str
    """The shell text that leads to it; empty for the one that torchmark was called in."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON: interpreter, Python, torch with its commit and build flags, threads, compiler;
    under "counting" and "cpp" the word "works", or why it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTimes:
    """The times of a case in both environments."""

    a_seconds: float
    """One run in A: the median of all its blocks."""

    pairs: tuple[tuple[Turn, ...], ...]
    """For every start of both environments the turns that were taken in it."""

    control: tuple[Turn, ...]
    """Turns of A and A."""

    penalty: float
    """What a p-value is multiplied by, since it was looked several times whether pairs suffice."""

    layout_effect: float = 0.0
    """The log ratio that the two may have for nothing; 0 where both load the same files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """The instructions of a case in both environments, once for each layout of memory."""

    a: tuple[CallgrindStats, ...]
    b: tuple[CallgrindStats, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCalls:
    """What one run of a case does in one Python function."""

    function: str
    """Its name, with the file in which it is defined."""

    a: int
    """Bytecodes that it executes in A."""

    b: int
    """Bytecodes that it executes in B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came of one case and one kind of measurement."""

    case: Case
    """As it runs in A; where two statements are compared B has its own, in `other`."""

    metric: Metric
    status: Status

    other: Case | None = None
    """What runs in B, if that is not the same."""

    reason: str = ""
    """Why it failed or was skipped, and where, for a person; the first line says the most."""

    times: PairedTimes | None = None
    """Of a TIME that is DONE."""

    counts: PairedCounts | None = None
    """Of a COUNT that is DONE."""

    python: tuple[PythonCalls, ...] = ()
    """Python functions that do not do the same in both; looked at where a case has changed."""

    seconds: float = 0.0
    """What it took to get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Environment B beside environment A."""

    id: str
    """Sorts by the time at which it began."""

    started: str
    """When, in UTC, as ISO 8601 with seconds."""

    a: ComparedEnvironment
    b: ComparedEnvironment

    results: tuple[Compared, ...] = ()
    """In the order of the suite."""

    remarks: tuple[str, ...] = ()
    """What a reader should know before the figures: the same installation, another BLAS."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The options that change results (plain JSON)."""

    is_complete: bool = True
    """Whether all that was asked for is there; False after Ctrl-C."""
