"""One invocation of a command that measures: what was planned, where, how, and what came of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from typing import Any, TypeAlias

import msgspec

from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case  # noqa: TC001 - msgspec reads the annotations
from torchmark.model.environment import DECISIVE, Environment
from torchmark.model.result import Metric, Result, ResultKey, Status, key_of


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


class PlannedResult(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
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
        return key_of(self.case, self.metric, self.environments)


class MachineSpeeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the machine can do at best with so many threads, measured in the same run."""

    small_call_seconds: float
    """What an addition of two tensors of one element takes: nothing but overhead."""

    bytes_per_second: Mapping[int, float]
    """What a copy moves, read and written, by how many bytes it moves in all."""

    flops_per_second: Mapping[str, float]
    """What a large matrix product does, by the type of its elements."""


class Run(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
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

    tags: tuple[str, ...] = ()
    """Names that people gave it."""

    results: tuple[Result, ...] = ()
    """What there is so far, in the order in which it came."""

    @property
    def environment(self) -> Environment:
        """The first one, or the only one."""
        return self.environments[0] if self.environments else Environment()

    def missing(self) -> list[PlannedResult]:
        """What of the plan is not done: a failure is tried again, because its cause may be gone.

        In a sweep what was skipped is tried again too: its backend may be installed by now.
        """
        retried = {Status.FAILED, *([Status.SKIPPED] if self.kind is RunKind.SWEEP else [])}
        there = {each.key for each in self.results if each.status not in retried}
        return [planned for planned in self.plan if planned.key not in there]

    @property
    def has_failures(self) -> bool:
        return any(each.status is Status.FAILED for each in self.results)

    def check_same_environments(self, now: tuple[Environment, ...]) -> None:
        """An InvalidArgumentError unless what is decisive is as it was when the run began."""
        for before, here in zip(self.environments, now, strict=True):
            for name, path in DECISIVE.items():
                if before.fact(*path) != here.fact(*path):
                    where = f" in {before.name}" if before.name else ""
                    raise InvalidArgumentError(
                        f"run {self.id} began with {name} {before.fact(*path)}{where}, and this "
                        f"is {here.fact(*path)}; start a new run"
                    )


Progress: TypeAlias = "Began | Stage | Result"
"""What a progress callback hears of."""


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """A case is being measured now."""

    case: Case
    metric: Metric


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Something that takes its time and is no measurement."""

    text: str
    """What is being done."""

    is_over: bool = False
    """Whether it has just ended, rather than begun."""
