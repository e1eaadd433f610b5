"""One invocation of a command that measures: what was planned, where, how, and what came of it."""

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
"""Seconds that a case may take in one process where nothing else is said."""

FEWEST_REPLICATES = 5
"""Fresh launches of both environments below which a comparison has no verdict."""

USUAL_LIMITS = Limits(precision=0.01, min_run_time=0.2, max_run_time=2.0)

QUICK_LIMITS = Limits(precision=0.02, min_run_time=0.1, max_run_time=0.5)
"""For a person who waits: half of the runs, and a fourth of the patience."""

DECISIVE = {
    "torchmark": ("torchmark",),
    "torch": ("torch", "version"),
    "torch's commit": ("torch", "git"),
    "Python": ("python",),
    "the processor": ("machine", "cpu"),
}
"""The facts that change results: where one differs, results do not belong together."""


class Environment(Record, frozen=True, kw_only=True):
    """One environment, as it was found before anything was measured."""

    name: str = ""
    """What people call it: "A", "B", "base"; empty for the one that torchmark runs in."""

    command: str = ""
    """The shell command that activates it; empty for the one that torchmark runs in."""

    facts: Mapping[str, Any] = {}
    """Plain JSON: interpreter, Python, torch build, compiler, machine, git commit."""

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that follow from the decisive facts."""
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
    """What every case of a run gets."""

    limits: Limits = USUAL_LIMITS
    runs: int = 100
    """Runs of the statement that are counted."""

    repeats: int = 1
    """Fresh processes in which each case is measured."""

    timeout: float = TIME_LIMIT
    """Seconds that a case may take in one process."""

    memory: int | None = None
    """Bytes that a case may take beyond what its zygote has; None for all that there are."""

    budget: float = 10.0
    """Seconds of paired timing for a case, after which it is left unclear: in ten a change of one
    per cent is found on a machine with some noise."""

    pair_seconds: float = 0.03
    """Seconds of blocks for a process pair. Forking, setting up and warming up take as long. What a
    pair says of small operators belongs to it and not to its rounds: of pairs of 0.15 s the rounds
    are 2 to 4 % of the variance, so short ones spread as much, and there are more of them."""

    replicates: int = FEWEST_REPLICATES
    """Fresh launches of both environments that every case gets whatever the budget."""

    detect: float | None = None
    """The change that is to be detectable in every case, as a share: a case goes on until it is,
    and the budget is the most that it gets. None where the budget alone says how long."""

    hurry: bool = False
    """Whether replicates are wanted soon rather than precise ones: no more crossovers while a
    launch is waited for, and one look at the end. Looking costs, so one look finds more."""

    seed: int = 0
    """Of the order of blocks, and of inputs that are made."""


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
    """How far a run has come."""

    RUNNING = "running"
    """Running now, or killed: a killed process cannot say so."""

    INTERRUPTED = "interrupted"
    FINISHED = "finished"


class MachineSpeeds(Record, frozen=True, kw_only=True):
    """What the machine can do at best with so many threads, measured in the same run."""

    small_call_seconds: float
    """What an addition of two tensors of one element takes: nothing but overhead."""

    bytes_per_second: Mapping[int, float]
    """What a copy moves, read and written, by how many bytes it moves in all."""

    flops_per_second: Mapping[str, float]
    """What a large matrix product does, by the type of its elements."""


class Change(enum.Enum):
    """What is done otherwise in an alternative to a call."""

    CONTIGUOUS = "contiguous"
    """The same call, with inputs that are contiguous."""

    FLOAT32 = "float32"
    """The same call, in float32 in place of a type with fewer bits."""

    FUSED = "fused"
    """A step of the same optimizer on the same parameters, with fused=True."""


class Alternative(Record, frozen=True, kw_only=True):
    """What calls of a replay take by themselves, and what an alternative to them takes."""

    change: Change
    calls: tuple[int, ...]
    """Numbers of the calls that it would stand in for."""

    times: int
    """How often a step would make it."""

    what: str
    """What is compared, for a person: an optimizer's step; empty for a call."""

    present: TimeSummary
    """As the model does it."""

    changed: TimeSummary
    copying: TimeSummary | None = None
    """What it takes to make the inputs contiguous, where that is the change."""


class Run(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A run, as the store holds it."""

    id: str
    """Sorts by the time at which the run began."""

    kind: RunKind
    started: str
    """When, in UTC, as ISO 8601 with seconds."""

    state: RunState = RunState.RUNNING

    plan: tuple[PlannedResult, ...] = ()
    """All that is to be measured, in order; a resumed run does what is missing."""

    environments: tuple[Environment, ...] = ()
    """Where it runs; of a comparison, the first is what the others are compared with."""

    settings: Mapping[str, Any] = {}
    """The options that change results (plain JSON); a resumed run goes on with them."""

    notes: tuple[str, ...] = ()
    """What a reader should know before the figures, in sentences."""

    speeds: MachineSpeeds | None = None
    """None where they were not measured."""

    alternatives: tuple[Alternative, ...] = ()
    """Of a replay: what was tried in place of calls that take much of the time."""

    tags: tuple[str, ...] = ()
    """Names that people gave it."""

    results: tuple[Result, ...] = ()
    """What there is so far, in the order in which it came."""

    @property
    def environment(self) -> Environment:
        """The first one, or the only one."""
        return self.environments[0] if self.environments else Environment()

    @property
    def imports(self) -> tuple[str, ...]:
        """The modules that every process under test imports first, because the user said so."""
        return tuple(self.settings.get("imports") or ())

    def missing(self) -> list[PlannedResult]:
        """What of the plan is not done: a failure is tried again, because its cause may be gone.

        What is partial is measured again from the start. In a sweep what was skipped is tried again
        too: its backend may be installed by now.
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
        """An InvalidArgumentError unless these facts are as they were when the run began."""
        for before, here in zip(self.environments, now, strict=True):
            for name, path in facts.items():
                if before.fact(*path) != here.fact(*path):
                    where = f" in {before.name}" if before.name else ""
                    raise InvalidArgumentError(
                        f"run {self.id} began with {name} {before.fact(*path)}{where}, and this "
                        f"is {here.fact(*path)}; {remedy}"
                    )


Progress: TypeAlias = "Began | Stage | Note | Result"
"""What a progress callback hears of."""


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """A case is being measured now."""

    case: Case
    metric: Metric


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something that people should know now, and that the report says too."""

    text: str


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Something that takes its time and is no measurement."""

    text: str
    is_over: bool = False
    """Whether it has just ended, rather than begun."""
