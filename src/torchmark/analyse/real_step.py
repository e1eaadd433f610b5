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
    def ran(self) -> float:
        """Seconds of the step in which the program ran; all of it where nobody knows."""
        return self.time.median if self.running is None else min(self.running, self.time.median)

    @property
    def waited(self) -> float:
        """Seconds in which it did not run: it waited for data, or other programs had the core."""
        return self.time.median - self.ran

    @property
    def share(self) -> float:
        """What its calls take, of the time that it ran; more than 1 where they take longer."""
        return self.calls / self.ran

    @property
    def rest(self) -> float:
        """Seconds in which it ran and made no calls; negative where the calls take longer."""
        return self.ran - self.calls


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
