"""A zygote, as the control side sees it: count this, sample that, several at once.

torch is imported once, in the zygote; every case runs in a fork of it. A case that raises,
crashes, hangs or eats its memory costs itself alone, and a zygote that died is started again.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from torchmark.engine.interpreters import interpreter
from torchmark.engine.pace import process_metronome
from torchmark.engine.private_directories import discard, private_directory
from torchmark.engine.zygote.cases import TIME_LIMIT, Count, Sample
from torchmark.engine.zygote.conversation import Conversation, Ending, answer_of, sampling_in
from torchmark.engine.zygote.loop import Loop
from torchmark.engine.zygote.process import Launch, ZygoteProcess
from torchmark.engine.zygote.session import Session
from torchmark.errors import CaseFailedError, ZygoteError
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Self

    from torchmark.engine.interpreters import Interpreter
    from torchmark.engine.zygote.cases import NativeCase, PythonCase
    from torchmark.engine.zygote.conversation import Output

Opened = TypeVar("Opened")

_WARMUP = 10
"""Runs before the first that counts. Python 3.11 rewrites code for the types that it meets after
eight runs, and looks things up to do so; those lookups are not the statement's."""

_BEFORE_A_LOOP = Limits(precision=0.01, min_run_time=0.2, max_run_time=1.0)
"""How long a loop is timed before others look at it."""


class Zygote:
    """Starts with its first case, or by `start`; ends by `close` or with the `with` block."""

    def __init__(
        self,
        *,
        python: str | Interpreter = sys.executable,
        threads: int = 1,
        under_callgrind: bool = False,
        environment: Mapping[str, str] | None = None,
        layout: int | None = None,
        path: Sequence[str] | None = None,
        modules: Sequence[str] = (),
        at_once: int | None = None,
    ) -> None:
        """`path` is where cases find modules beyond the interpreter's own places.

        Where it is not given and the interpreter is ours, they find what this process finds.
        `modules` are imported before the first case.
        """
        self._launch = Launch(
            interpreter=interpreter(python) if isinstance(python, str) else python,
            threads=threads,
            under_callgrind=under_callgrind,
            environment=tuple(sorted((environment or {}).items())),
            layout=layout,
            modules=tuple(modules),
        )
        self._path = path
        self._seats = threading.BoundedSemaphore(at_once or len(os.sched_getaffinity(0)))
        self._directory = private_directory()
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
        case: PythonCase | NativeCase,
        *,
        cores: Collection[int] = (),
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Output:
        """Setup and statement once: whether they work, or for what they leave behind."""
        request = {
            "kind": "run", "cores": sorted(cores), "memory": memory_limit, **case.request(),
        }  # fmt: skip
        ending = self.held(request, time_limit)
        answer_of(ending)
        return ending.output

    def python_calls(self, case: PythonCase, *, time_limit: float = TIME_LIMIT) -> dict[str, int]:
        """Bytecodes of one run by Python function, named as in `loops.python_calls`."""
        request = {"kind": "python calls", "memory": None, **case.request()}
        ending = self.held(request, time_limit)
        functions: dict[str, int] = answer_of(ending)["functions"]
        return functions

    def count(
        self,
        case: PythonCase | NativeCase,
        *,
        number: int = 100,
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Count:
        """Instructions of `number` runs, after a few uncounted ones; needs callgrind."""
        return self.submit_count(
            case, number=number, time_limit=time_limit, memory_limit=memory_limit
        ).result()

    def submit_count(
        self,
        case: PythonCase | NativeCase,
        *,
        number: int = 100,
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Future[Count]:
        """Like `count`, but the result comes later, and other cases may run at the same time."""
        request = {
            "kind": "count", "number": number, "warmup": _WARMUP, "memory": memory_limit,
            **case.request(),
        }  # fmt: skip
        return self._submit(lambda: self._count(self._run(request, time_limit)))

    def sample(
        self,
        case: PythonCase | NativeCase,
        *,
        limits: Limits,
        seed: int = 0,
        cores: Collection[int] = (),
        time_limit: float = TIME_LIMIT,
        memory_limit: int | None = None,
    ) -> Sample:
        """Times of the statement, block by block, until the limits say stop; on these cores."""
        request = {
            "kind": "sample", "limits": list(limits), "seed": seed, "memory": memory_limit,
            "cores": sorted(cores), "quiet_pace": process_metronome().quiet_pace,
            **case.request(),
        }  # fmt: skip
        ending = self.held(request, time_limit)
        answer = answer_of(ending)
        return Sample(
            sampling=sampling_in(answer),
            first_run=answer["first_run"],
            output=ending.output,
            seconds=ending.seconds,
        )

    def session(
        self,
        case: PythonCase | NativeCase,
        *,
        limits: Limits,
        shake: int = 0,
        cores: Collection[int] = (),
        beside: bool = False,
        time_limit: float = TIME_LIMIT,
    ) -> Session:
        """The case in a process of its own, set up and warm, that takes turns with another.

        `shake` decides where its heap and its stack lie. `beside` says that others are measured
        on these cores while it is set up: it goes there for its turns.
        """
        request = {
            "kind": "session", "limits": list(limits), "cores": sorted(cores), "beside": beside,
            "memory": None, "shake": shake, **case.request(),
        }  # fmt: skip
        return self.opened(Session, request, time_limit, in_haste=True)

    def loop(
        self,
        case: PythonCase | NativeCase,
        *,
        cores: Collection[int] = (),
        time_limit: float = TIME_LIMIT,
    ) -> Loop:
        """The case in a process of its own, set up and warm, that runs until it is stopped."""
        request = {
            "kind": "loop", "limits": list(_BEFORE_A_LOOP), "seed": 0, "cores": sorted(cores),
            "time_limit": time_limit, "memory": None, **case.request(),
        }  # fmt: skip
        return self.opened(Loop, request, time_limit)

    def held(self, request: Mapping[str, Any], time_limit: float) -> Ending:
        """How a case of any kind ended, when it has."""
        ending: Ending = self._submit(lambda: self._run(request, time_limit)).result()
        return ending

    def opened(
        self,
        kind: Callable[[Conversation, dict[str, Any], float], Opened],
        request: Mapping[str, Any],
        time_limit: float,
        *,
        in_haste: bool = False,
    ) -> Opened:
        """A case of any kind that goes on, in a process of its own, with who talks to it.

        One in haste must be known to leave its parent alone: it has been run before.
        """
        conversation = self._conversation(self._warm(), in_haste=in_haste)
        try:
            return kind(conversation, self._with_path(request), time_limit)
        except BaseException:
            conversation.close()
            raise

    def _submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Do the work in a thread of its own.

        Not in a pool of concurrent.futures: those are joined when the interpreter ends, so that a
        case that hangs would hold up the end of the program.
        """
        future: Future[Any] = Future()

        def do() -> None:
            with self._seats:
                if not future.set_running_or_notify_cancel():
                    return
                try:
                    result = work()
                except BaseException as error:  # it is the future that raises it
                    future.set_exception(error)
                else:
                    future.set_result(result)

        threading.Thread(target=do, name="torchmark case", daemon=True).start()
        return future

    def _run(self, request: Mapping[str, Any], limit: float) -> Ending:
        process = self._warm()
        conversation = self._conversation(process)
        try:
            ending = conversation.hold(self._with_path(request), limit)
        finally:
            conversation.close()
        if ending.status is None:
            # Nobody was left to tell the end: is it a keeper alone, or the zygote?
            if ending.limit is not None:
                process.end()
            if not process.is_alive:
                raise process.death()
        return ending

    def _conversation(self, process: ZygoteProcess, *, in_haste: bool = False) -> Conversation:
        try:
            return Conversation(process, os.getcwd(), in_haste=in_haste)
        except OSError as error:
            raise process.death() from error

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
        self._being_started = process = ZygoteProcess(self._launch, self._directory)
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

    def _with_path(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {**request, "path": self._extra_path()}

    def _extra_path(self) -> list[str]:
        """Where this process finds modules and the zygote would not: the user's own."""
        if self._path is not None:
            return list(self._path)
        if self._launch.interpreter.executable != sys.executable:
            return []
        known = self._launch.interpreter.sys_path
        here = os.getcwd()
        # The working directory has a name of its own to Python, of the same length for everybody.
        return ["" if entry == here else entry for entry in sys.path if entry not in known]

    def _count(self, ending: Ending) -> Count:
        name = f"case.{ending.pid}"
        dumped = [*self._directory.glob(f"{name}.*"), *self._directory.glob(name)]
        try:
            answer = answer_of(ending)
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
        return Count(
            out_file=kept,
            output=ending.output,
            loop_seconds=answer["seconds"],
            seconds=ending.seconds,
        )
