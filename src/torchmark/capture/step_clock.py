"""Time the real steps: those that run after the capture has stopped.

A captured step takes several times as long as a real one, so captured steps are not timed. After
the capture, only one hook is left, which reads a clock at the end of a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from torchmark.model.trace import PlainSteps

PLAIN_STEPS = 10
"""Steps that are timed. The report shows their median, which one slow step does not move."""


class StepClock:
    """Times steps; it must be called at the end of every step after the capture has stopped."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        thread_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clocks = (clock, thread_clock)
        self._steps: list[tuple[float, float]] = []
        """Seconds on both clocks."""

        self._threads: int | None = None
        """torch's threads when the capture stopped; None before that."""

        self._last: tuple[float, float] | None = None
        """When the last step ended; None if steps cannot be timed."""

    def capture_stopped(self, *, is_plain: bool) -> None:
        """Start timing, if `is_plain`: nothing of the capture slows the next steps down.

        Only the first call has an effect.
        """
        if self._threads is None:
            self._threads = torch.get_num_threads()
            self._last = self._now() if is_plain else None

    def step_ended(self) -> bool:
        """Time the step that ended; return whether it was the last one to time."""
        if self._last is None or len(self._steps) == PLAIN_STEPS:
            return False
        before, now = self._last, self._now()
        self._steps.append((now[0] - before[0], now[1] - before[1]))
        self._last = now
        return len(self._steps) == PLAIN_STEPS

    def plain_steps(self) -> PlainSteps:
        return PlainSteps(
            seconds=tuple(seconds for seconds, _ in self._steps),
            running=tuple(running for _, running in self._steps),
            threads=torch.get_num_threads() if self._threads is None else self._threads,
        )

    def _now(self) -> tuple[float, float]:
        clock, thread_clock = self._clocks
        return clock(), thread_clock()
