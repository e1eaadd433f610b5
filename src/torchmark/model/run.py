"""A run: one invocation of a command that measures, with its plan, settings and results."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case, digest
from torchmark.model.result import Metric, PlannedResult, Record, Result, Status, TimeSummary
from torchmark_probe.loops.sampling import Limits

TIME_LIMIT = 300.0
"""Default time limit for a case in one process, in seconds."""

FEWEST_REPLICATES = 5
"""A comparison with fewer replicates (fresh launches of both environments) has no verdict."""

USUAL_LIMITS = Limits(precision=0.01, min_run_time=0.2, max_run_time=2.0)

QUICK_LIMITS = Limits(precision=0.02, min_run_time=0.1, max_run_time=0.5)
"""Limits of quick runs: half of the sampling time, and a quarter of the maximum."""

DECISIVE = {
    "torchmark": ("torchmark",),
    "torch": ("torch", "version"),
    "torch's commit": ("torch", "git"),
    "Python": ("python",),
    "the processor": ("machine", "cpu"),
}
"""Facts that affect results: results with different values cannot be compared."""


class Environment(Record, frozen=True, kw_only=True):
    """One environment, with its facts as they were before anything was measured."""

    name: str = ""
    """Its name, such as "A", "B" or "base"; empty for the environment that torchmark runs in."""

    command: str = ""
    """The shell command that activates it; empty for the one that torchmark runs in."""

    facts: Mapping[str, Any] = {}
    """Plain JSON: interpreter, Python, torch build, compiler, machine, git commit."""

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits: a hash of the decisive facts."""
        return digest([self.fact(*path) for path in DECISIVE.values()])

    def fact(self, *path: str) -> Any:
        """The fact at a path of names; None if it is not known.

        >>> Environment(facts={"torch": {"version": "2.13.0"}}).fact("torch", "version")
        '2.13.0'
        """
        value: Any = self.facts
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


class Effort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long and how often each case of a run is measured."""

    limits: Limits = USUAL_LIMITS
    runs: int = 100
    """Runs of the statement that are counted."""

    repeats: int = 1
    """Fresh processes in which each case is measured."""

    timeout: float = TIME_LIMIT
    """Time limit for a case in one process, in seconds."""

    memory: int | None = None
    """Bytes that a case may allocate, without the memory of its zygote; None for no limit."""

    budget: float = 10.0
    """Seconds of paired timing for each case. Without `detect`, clear cases leave their time to
    unclear ones. Ten are enough to find a change of 1 % on a machine with some noise."""

    pair_seconds: float = 0.03
    """Seconds of blocks in a process pair; forking, setup and warm-up take as long. For small
    operators, process pairs differ more than the rounds within one: in pairs of 0.15 s the rounds
    are 2 to 4 % of the variance. So shorter pairs spread as much, and there are more of them."""

    replicates: int = FEWEST_REPLICATES
    """Minimum number of replicates for each case, even if the budget is used up."""

    detect: float | None = None
    """The change that each case must be able to detect, as a share (0.01 is 1 %). A case ends when
    it can, or when its budget is used up. None if only the budget ends it."""

    hurry: bool = False
    """Prefer a fast result: no extra crossovers while the next launch is prepared, and only one
    look, at the end. One look spends no alpha on earlier ones, so it detects smaller changes."""

    seed: int = 0
    """Seed for the order of blocks and for generated inputs."""


class RunKind(enum.Enum):
    """The command that made a run."""

    RUN = "run"
    AB = "ab"
    REPLAY = "replay"
    SWEEP = "sweep"
    LADDER = "overrides ladder"
    OVERRIDES = "overrides report"
    TIME = "time"
    COUNT = "count"


class RunState(enum.Enum):
    """Whether a run has finished."""

    RUNNING = "running"
    """Running, or killed: a killed process cannot update its state."""

    INTERRUPTED = "interrupted"
    FINISHED = "finished"


class MachineSpeeds(Record, frozen=True, kw_only=True):
    """The best speed of the machine with the run's number of threads, measured in the run."""

    small_call_seconds: float
    """Seconds to add two tensors of one element, which is only overhead."""

    bytes_per_second: Mapping[int, float]
    """Speed of copies (bytes read and written per second), by the bytes that the copy moves."""

    flops_per_second: Mapping[str, float]
    """Speed of a large matrix product, by dtype."""


class Change(enum.Enum):
    """How an alternative differs from the original call."""

    CONTIGUOUS = "contiguous"
    """The same call with contiguous inputs."""

    FLOAT32 = "float32"
    """The same call in float32 instead of a type with fewer bits."""

    FUSED = "fused"
    """A step of the same optimizer on the same parameters, with fused=True."""


class Alternative(Record, frozen=True, kw_only=True):
    """The time of calls in a replay, and the time of an alternative to them."""

    change: Change
    calls: tuple[int, ...]
    """Numbers of the calls that the alternative replaces."""

    times: int
    """How often a step would run the alternative."""

    what: str
    """Name of an optimizer's step; empty for a call."""

    present: TimeSummary
    """The time of the original."""

    changed: TimeSummary
    """The time of the alternative."""

    copying: TimeSummary | None = None
    """The time to make the inputs contiguous, if that is the change."""


class Run(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A run, as it is stored."""

    id: str
    """IDs sort by the time at which the run started."""

    kind: RunKind
    started: str
    """The time at which it started, in UTC, as ISO 8601 with seconds."""

    state: RunState = RunState.RUNNING

    plan: tuple[PlannedResult, ...] = ()
    """All results to measure, in order; a resumed run measures those that are missing."""

    environments: tuple[Environment, ...] = ()
    """The environments; a comparison compares the others with the first."""

    settings: Mapping[str, Any] = {}
    """The options that affect results (plain JSON); a resumed run keeps them."""

    notes: tuple[str, ...] = ()
    """Sentences that a reader should know before the figures."""

    speeds: MachineSpeeds | None = None
    """None if they were not measured."""

    alternatives: tuple[Alternative, ...] = ()
    """In a replay: alternatives that were measured for calls that take much of the time."""

    tags: tuple[str, ...] = ()
    """Names given by the user."""

    results: tuple[Result, ...] = ()
    """The results so far, in the order they were measured."""

    @property
    def environment(self) -> Environment:
        """The first environment."""
        return self.environments[0] if self.environments else Environment()

    @property
    def imports(self) -> tuple[str, ...]:
        """The modules that each process under test imports first (`--import`)."""
        return tuple(self.settings.get("imports") or ())

    def missing(self) -> list[PlannedResult]:
        """The planned results that a resumed run measures.

        These are missing results, failures (their cause may be gone), and partial results, which
        start again. In a sweep, skipped cases too: their backend may be installed now.
        """
        retried = {Status.FAILED, Status.PARTIAL}
        if self.kind is RunKind.SWEEP:
            retried.add(Status.SKIPPED)
        there = {each.key for each in self.results if each.status not in retried}
        return [planned for planned in self.plan if planned.key not in there]

    @property
    def has_failures(self) -> bool:
        return any(each.status is Status.FAILED for each in self.results)

    def check_same_environments(
        self,
        now: tuple[Environment, ...],
        facts: Mapping[str, tuple[str, ...]] = DECISIVE,
        remedy: str = "start a new run",
    ) -> None:
        """Raise an InvalidArgumentError if one of these facts has changed since the run started."""
        for before, here in zip(self.environments, now, strict=True):
            for name, path in facts.items():
                if before.fact(*path) != here.fact(*path):
                    where = f" in {before.name}" if before.name else ""
                    raise InvalidArgumentError(
                        f"run {self.id} was started with {name} {before.fact(*path)}{where}, but "
                        f"this is {here.fact(*path)}; {remedy}"
                    )


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run as shown in a list."""

    id: str
    kind: RunKind
    started: str
    """Start time in UTC, as ISO 8601 with seconds."""

    state: RunState
    tags: tuple[str, ...]
    """Names that users gave it, oldest first."""

    planned: int
    """Number of planned results; the next four count the existing ones by status."""

    done: int
    failed: int
    skipped: int
    partial: int
    environments: tuple[Environment, ...]
    suite: str
    """What was measured: suites, a trace, the file of a sweep, or the first statement."""


Progress: TypeAlias = "Began | Stage | Note | Result"
"""Arguments of a progress callback."""


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """The measurement of a case has started."""

    case: Case
    metric: Metric


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence to show immediately; the report has it too."""

    text: str


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A step that takes a while and is not a measurement."""

    text: str
    is_over: bool = False
    """Whether the step has ended; otherwise it has started."""
