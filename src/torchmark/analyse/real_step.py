"""Compare the calls of a step with the real step, which was timed after the capture.

A real step also runs Python, autograd and what the program does between two steps, such as
loading data.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchmark.analyse.estimates import MeasuredTime
from torchmark.model.run_settings import ReplaySettings
from torchmark_probe.loops.intervals import median, median_interval

_UNSTEADY = 0.25
"""If an end of the interval of a real step is farther from the median than this share of it, a
comparison with the calls says little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealStep:
    """The time of a real step, and the time that its calls take in the replay."""

    time: MeasuredTime
    threads: int
    """Number of torch threads of the model."""

    calls: float
    """Seconds that the calls of a step take in the replay."""

    running: float | None
    """Seconds of the step in which the program ran; None if the trace does not have them."""

    @property
    def ran(self) -> float:
        """Seconds of the step in which the program ran; the whole step if that is not known."""
        return self.time.median if self.running is None else min(self.running, self.time.median)

    @property
    def waited(self) -> float:
        """Seconds in which the program waited: for data, or because others used the core."""
        return self.time.median - self.ran

    @property
    def is_unsteady(self) -> bool:
        """Whether the steps took very different times."""
        if self.time.interval is None:
            return False
        return max(abs(end - self.time.median) for end in self.time.interval) > (
            _UNSTEADY * self.time.median
        )

    @property
    def share(self) -> float:
        """Time of the calls over the time that the step ran; may exceed 1."""
        return self.calls / self.ran

    @property
    def rest(self) -> float:
        """Seconds in which the step ran but made no calls; negative if the calls take longer."""
        return self.ran - self.calls


def compare_with_real_step(settings: ReplaySettings, call_seconds: float) -> RealStep | None:
    """Compare a real step with `call_seconds`, the time of all calls of a step, if both exist."""
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
