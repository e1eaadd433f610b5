"""What a measurement of the instruction-count suite is given and gives back."""

from __future__ import annotations

from dataclasses import dataclass

from torchmark import TimerArgs

MIN_RUN_TIME = 5
"""Seconds for which a statement is timed."""

CALLGRIND_NUMBER = 100
"""Runs that are counted."""

CALLGRIND_REPEATS = 5

WorkerTimerArgs = TimerArgs


@dataclass(frozen=True)
class WorkerOutput:
    wall_times: tuple[float, ...]
    """Seconds per run, one for each block."""

    instructions: tuple[int, ...]
    """Of CALLGRIND_NUMBER runs, one for each repetition."""


@dataclass(frozen=True)
class WorkerFailure:
    failure_trace: str
