"""Divides the cores: some take times, the others count and compile at the same time.

A core that takes times does nothing else. Counting and compiling use the other cores: a disturbance
only makes them slower. On a machine with several memory nodes, each node gets a lane, so that two
lanes do not share a memory bus. The second hardware thread of a core that takes times stays idle if
there are enough cores.

A lock reserves each core that takes times, so that two processes of a user do not use the same
core. If all are taken, or locks do not work, the run continues anyway: the reference loop detects
that something else used the core, and the results carry that warning.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from threading import Thread
from typing import TypeVar

from torchmark.engine.files import hold_lock, is_locked, take_lock
from torchmark.files import cache_directory, make_folder

_Result = TypeVar("_Result")

_SYSTEM = Path("/sys/devices/system")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""The CPU time that a container may use: microseconds per period, or "max"."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Core:
    """One hardware thread, as numbered by the kernel."""

    node: int
    """The nearest memory node."""

    physical: tuple[int, int]
    """Socket and core; hardware threads with equal values share a core."""

    number: int
    """The number for `sched_setaffinity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Which cores do what."""

    lanes: tuple[tuple[int, ...], ...]
    """The cores of each lane; a lane takes one time after another."""

    others: tuple[int, ...]
    """Cores that count and compile. Empty if the machine has a single physical core; everything
    then runs one after another."""

    everything: tuple[int, ...]
    """All cores, for cases with more threads than a lane has cores; nothing else runs then."""

    @property
    def lane_width(self) -> int:
        """The number of cores in a lane."""
        return len(self.lanes[0])

    def cores_for(self, threads: int) -> tuple[int, ...]:
        """The cores for timing cases with this number of threads, one after another."""
        return self.everything if threads > self.lane_width else self.lanes[0][:threads]


def divide_cores(cores: Iterable[Core], widest: int, taken: Collection[int] = ()) -> Division:
    """Make lanes for cases of up to `widest` threads, using at most half of the cores.

    Cores in `taken` are only used for a lane if there are no others.
    """
    ordered = sorted(cores)
    everything = tuple(core.number for core in ordered)
    firsts = [next(same) for _, same in groupby(ordered, attrgetter("physical"))]
    if len(firsts) == 1:
        return Division(lanes=(everything[:1],), others=(), everything=everything)
    width = max(1, min(widest, len(firsts) // 2))
    free = [core for core in firsts if core.number not in taken]
    nodes = [list(node) for _, node in groupby(free, attrgetter("node"))]
    lanes = [lane for node in nodes if (lane := _lane(node, width, len(ordered)))]
    if not lanes:
        lanes = [tuple([*free, *(core for core in firsts if core not in free)][:width])]
    busy = {core.physical for lane in lanes for core in lane}
    return Division(
        lanes=tuple(tuple(core.number for core in lane) for lane in lanes),
        others=tuple(core.number for core in ordered if core.physical not in busy),
        everything=everything,
    )


def _lane(node: Sequence[Core], width: int, all_cores: int) -> tuple[Core, ...]:
    """The first cores of a node, if as many are left for the rest of the work.

    A machine with few cores gets one lane; more would leave no core to count and compile on.
    """
    if len(node) < 2 * width or (all_cores <= 4 and node[0].node != 0):
        return ()
    return tuple(node[:width])


@contextmanager
def reserve_lanes(cores: Sequence[Core], widest: int) -> Iterator[Division]:
    """Divide these cores; lanes use cores that nobody else has reserved, if possible."""
    folder = cache_directory() / "cores"
    with contextlib.ExitStack() as held:
        with _one_at_a_time(folder):
            taken = {core.number for core in cores if is_locked(folder / str(core.number))}
            division = divide_cores(cores, widest, taken)
            for number in (number for lane in division.lanes for number in lane):
                descriptor = take_lock(folder / str(number))
                if descriptor is not None:
                    held.callback(os.close, descriptor)
        yield division


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time check and take the locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # the cache is not writable: go on without the lock
            stack.enter_context(hold_lock(make_folder(folder) / "lock"))
        yield


def usable_cores(system: Path = _SYSTEM, quota: Path = _QUOTA) -> list[Core]:
    """Return the cores on which this process may run, limited by its CPU quota.

    A container may show 64 cores but only grant the CPU time of two. Using all 64 would pause all
    of them in the middle of every period.
    """
    nodes = {
        number: int(folder.name.removeprefix("node"))
        for folder in (system / "node").glob("node[0-9]*")
        for number in _numbers((folder / "cpulist").read_text())
    }
    cores = [
        Core(
            node=nodes.get(number, 0),
            physical=_physical(system / "cpu" / f"cpu{number}" / "topology", number),
            number=number,
        )
        for number in sorted(os.sched_getaffinity(0))
    ]
    return cores[: _cores_of_quota(quota)]


def _cores_of_quota(file: Path) -> int | None:
    """Return the number of cores that the quota allows; None without a quota."""
    try:
        share, period = file.read_text().split()
        return max(1, math.ceil(int(share) / int(period)))
    except (OSError, ValueError):  # no cgroup, an older one, or "max"
        return None


@contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Pin the calling thread and its children to these cores; no cores means no change."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _physical(topology: Path, number: int) -> tuple[int, int]:
    try:
        return (
            int((topology / "physical_package_id").read_text()),
            int((topology / "core_id").read_text()),
        )
    except (OSError, ValueError):  # a container may hide it: treat each as a separate core
        return (-1, number)


def _numbers(text: str) -> list[int]:
    """Parse a list of numbers in the kernel's notation.

    >>> _numbers("0-2,8")
    [0, 1, 2, 8]
    """
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers += range(int(first), int(last or first) + 1)
    return numbers


def begin(work: Callable[[], _Result], name: str) -> Future[_Result]:
    """Run `work` in a background thread; the future gets its result or its exception.

    concurrent.futures has pools for this, but the interpreter joins their threads at exit. This
    thread must not delay the exit.
    """
    future: Future[_Result] = Future()

    def do() -> None:
        try:
            result = work()
        except BaseException as error:  # the future raises it
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=do, name=f"torchmark {name}", daemon=True).start()
    return future
