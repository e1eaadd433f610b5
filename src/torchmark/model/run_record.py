"""What a run leaves: the run itself, and one result for each case and kind of measurement."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.case import Case
    from torchmark.model.measurement import Measurement
    from torchmark.model.sweep_record import SweepRow


class Kind(enum.Enum):
    """What was measured of a case."""

    TIME = "time"
    COUNT = "count"


class Outcome(enum.Enum):
    """How it went."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class RunState(enum.Enum):
    """How far a run has come."""

    RUNNING = "running"
    """Running now, or ended without a word: killed."""

    INTERRUPTED = "interrupted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of `torchmark run`."""

    id: str
    """Sorts by the time at which the run began."""

    started: str
    """When, in UTC, as ISO 8601 with seconds."""

    state: RunState = RunState.RUNNING

    plan: tuple[tuple[Case, Kind], ...]
    """All that is to be measured, in order; a resumed run does what is missing."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The options that change results (plain JSON); a resumed run goes on with them."""

    environment: Mapping[str, Any] = field(default_factory=dict)
    """Where it ran: torch, Python, compiler, CPU, load, git commit (plain JSON)."""

    tags: tuple[str, ...] = ()
    """Names that people gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What came of one case and one kind of measurement."""

    case: Case
    kind: Kind
    outcome: Outcome

    finished: str
    """When, in UTC, as ISO 8601 with seconds."""

    seconds: float = 0.0
    """What it took to get, from the hand-over to the end."""

    reason: str = ""
    """Why it failed or was skipped, for a person; the first line says the most."""

    stdout: str = ""
    stderr: str = ""
    """What the case printed."""

    measurement: Measurement | None = None
    """Of a TIME that is DONE."""

    counts: CallgrindStats | None = None
    """Of a COUNT that is DONE."""

    compile_seconds: float | None = None
    """What torch.compile took before the first run, where the case is compiled."""

    sweep: SweepRow | None = None
    """The row of a case of a sweep."""
