"""The figures of a case over many runs, in the order of the code that was measured.

A history reads thousands of runs, so it needs no payloads: the store keeps the main figure of each
result in columns. Figures of different kinds of machines are never in one series.
"""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Iterable
from functools import cached_property

import msgspec

from torchmark.model.case import Case
from torchmark.model.run import DECISIVE, Environment, RunKind

REPEATED_RUN = "repeated_run"
"""A fact of an environment: the run whose doubtful times were measured again there. Such a run is
no part of a history, because its cases were chosen for their figures."""


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
        return comparable_time(self._fact_text("git", "committed") or "") or None

    @property
    def torch(self) -> str | None:
        """The version of torch."""
        return self._fact_text("torch", "version")

    @property
    def is_dirty(self) -> bool:
        """Whether files differed from the commit."""
        return bool(self.environment.fact("git", "dirty"))

    @cached_property
    def decisive(self) -> tuple[str, ...]:
        """The facts of `DECISIVE`, as text: with other values, figures are not comparable."""
        return tuple(str(self.environment.fact(*path)) for path in DECISIVE.values())

    @cached_property
    def machine(self) -> str:
        """The machine class: processor, number of cores and architecture."""
        return machine_class(self.environment)

    @cached_property
    def when(self) -> str:
        """The date of the commit, in UTC; without one, the time at which the run started."""
        return self.committed or comparable_time(self.started)

    @cached_property
    def place(self) -> tuple[str, tuple[int, ...], str, str]:
        """The position on the time axis: points are ordered by it.

        A commit that was measured with several versions of torch has them in their order, whenever
        they were measured.
        """
        started = comparable_time(self.started)
        return self.when, release_of(self.torch or ""), started, self.run

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
    first = "" if since is None else comparable_time(since)
    chosen = [
        each
        for each in origins
        if (branch is None or each.branch == branch)
        and each.when >= first
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


def repeated_run(environment: Environment) -> str:
    """The id of the run whose times were measured again in this environment; usually empty."""
    return str(environment.fact(REPEATED_RUN) or "")


def comparable_time(time: str) -> str:
    """The time in UTC, in a form that can be compared as text; empty if the text is no time.

    A time without an offset is in UTC.

    >>> comparable_time("2026-11-16T00:15:30+02:00")
    '2026-11-15T22:15:30+00:00'
    >>> comparable_time("2026-11-15T22:15:30Z") < comparable_time("2026-11-15T21:15:31-01:00")
    True
    """
    try:
        # Python 3.10 does not read the Z.
        read = datetime.datetime.fromisoformat(re.sub(r"[Zz]$", "+00:00", time))
        if read.tzinfo is None:
            read = read.replace(tzinfo=datetime.timezone.utc)
        return read.astimezone(datetime.timezone.utc).isoformat()
    except (ValueError, OverflowError):  # the year 1 in UTC may be the year 0
        return ""


def release_of(version: str) -> tuple[int, ...]:
    """The numbers of a release, to order versions by; empty if the text does not begin with one.

    >>> release_of("1.13.1") < release_of("2.9.1+cu128") < release_of("2.13.0a0+git1234")
    True
    """
    found = re.match(r"\d{1,9}(?:\.\d{1,9}){0,2}", version, re.ASCII)
    return tuple(map(int, found[0].split("."))) if found else ()
