"""A zygote, as the control side sees it: count this, sample that, several at once.

torch is imported once, in the zygote; every case runs in a fork of it. A case that raises,
crashes, hangs or eats its memory costs itself alone, and a zygote that died is started again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Self, TypeVar

from torchmark.engine.files import discard, make_private_directory, private_directory
from torchmark.engine.pace import process_reference_loop
from torchmark.engine.zygote.cases import (
    Count,
    Loop,
    Output,
    PythonCase,
    Ready,
    Sample,
    Session,
    Together,
)
from torchmark.engine.zygote.conversation import Conversation, Ending, outcome_of
from torchmark.engine.zygote.process import Launch, ZygoteProcess
from torchmark.errors import CaseFailedError, ZygoteError
from torchmark.model.run import TIME_LIMIT
from torchmark_probe.loops.sampling import Limits
from torchmark_probe.zygote import messages

Opened = TypeVar("Opened", bound=Conversation)

_WARMUP = 10
"""Runs before the first that counts. Python 3.11 rewrites code for the types that it meets after
eight runs, and looks things up to do so; those lookups are not the statement's."""

_BEFORE_A_LOOP = Limits(precision=0.01, min_run_time=0.2, max_run_time=1.0)
"""How long a loop is timed before others look at it."""


class Zygote:
    """Starts with its first case, or by `start`; ends by `close` or with the `with` block."""

    def __init__(self, launch: Launch | None = None, *, at_once: int | None = None) -> None:
        """`at_once` is how many cases it runs at the same time; as many as cores if not given."""
        self.launch = launch or Launch()
        self._seats = threading.BoundedSemaphore(at_once or len(os.sched_getaffinity(0)))
        self._directory = make_private_directory()
        self._starting = threading.Lock()
        self._process: ZygoteProcess | None = None
        self._being_started: ZygoteProcess | None = None
        self._cores: frozenset[int] = frozenset()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether a case would find the zygote warm."""
        return self._process is not None and self._process.is_alive

    def start(self, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Start it unless it runs already, and return what it says of its environment."""
        return self._warm(progress).facts

    def run_on(self, cores: Collection[int]) -> None:
        """Move its process there, or let it start there; cases may be told to run elsewhere."""
        self._cores = frozenset(cores)
        for process in (self._being_started, self._process):
            if process is not None:
                process.run_on(self._cores)

    def close(self) -> None:
        """End the zygote with all its cases, and remove what they left."""
        self._is_closed = True
        starting = self._being_started
        if starting is not None:
            starting.end()
        with self._starting:
            if self._process is not None:
                self._process.end()
            discard(self._directory)

    def run(
        self,
        case: Ready,
        *,
        cores: Collection[int] = (),
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Output:
        """Setup and statement once: whether they work, or for what they leave behind."""
        ending = self.hold(
            messages.Run(case), cores=cores, time_limit=time_limit, memory_limit=memory_limit
        )
        outcome_of(ending, messages.Done)
        return ending.output

    def call(self, function: str, *arguments: Any, cores: Collection[int] = ()) -> Any:
        """What a function of the probe gives back, as plain JSON; `handlers.offer` says which."""
        ending = self.hold(messages.Call(function, list(arguments)), cores=cores)
        return outcome_of(ending, messages.Value).value

    def python_calls(self, case: PythonCase, *, time_limit: float = TIME_LIMIT) -> dict[str, int]:
        """Bytecodes of one run by Python function, named as in `loops.counted`."""
        ending = self.hold(messages.TracePython(case), time_limit=time_limit)
        functions: dict[str, int] = outcome_of(ending, messages.Value).value
        return functions

    def count(
        self,
        case: Ready,
        *,
        number: int = 100,
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Count:
        """Instructions of `number` runs, after a few uncounted ones; needs callgrind."""
        work = messages.Count(case, number, _WARMUP)
        ending = self.hold(work, time_limit=time_limit, memory_limit=memory_limit)
        name = f"case.{ending.pid}"
        dumped = [*self._directory.glob(f"{name}.*"), *self._directory.glob(name)]
        try:
            outcome_of(ending, messages.Done)
            wanted = self._directory / f"{name}.1"
            if wanted not in dumped:
                raise CaseFailedError(
                    f"callgrind wrote no counts into {self._directory}; is the disk full?",
                    kind="lost",
                )
            kept = self._directory / f"callgrind.out.{ending.pid}"
            dumped.remove(wanted)
            wanted.rename(kept)
        finally:
            for path in dumped:
                path.unlink(missing_ok=True)
        return Count(kept, ending.output)

    def sample(
        self,
        case: Ready,
        *,
        limits: Limits,
        seed: int = 0,
        cores: Collection[int] = (),
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Sample:
        """Times of the statement, block by block, until the limits say stop; on these cores."""
        work = messages.Sample(case, limits, seed, process_reference_loop().quiet_pace)
        ending = self.hold(work, cores=cores, time_limit=time_limit, memory_limit=memory_limit)
        outcome = outcome_of(ending, messages.Sampled)
        return Sample(outcome.sampling, outcome.first_run, ending.output)

    def sample_together(
        self,
        cases: Sequence[Ready],
        *,
        limits: Limits,
        seed: int = 0,
        time_limit: float = TIME_LIMIT,
    ) -> Ending:
        """How it went to time the statements in rounds, all in one process, with `SampledTogether`.

        The ending of one that failed says whose turn it was. The time limit is that of a setup, and
        of a block.
        """
        pace = process_reference_loop().quiet_pace
        with private_directory() as folder:
            work = messages.SampleTogether(list(cases), limits, seed, pace, str(folder))
            return self.hold(work, kind=Together, time_limit=time_limit)

    def session(
        self,
        case: Ready,
        *,
        limits: Limits,
        shake: int = 0,
        cores: Collection[int] = (),
        beside: bool = False,
        time_limit: float = TIME_LIMIT,
    ) -> Session:
        """The case in a process of its own, set up and warm, that alternates with another.

        `shake` decides where its heap and its stack lie. `beside` says that others are measured
        on these cores while it is set up: it goes there for its blocks.
        """
        work = messages.Alternate(case, limits, shake, sorted(cores))
        where = () if beside else cores
        return self.open(Session, work, cores=where, time_limit=time_limit, in_haste=True)

    def loop(
        self, case: Ready, *, time_limit: float = TIME_LIMIT, patience: float = TIME_LIMIT
    ) -> Loop:
        """The case in a process of its own, set up and warm, that runs until it is stopped.

        It has the limit to become warm, and then runs for as long as there is patience.
        """
        work = messages.Loop(case, _BEFORE_A_LOOP, patience)
        loop = self.open(Loop, work, time_limit=time_limit)
        loop.allow_more(patience)
        return loop

    def hold(
        self,
        work: messages.Message,
        *,
        kind: type[Conversation] = Conversation,
        cores: Collection[int] = (),
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Ending:
        """How a process that does this work ended, when it has."""
        with (
            self._seats,
            self.open(
                kind, work, cores=cores, time_limit=time_limit, memory_limit=memory_limit
            ) as conversation,
        ):
            try:
                ending = conversation.finish()
            except BaseException:  # Ctrl-C: nobody would watch over it
                conversation.kill()
                raise
        process = conversation.zygote
        if ending.status is None:
            # Nobody was left to tell the end: is it a keeper alone, or the zygote?
            if ending.limit is not None:
                process.end()
            if not process.is_alive:
                raise process.death()
        return ending

    def open(
        self,
        kind: type[Opened],
        work: messages.Message,
        *,
        cores: Collection[int] = (),
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
        in_haste: bool = False,
    ) -> Opened:
        """Work that goes on, in a process of its own, with who talks to it.

        A case in haste must be known to leave its parent alone: it has been run before.
        """
        request = messages.Request(work, self.launch.extra_path(), memory_limit, sorted(cores))
        process = self._warm()
        try:
            conversation = kind(process, os.getcwd(), in_haste=in_haste)
        except OSError as error:
            raise process.death() from error
        try:
            conversation.ask(request, time_limit)
        except BaseException:
            conversation.close()
            raise
        return conversation

    def _warm(self, progress: Callable[[str], None] | None = None) -> ZygoteProcess:
        with self._starting:
            if self._is_closed:
                raise ZygoteError("this zygote has been closed")
            if self._process is not None and not self._process.is_alive:
                self._process.end()
                self._process = None
            if self._process is None:
                self._process = self._started(progress or (lambda _stage: None))
            return self._process

    def _started(self, progress: Callable[[str], None]) -> ZygoteProcess:
        self._being_started = process = ZygoteProcess(self.launch, self._directory)
        process.run_on(self._cores)
        try:
            if self._is_closed:
                raise ZygoteError("this zygote has been closed")
            process.wait_until_ready(progress)
        except BaseException:
            process.end()
            raise
        finally:
            self._being_started = None
        return process
