"""Clocks: wall time, with waiting for an accelerator that is in use, and the cost of a reading.

The clock synchronises at each reading. So a block pays for two synchronisations, no matter how many
runs it has. On a machine without an accelerator the clock is `time.perf_counter` itself.
"""

import time
from typing import Any, Callable, NamedTuple, Optional

Clock = Callable[[], float]

_READINGS = 200
"""Readings for measuring a clock's resolution and cost: they take about 10 µs with a good clock."""

_SPAN = 20
"""Readings per measurement of the cost, so that it also works with a coarse clock."""

_PATIENCE = 0.1
"""Seconds to wait for a coarse clock to advance; the coarsest in use has steps of 16 ms."""


class ClockFacts(NamedTuple):
    """The precision of a clock."""

    resolution: float
    """The smallest step between two readings, in seconds."""

    cost: float
    """The time that one reading takes, in seconds of that clock."""


class StoppedClockError(Exception):
    """The clock did not advance within a reasonable time."""


def clock_facts(clock: Clock) -> ClockFacts:
    """Read the clock in quick succession and measure the steps between the readings."""
    readings = [clock() for _ in range(_READINGS)]
    give_up = time.perf_counter() + _PATIENCE
    while readings[-1] <= readings[0]:
        if time.perf_counter() > give_up:
            raise StoppedClockError(clock)
        readings.append(clock())
    steps = [later - earlier for earlier, later in zip(readings, readings[1:])]
    # Not the mean of all readings, which would include pauses of the machine.
    spans = sorted(later - earlier for earlier, later in zip(readings, readings[_SPAN:]))
    return ClockFacts(
        resolution=min(step for step in steps if step > 0), cost=spans[len(spans) // 2] / _SPAN
    )


def synchroniser(torch: Any) -> Optional[Callable[[], None]]:
    """Return the function that waits for this machine's accelerator; None if there is none.

    It does nothing before the accelerator has been used: initialising a device only to wait for it
    would cost seconds and memory.
    """
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        if not accelerator.is_available():
            return None
        device_module = torch.get_device_module(accelerator.current_accelerator())
        return _when_initialised(device_module, accelerator.synchronize)
    if torch.cuda.is_available():
        return _when_initialised(torch.cuda, torch.cuda.synchronize)
    return None


def _when_initialised(device_module: Any, synchronise: Callable[[], None]) -> Callable[[], None]:
    # Some backends (MPS) have no lazy initialisation; they are in use if they exist.
    is_initialised = getattr(device_module, "is_initialized", None)

    def synchronise_if_in_use() -> None:
        if is_initialised is None or is_initialised():
            synchronise()

    return synchronise_if_in_use


def wall_clock(torch: Any) -> Clock:
    """Return a clock that waits for the accelerator first, or the plain clock if there is none."""
    synchronise = synchroniser(torch)
    if synchronise is None:
        return time.perf_counter

    def synchronised_clock() -> float:
        synchronise()
        return time.perf_counter()

    return synchronised_clock
