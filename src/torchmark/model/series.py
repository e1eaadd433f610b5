"""The figures of a case over many runs, in the order of the code that was measured.

A history reads thousands of runs, so it needs no payloads: the store keeps the main figure of each
result in columns. Figures of different kinds of machines are never in one series.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import cached_property

import msgspec

from torchmark.model.case import Case
from torchmark.model.run import Environment, RunKind


class Quantity(enum.Enum):
    """What a series shows."""

    TIME = "time"
    """Median seconds of one run."""

    INSTRUCTIONS = "instructions"
    """Instructions of one run."""

    MEMORY = "memory"
    """Peak bytes that one run allocates."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a result that a history needs; None if it has no such figure."""

    value: float | None = None
    """Median seconds or instructions of one run."""

    low: float | None = None
    """Lower end of the 95 % interval of the value."""

    high: float | None = None
    memory: float | None = None
    """Peak bytes that one run allocates."""


class Origin(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The run that a point comes from."""

    run: str
    """The id of the run."""

    started: str
    """Start time in UTC, as ISO 8601."""

    kind: RunKind
    suite: str
    environment: Environment

    @cached_property
    def commit(self) -> str | None:
        return self._fact_text("git", "commit")

    @cached_property
    def branch(self) -> str | None:
        return self._fact_text("git", "branch")

    @cached_property
    def committed(self) -> str | None:
        """The date of the commit in UTC, as ISO 8601; None outside of git."""
        return self._fact_text("git", "committed")

    @property
    def is_dirty(self) -> bool:
        """Whether files differed from the commit."""
        return bool(self.environment.fact("git", "dirty"))

    @cached_property
    def machine(self) -> str:
        """The machine class: processor, number of cores and architecture."""
        return machine_class(self.environment)

    @cached_property
    def when(self) -> str:
        """The date of the commit; without one, the time at which the run started."""
        return self.committed or self.started

    @cached_property
    def place(self) -> tuple[str, str, str]:
        """The position on the time axis: points are ordered by it."""
        return comparable_time(self.when), comparable_time(self.started), self.run

    def _fact_text(self, *path: str) -> str | None:
        fact = self.environment.fact(*path)
        return fact if isinstance(fact, str) else None


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a case in one run."""

    origin: Origin
    value: float
    low: float | None = None
    """Lower end of the 95 % interval; None for counts, and if there are too few samples."""

    high: float | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of one case on one class of machines."""

    case_id: str
    case: Case
    quantity: Quantity
    machine: str
    points: tuple[Point, ...]
    """In the order of `Origin.place`."""

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(point.value for point in self.points)


def choose_origins(
    origins: Iterable[Origin],
    *,
    branch: str | None = None,
    since: str | None = None,
    machine: str | None = None,
    newest: int | None = None,
) -> list[Origin]:
    """The runs on a branch, on a class of machines, since a date (ISO 8601); the newest of them."""
    chosen = [
        each
        for each in origins
        if (branch is None or each.branch == branch)
        and (since is None or each.when >= since)
        and (machine is None or each.machine == machine)
    ]
    return chosen if newest is None else chosen[max(0, len(chosen) - newest) :]


def machine_class(environment: Environment) -> str:
    """Processor, cores and architecture; figures of different classes are not comparable.

    >>> machine_class(Environment(facts={"machine": {
    ...     "cpu": "AMD EPYC", "cores": 2, "system": "Linux 6.1 x86_64", "host": "ci-17"}}))
    'AMD EPYC, 2 cores, x86_64'
    """
    cpu, cores, system = (environment.fact("machine", name) for name in ("cpu", "cores", "system"))
    parts = [
        str(cpu or "unknown processor"),
        *([f"{cores} cores"] if cores else []),
        *(str(system).split()[-1:] if system else []),
    ]
    return ", ".join(parts)


def comparable_time(time: str) -> str:
    """A time in UTC with its offset in one form, so that times can be compared as text.

    >>> comparable_time("2026-11-15T22:15:30Z") == comparable_time("2026-11-15T22:15:30+00:00")
    True
    """
    return time.removesuffix("Z").removesuffix("+00:00")
