"""A zygote without processes: it answers at once, and remembers what ran beside what."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmark.engine.under_test import Workers
from torchmark.engine.zygote.cases import Count, Output, PythonCase, Sample
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.errors import CaseFailedError, ZygoteError
from torchmark_probe.loops.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchmark.engine.zygote.cases import NativeCase
    from torchmark.engine.zygote.process import Launch
    from torchmark.errors import TorchmarkError

_COUNTS = """\
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


class FakeWorld:
    """What all zygotes of a test share."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.start_failure: TorchmarkError | None = None
        self.starts: list[tuple[int, bool]] = []
        self.closed = 0
        self.meeting_seconds = 0.01
        """How long a case that is alone waits for another one to come."""
        self.deaths = 0
        """Zygotes that die in the next times that are taken."""
        self.overlaps: set[frozenset[str]] = set()
        """Statements that were seen to run at the same time."""
        self.cores: dict[str, tuple[int, ...]] = {}
        self.counts = iter(range(1000, 2000))
        self.repeatable = True
        self._running: set[str] = set()
        self._lock = threading.Lock()
        self._somebody_came = threading.Condition(self._lock)
        self._number = 0

    def zygote(self, launch: Launch, *, at_once: int) -> FakeZygote:
        return FakeZygote(self, launch, at_once)

    def workers(self) -> Workers:
        pool = ZygotePool(at_once=1024, make_zygote=self.zygote)  # type: ignore[arg-type]
        return Workers(pool=pool)

    @contextmanager
    def running(self, what: str) -> Iterator[None]:
        with self._somebody_came:
            self.overlaps |= {frozenset({what, other}) for other in self._running}
            self._running.add(what)
            self._somebody_came.notify_all()
            if len(self._running) == 1:
                # Whoever may run beside this one gets the time to do so.
                self._somebody_came.wait(self.meeting_seconds)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(what)

    def new_file(self) -> Path:
        with self._lock:
            self._number += 1
            path = self.directory / f"callgrind.out.{self._number}"
        instructions = 1000 if self.repeatable else next(self.counts)
        path.write_text(_COUNTS.format(instructions=instructions))
        return path


class FakeZygote:
    def __init__(self, world: FakeWorld, launch: Launch, at_once: int) -> None:
        self.world = world
        self.key = (launch.threads, launch.under_callgrind)
        self.at_once = at_once

    def start(self) -> dict[str, Any]:
        self.world.starts.append(self.key)
        if self.world.start_failure is not None:
            raise self.world.start_failure
        return {"torch": "2.13.0", "executable": "python"}

    def close(self) -> None:
        self.world.closed += 1

    def run(self, case: PythonCase, *, cores: Collection[int], time_limit: float) -> Output:
        _fail_if_asked(case)
        self.world.cores["model"] = tuple(cores)
        Path(case.stmt.split("save('")[1].split("'")[0]).write_bytes(b"model")
        return Output(stdout="", stderr="")

    def sample(self, case: PythonCase | NativeCase, *, cores: Collection[int], **_: Any) -> Sample:
        if self.world.deaths:
            self.world.deaths -= 1
            raise ZygoteError("it died")
        with self.world.running(_name(case)):
            _fail_if_asked(case)
            self.world.cores[_name(case)] = tuple(cores)
        sampling = Sampling(
            number=10,
            wall=(1e-3,) * 30,
            cpu=(1e-3,) * 30,
            pace=(5e-6,) * 30,
            quiet_pace=5e-6,
            clock_resolution=1e-9,
        )
        output = Output(stdout="said", stderr="")
        return Sample(sampling, first_run=3.0, output=output)

    def count(self, case: PythonCase | NativeCase, **_: Any) -> Count:
        with self.world.running(f"count {_name(case)}"):
            _fail_if_asked(case)
            path = self.world.new_file()
        return Count(path, Output(stdout="", stderr=""))


def _name(case: PythonCase | NativeCase) -> str:
    return case.stmt if isinstance(case, PythonCase) else case.symbol


def _fail_if_asked(case: PythonCase | NativeCase) -> None:
    if _name(case) == "fail":
        raise CaseFailedError("it failed", kind="raised", stdout="before", stderr="why")
