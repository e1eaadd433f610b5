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

    share: float
    """Of the step: what its calls take here. More than 1 where they take longer than the step."""

    @property
    def rest(self) -> float:
        """Seconds of the step that are in no call; negative where its calls take longer."""
        return self.time.median * (1 - self.share)


def compare_with_real_step(settings: ReplaySettings, call_seconds: float) -> RealStep | None:
    """`call_seconds` are those of all calls of one step; None where there is nothing to compare."""
    plain = settings.plain_steps
    if plain is None or not plain.seconds or not settings.is_whole or not call_seconds:
        return None
    time = MeasuredTime(
        median=median(plain.seconds),
        interval=median_interval(plain.seconds),
        samples=len(plain.seconds),
    )
    return RealStep(time=time, threads=plain.threads, share=call_seconds / time.median)
