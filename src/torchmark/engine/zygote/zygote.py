"""The control side's view of a zygote: count this case, sample that one, several at once.

The zygote imports torch once; every case runs in a fork of it. A case that raises, crashes, hangs
or uses too much memory does not affect other cases, and a zygote that died is started again.
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
"""Runs before the counted ones. Since 3.11, Python specializes code after eight runs for the types
that it meets. The lookups that this needs should not be counted."""

_BEFORE_A_LOOP = Limits(precision=0.01, min_run_time=0.2, max_run_time=1.0)
"""How long a loop is timed before it is sampled from outside."""


class Zygote:
    """Starts with its first case or with `start`; ends with `close` or with the `with` block."""

    def __init__(self, launch: Launch | None = None, *, at_once: int | None = None) -> None:
        """`at_once` is how many cases run at the same time; by default as many as cores."""
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
        """Whether the zygote is running, so that a case need not wait for its start."""
        return self._process is not None and self._process.is_alive

    def start(self, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Start the zygote if it is not running; return the facts about its environment."""
        return self._warm(progress).facts

    def run_on(self, cores: Collection[int]) -> None:
        """Move its process to these cores, now or at its start; cases may use other cores."""
        self._cores = frozenset(cores)
        for process in (self._being_started, self._process):
            if process is not None:
                process.run_on(self._cores)

    def close(self) -> None:
        """End the zygote with all its cases, and remove their files."""
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
        """Run setup and statement once, to see whether they work or to get what they produce."""
        ending = self.hold(
            messages.Run(case), cores=cores, time_limit=time_limit, memory_limit=memory_limit
        )
        outcome_of(ending, messages.Done)
        return ending.output

    def call(self, function: str, *arguments: Any, cores: Collection[int] = ()) -> Any:
        """Call a function of the probe, offered by `handlers.offer`; return its value from JSON."""
        ending = self.hold(messages.Call(function, list(arguments)), cores=cores)
        return outcome_of(ending, messages.Value).value

    def python_calls(self, case: PythonCase, *, time_limit: float = TIME_LIMIT) -> dict[str, int]:
        """Return the bytecodes of one run per Python function, named as in `loops.counted`."""
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
        """Count the instructions of `number` runs, after a few uncounted ones; needs callgrind."""
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
        """Time blocks of the statement on these cores until the limits are reached."""
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
        """Time the statements in rounds, all in one process; the outcome is `SampledTogether`.

        If a statement failed, the ending says which one. The time limit applies to each setup and
        to each block.
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
        while_others_run: bool = False,
        time_limit: float = TIME_LIMIT,
    ) -> Session:
        """Set up and warm the case in a fresh process that will alternate with another.

        `shake` decides where its heap and its stack lie. `while_others_run` says that another pair
        is being measured on these cores; the process then moves there only for its blocks.
        """
        work = messages.Alternate(case, limits, shake, sorted(cores))
        where = () if while_others_run else cores
        return self.open(Session, work, cores=where, time_limit=time_limit, in_haste=True)

    def loop(
        self, case: Ready, *, time_limit: float = TIME_LIMIT, patience: float = TIME_LIMIT
    ) -> Loop:
        """Set up and warm the case in a fresh process that runs it until it is stopped.

        The time limit applies to warming up. After that the loop may run for `patience` seconds.
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
        """Do this work in a fresh process, and return how the process ended."""
        with (
            self._seats,
            self.open(
                kind, work, cores=cores, time_limit=time_limit, memory_limit=memory_limit
            ) as conversation,
        ):
            try:
                ending = conversation.finish()
            except BaseException:  # Ctrl-C: nobody would watch the process any more
                conversation.kill()
                raise
        process = conversation.zygote
        if ending.status is None:
            # Nobody reported the end. Has only the process that watches the case died, or the
            # zygote too?
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
        """Start work in a fresh process and return the conversation with it.

        Set `in_haste` only for a case that has run before and is known not to harm its parent.
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
