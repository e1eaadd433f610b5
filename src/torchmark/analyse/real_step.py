"""The calls of a step compared with the step itself, which was timed where it was captured.

What a real step has and its calls lack is Python, autograd and whatever the program does between
two steps, such as loading data.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchmark.analyse.estimates import MeasuredTime
from torchmark.model.run_settings import ReplaySettings
from torchmark_probe.loops.intervals import median, median_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RealStep:
    """What a step took after its capture, and how much of that its calls take in the replay."""

    time: MeasuredTime
    threads: int
    """That the model had."""

    calls: float
    """Seconds that the calls of a step take in the replay."""

    running: float | None
    """Seconds of the step in which the program ran; None where the trace does not know."""

    @property
    def share(self) -> float:
        """Of the step: what its calls take. More than 1 where they take longer than the step."""
        return self.calls / self.time.median

    @property
    def waiting(self) -> float:
        """Seconds in which the program waited, for data or for a core."""
        return 0.0 if self.running is None else max(0.0, self.time.median - self.running)

    @property
    def rest(self) -> float:
        """Seconds of the step in which it neither waited nor made calls; they may be negative."""
        return self.time.median - self.waiting - self.calls


def compare_with_real_step(settings: ReplaySettings, call_seconds: float) -> RealStep | None:
    """`call_seconds` are those of all calls of one step; None where there is nothing to compare."""
    plain = settings.plain_steps
    if plain is None or not plain.seconds or not settings.is_whole or not call_seconds:
        return None
    return RealStep(
        time=MeasuredTime(
            median=median(plain.seconds),
            interval=median_interval(plain.seconds),
            samples=len(plain.seconds),
        ),
        threads=plain.threads,
        calls=call_seconds,
        running=median(plain.running) if plain.running else None,
    )
