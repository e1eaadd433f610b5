"""Which cores take times, and which do everything else, beside what is measured.

A time is taken on a core that is kept for it; counting and compiling fill the others, since they
only take longer when they are disturbed. Where the machine has several memory nodes each gets a
lane of its own, so that two lanes do not share a memory bus. The other hardware thread of a core
that takes times stays idle if there are enough cores.

A core that takes times is reserved by a lock, so that two processes of a user do not take the same
one. Where all are taken, or no lock can be had, a run goes on all the same: the reference loop
shows that something else used the core, and the results carry that warning.
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
"""The processor time that a container may use: microseconds of every period, or "max"."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Core:
    """One hardware thread, as the kernel numbers them."""

    node: int
    """The memory node that it is near to."""

    physical: tuple[int, int]
    """Socket and core: hardware threads with the same share one."""

    number: int
    """What `sched_setaffinity` calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Who runs where."""

    lanes: tuple[tuple[int, ...], ...]
    """Cores of each lane that takes times; a lane takes one time after the other."""

    others: tuple[int, ...]
    """Cores that count and compile; empty where there is one physical core for everything, and
    one thing is done after the other."""

    everything: tuple[int, ...]
    """All cores: for a case with more threads than a lane has, while nothing else runs."""

    @property
    def lane_width(self) -> int:
        """Threads that a lane has a core for."""
        return len(self.lanes[0])

    def cores_for(self, threads: int) -> tuple[int, ...]:
        """The cores on which one case after the other, of so many threads, is timed."""
        return self.everything if threads > self.lane_width else self.lanes[0][:threads]


def divide_cores(cores: Iterable[Core], widest: int, taken: Collection[int] = ()) -> Division:
    """Lanes for cases of up to `widest` threads, as far as half of the cores suffice for that.

    Cores that are `taken` get a lane only where there are no others.
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
    """The first cores of a node, if it has as many again for the rest of the work.

    A machine with few cores has one lane: more would leave nothing to count and compile on.
    """
    if len(node) < 2 * width or (all_cores <= 4 and node[0].node != 0):
        return ()
    return tuple(node[:width])


@contextmanager
def reserve_lanes(cores: Sequence[Core], widest: int) -> Iterator[Division]:
    """Divide these cores; lanes are on cores that nobody else has reserved, if possible."""
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
    """Let one process at a time look at the locks and take some."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a cache that cannot be written: nobody is asked
            stack.enter_context(hold_lock(make_folder(folder) / "lock"))
        yield


def usable_cores(system: Path = _SYSTEM, quota: Path = _QUOTA) -> list[Core]:
    """The cores on which this process may run, no more of them than it has time for.

    A container that is given the time of two cores may be seen to run on sixty-four; to use them
    all would stop all of them in the middle of every period.
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
    """How many cores the quota is good for; None without one."""
    try:
        share, period = file.read_text().split()
        return max(1, math.ceil(int(share) / int(period)))
    except (OSError, ValueError):  # no cgroup, an older one, or "max"
        return None


@contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Keep the calling thread, and what it starts, on these cores; none leaves it where it is."""
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
    except (OSError, ValueError):  # a container may hide it: then each is taken for its own
        return (-1, number)


def _numbers(text: str) -> list[int]:
    """The numbers in a list of the kernel's.

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
    """Work in a thread beside what is measured; the future gives, or raises, what it does.

    Not in a pool of concurrent.futures: those are joined when the interpreter ends, and this must
    never hold that up.
    """
    future: Future[_Result] = Future()

    def do() -> None:
        try:
            result = work()
        except BaseException as error:  # it is the future that raises it
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=do, name=f"torchmark {name}", daemon=True).start()
    return future
