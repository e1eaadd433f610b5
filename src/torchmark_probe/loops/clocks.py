"""The clocks: wall time, waiting for an accelerator where one is in use, and what a reading costs.

A synchronisation belongs to a reading of the clock, so a block of runs pays it twice however
many runs it has, and never once per run. On a machine without accelerator the clock is
`time.perf_counter` itself.
"""

import time
from typing import Any, Callable, NamedTuple, Optional

Clock = Callable[[], float]

_READINGS = 200
"""Readings from which a clock's resolution and cost are taken: some 10 µs of a good clock."""

_SPAN = 20
"""Readings over which a cost is taken, so that it is seen on a clock of coarse steps too."""

_PATIENCE = 0.1
"""Seconds to wait for a coarse clock to move; the coarsest in use steps by 16 ms."""


class ClockFacts(NamedTuple):
    """What a clock can resolve."""

    resolution: float
    """The smallest step seen between two readings, in seconds."""

    cost: float
    """What one reading takes, in seconds of that clock."""


class StoppedClockError(Exception):
    """The clock gave the same answer for as long as anyone would wait."""


def clock_facts(clock: Clock) -> ClockFacts:
    """Read the clock in quick succession and look at the steps between its answers."""
    readings = [clock() for _ in range(_READINGS)]
    give_up = time.perf_counter() + _PATIENCE
    while readings[-1] <= readings[0]:
        if time.perf_counter() > give_up:
            raise StoppedClockError(clock)
        readings.append(clock())
    steps = [later - earlier for earlier, later in zip(readings, readings[1:])]
    # Not the mean of all: one pause of the machine would be in it.
    spans = sorted(later - earlier for earlier, later in zip(readings, readings[_SPAN:]))
    return ClockFacts(
        resolution=min(step for step in steps if step > 0), cost=spans[len(spans) // 2] / _SPAN
    )


def synchroniser(torch: Any) -> Optional[Callable[[], None]]:
    """The call that waits for this machine's accelerator, or None where there is none.

    The call itself does nothing until the accelerator has been used: initialising a device just
    to wait for it would cost seconds and memory.
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
    # Some backends (MPS) have no lazy state to ask for; they are in use as soon as they exist.
    is_initialised = getattr(device_module, "is_initialized", None)

    def synchronise_if_in_use() -> None:
        if is_initialised is None or is_initialised():
            synchronise()

    return synchronise_if_in_use


def wall_clock(torch: Any) -> Clock:
    """A clock that first waits for the accelerator, or the plain one where there is none."""
    synchronise = synchroniser(torch)
    if synchronise is None:
        return time.perf_counter

    def synchronised_clock() -> float:
        synchronise()
        return time.perf_counter()

    return synchronised_clock
