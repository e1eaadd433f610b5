"""Environments without processes: made-up costs, a clock that they move, and a log of all."""

from __future__ import annotations

import os
import random
import stat
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.engine.zygote_cases import wait_until
from torchmark.engine.paired.timing import Zygotes
from torchmark.engine.zygote.cases import Count, Output
from torchmark.errors import CaseFailedError
from torchmark_probe.zygote.cases import warm_up_runs
from torchmark_probe.zygote.messages import BlockTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torchmark_probe.loops.sampling import Limits

BLOCK_SECONDS = 100e-6
"""What a block is made to take, by the number of its runs: as the probe has it."""


class Opened(NamedTuple):
    """A session that somebody asked for."""

    side: str
    case: Any
    layout: int
    shake: int
    cores: tuple[int, ...]
    time_limit: float
    while_others_run: bool = False


@dataclass(kw_only=True)
class World:
    """What all fakes of a test share."""

    cost: Callable[[Opened], float]
    """Seconds of one run."""

    opened: list[Opened] = field(default_factory=list)
    sessions: list[FakeSession] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    environments: list[FakeOpens] = field(default_factory=list)
    now: float = 0.0
    """The clock, which blocks move, and launches that are said to take time."""

    fails: Callable[[Opened], bool] = lambda _: False
    """Whether no session can be opened."""

    is_small: bool = False
    """Whether all data fits the caches of a core."""

    processor_share: Callable[[Opened], float] = lambda _: 1.0
    """Of the time of blocks, what the process has the processor for."""

    fails_late: Callable[[Opened], bool] = lambda _: False
    """Whether the session fails in its blocks."""

    def clock(self) -> SimpleNamespace:
        """What stands in for the module `time`."""
        return SimpleNamespace(perf_counter=lambda: self.now)

    def opens(
        self, side: str, layout: int = 0, starting: Callable[[], None] = lambda: None
    ) -> FakeOpens:
        environment = FakeOpens(self, side, layout, starting)
        self.environments.append(environment)
        return environment


def noisy_world(jitters: dict[str, float], ratios: dict[str, float] | None = None) -> World:
    """Processes of B differ from those of A by chance, by the case's jitter."""
    draw = random.Random(1)
    a_seconds = 1e-4

    def cost(opened: Opened) -> float:
        if opened.side == "A":
            return a_seconds
        ratio = (ratios or {}).get(opened.case, 1.0)
        return a_seconds * ratio * (1 + draw.gauss(0, jitters[opened.case]))

    return World(cost=cost)


class Begun(NamedTuple):
    """Blocks that a session was told to take."""

    side: str
    order: tuple[int, ...]
    role: int
    number: int
    batons: tuple[Path, Path]


class FakeOpens:
    def __init__(
        self, world: World, side: str, layout: int, starting: Callable[[], None] = lambda: None
    ) -> None:
        self._world = world
        self.start = starting
        self.side = side
        self.layout = layout
        self.closed = 0
        self.moves: list[frozenset[int]] = []

    def session(
        self,
        case: Any,
        *,
        limits: Limits,
        shake: int,
        cores: Collection[int],
        while_others_run: bool,
        time_limit: float,
    ) -> FakeSession:
        assert not self.closed, "a session of zygotes that have ended"
        opened = Opened(
            self.side, case, self.layout, shake, tuple(cores), time_limit, while_others_run
        )
        self._world.opened.append(opened)
        if self._world.fails(opened):
            raise CaseFailedError(f"{case} does not work", kind="raised")
        session = FakeSession(self._world, opened)
        self._world.sessions.append(session)
        return session

    def run_on(self, cores: Collection[int]) -> None:
        assert not self.closed
        self.moves.append(frozenset(cores))

    def close(self) -> None:
        self.closed += 1


class FakeSession:
    def __init__(self, world: World, opened: Opened) -> None:
        self._world = world
        self._opened = opened
        self._cost = world.cost(opened)
        self.number = max(1, round(BLOCK_SECONDS / self._cost))
        self.seconds = self._cost * self.number
        self.is_small = world.is_small
        self.closed = 0
        self.begun: Begun | None = None

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None:
        for baton in batons:
            status = os.stat(baton)
            assert stat.S_ISFIFO(status.st_mode), "the other process waits for a pipe"
            assert stat.S_IMODE(status.st_mode) == 0o600
            assert stat.S_IMODE(os.stat(baton.parent).st_mode) == 0o700
        self.begun = Begun(self._opened.side, tuple(order), role, number, batons)
        self._world.begun.append(self.begun)

    def blocks(self) -> BlockTimes:
        assert self.begun is not None
        if self._world.fails_late(self._opened):
            raise CaseFailedError("it fails in its blocks", kind="raised")
        number = self.begun.number
        wall = self._cost * number
        count = self.begun.order.count(self.begun.role)
        self._world.now += (wall + self._cost * warm_up_runs(number)) * count
        processor = wall * count * self._world.processor_share(self._opened)
        warm_ups = [self._cost * warm_up_runs(number)] * count
        return BlockTimes([wall] * count, warm_ups, processor)

    def close(self) -> None:
        self.closed += 1


class Starting:
    """Starts made-up environments, A and B, and knows the thread of each start."""

    def __init__(
        self, world: World, sides: tuple[str, str] = ("A", "B"), seconds: float = 0.0
    ) -> None:
        """`seconds` is what a start of both takes."""
        self._world = world
        self._sides = sides
        self._seconds = seconds
        self.layouts: list[int] = []
        self.threads: dict[int, threading.Thread] = {}
        self.gates: dict[int, threading.Event] = {}
        """A start whose layout is in here goes on when its event is set."""

    def __call__(self, layout: int) -> Zygotes:
        self.layouts.append(layout)

        def start_a() -> None:
            self.threads[layout] = threading.current_thread()
            self._world.now += self._seconds
            if layout in self.gates:
                assert self.gates[layout].wait(900)

        one, other = self._sides
        return Zygotes(self._world.opens(one, layout, start_a), self._world.opens(other, layout))

    def wait_for(self, layout: int) -> None:
        """Return when this start is over and whoever waits for it can have it."""
        wait_until(lambda: layout in self.threads)
        self.threads[layout].join(60)
        assert not self.threads[layout].is_alive()


_CALLGRIND = """\
# callgrind format
version: 1
creator: fake
positions: line
events: Ir
fl=a.c
fn=f
1 {instructions}

totals: {instructions}
"""


class CountedBy(NamedTuple):
    """Where something is counted."""

    side: str
    layout: int
    stmt: str


class FakeUnderTest:
    """An environment that only counts: what a statement takes there is a function of the test."""

    def __init__(
        self, name: str, folder: Path, instructions: Callable[[CountedBy], int], installation: str
    ) -> None:
        self.name = name
        self.folder = folder
        self.instructions = instructions
        self.installation = installation
        self.zygotes: list[FakeCounter] = []

    @property
    def environment(self) -> FakeUnderTest:
        return self

    def is_same_installation(self, other: FakeUnderTest) -> bool:
        return self.installation == other.installation

    @property
    def workers(self) -> FakeUnderTest:
        return self

    def fresh(self, threads: int, *, layout: int, under_callgrind: bool) -> FakeCounter:
        assert under_callgrind
        zygote = FakeCounter(self, threads, layout)
        self.zygotes.append(zygote)
        return zygote

    @property
    def layouts(self) -> list[int]:
        return [zygote.layout for zygote in self.zygotes]

    def counted_in(self, layout: int) -> list[str]:
        return sorted(
            stmt for zygote in self.zygotes if zygote.layout == layout for stmt in zygote.asked
        )


class FakeCounter:
    def __init__(self, under_test: FakeUnderTest, threads: int, layout: int) -> None:
        self._under_test = under_test
        self.threads = threads
        self.layout = layout
        self.asked: list[str] = []
        self.log: list[str] = []
        """What happened, in order."""
        self.time_limits: set[float] = set()
        self.is_open = False

    def __enter__(self) -> FakeCounter:
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def start(self) -> None:
        assert self.is_open
        self.log.append("started")

    def count(
        self, case: Any, *, number: int, time_limit: float, memory_limit: int | None
    ) -> Count:
        assert self.is_open
        assert memory_limit is None
        if case.stmt != "pass":
            self.asked.append(case.stmt)
            self.time_limits.add(time_limit)
        self.log.append(case.stmt)
        if case.stmt in (f"fails in {self._under_test.name}", "fails in both"):
            raise CaseFailedError(f"{case.stmt} does not work", kind="raised")
        where = CountedBy(self._under_test.name, self.layout, case.stmt)
        each = 3 if case.stmt == "pass" else 3 + self._under_test.instructions(where)
        handle, name = tempfile.mkstemp(dir=self._under_test.folder)
        os.close(handle)
        path = Path(name)
        path.write_text(_CALLGRIND.format(instructions=each * number))
        return Count(path, Output(stdout="", stderr=""))
