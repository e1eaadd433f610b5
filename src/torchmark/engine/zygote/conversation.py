"""The exchange with one case from start to end: request, answer, output and time limit.

The control side reads what a case prints and kills it at its time limit. It can do so at no cost;
inside the case every line of such code would run under valgrind. A case that alternates with
another process writes into a file in memory instead of a pipe. A reader of the pipe would be woken
by the process that it waits for but not by the other, which made `print(1)` 1 to 7 % slower than
itself, and the other's pipe would fill up.
"""

from __future__ import annotations

import collections
import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from torchmark.errors import CaseFailedError, CaseTimeoutError, StatementSyntaxError
from torchmark_probe.zygote import messages, wire
from torchmark_probe.zygote.serving import CUT_OFF

if TYPE_CHECKING:
    from torchmark.engine.zygote.process import ZygoteProcess

Said = TypeVar("Said", bound=messages.Message)

_KEPT = 32 * 1024
"""Bytes kept from the beginning of the output of a case, and from its end."""

_GRACE = 30.0
"""Seconds after a kill until the zygote itself is considered stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a case printed and reported in addition to its answer."""

    stdout: str
    """What it printed; the middle of a long text is replaced by a note."""

    stderr: str
    """What it wrote to standard error, shortened in the same way."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    """What its code reported (`torchmark_probe.zygote.handlers.report`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a case ended."""

    outcome: messages.Message | None
    """The answer of the case, if it sent one."""

    status: int | None
    """The status of its process as returned by `os.waitpid`; None if nothing reported it."""

    pid: int | None
    """The id of its process."""

    output: Output
    limit: float | None
    """The time limit in seconds, if the case exceeded it."""

    turn: int = 0
    """With several statements in one process, the one that ran last; `output` is its output."""

    outputs: tuple[Output, ...] = ()
    """With several statements in one process, what each printed."""


class Stream:
    """Output that is read as it arrives; only its beginning and its end are kept."""

    def __init__(self, ours: int) -> None:
        self.ours = ours
        os.set_blocking(ours, False)
        self._bytes = bytearray()
        self._left_out = 0

    def drain(self) -> bool:
        """Read what has arrived; False if the other end is closed."""
        while True:
            try:
                data = os.read(self.ours, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._add(data)

    def _add(self, data: bytes) -> None:
        self._bytes += data
        surplus = max(0, len(self._bytes) - 2 * _KEPT)
        del self._bytes[_KEPT : _KEPT + surplus]
        self._left_out += surplus

    def text(self) -> str:
        self.drain()
        cut = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
        return (self._bytes[:_KEPT] + cut + self._bytes[_KEPT:]).decode(errors="replace")


class Pipe(Stream):
    """A stream whose other end belongs to a case."""

    def __init__(self) -> None:
        ours, self.theirs = os.pipe()
        super().__init__(ours)


class MemoryFile:
    """Output that need not be read; its writer starts over when the file has grown large."""

    def __init__(self) -> None:
        self.ours = os.memfd_create("torchmark-output")
        self.theirs = os.dup(self.ours)

    def text(self) -> str:
        """Return the end of what was written; the file position shared with the writer marks it."""
        end = os.lseek(self.ours, 0, os.SEEK_CUR)
        start = max(0, end - 2 * _KEPT)
        is_all = start == 0 and os.fstat(self.ours).st_size == end
        cut = b"" if is_all else b"[earlier output left out]\n"
        return (cut + os.pread(self.ours, end - start, start)).decode(errors="replace")


class Conversation:
    """The control side's ends of the connections to a case: talk, stdout and stderr.

    The process of the case ends with the `with` block.
    """

    makes_output: type[Pipe] | type[MemoryFile] = Pipe
    """What the standard output and the standard error of the case are connected to."""

    def __init__(self, zygote: ZygoteProcess, directory: str, *, in_haste: bool = False) -> None:
        """For `in_haste` see `wire.hand_over`."""
        self.zygote = zygote
        self._talk, theirs = socket.socketpair()
        self._said = bytearray()
        self._pid: int | None = None
        self._status: int | None = None
        self._answer: messages.Answer | None = None
        self._replies: collections.deque[messages.Message] = collections.deque()
        self.has_ended = False
        self._selector = selectors.DefaultSelector()
        self._printed: list[Stream | MemoryFile] = []
        printed, complained = self.makes_output(), self.makes_output()
        stdout, stderr = printed.theirs, complained.theirs
        home = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        for each in (printed, complained):
            self._read(each)
        try:
            files = wire.CaseFiles(theirs.fileno(), stdout, stderr, home)
            zygote.hand_over(files, in_haste=in_haste)
        except OSError:
            self.close()
            raise
        finally:
            theirs.close()
            for descriptor in (stdout, stderr, home):
                os.close(descriptor)
        self._selector.register(self._talk, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._selector.close()
        self._talk.close()
        for each in self._printed:
            os.close(each.ours)

    def ask(self, request: messages.Request, limit: float) -> None:
        """Send the request and start the time limit of the case."""
        self._began = time.monotonic()
        self._limit = limit
        self._send(wire.pad(wire.encode(request)))

    def begin_anew(self) -> None:
        """Restart the time limit, for a case that does several things one after another."""
        self._began = time.monotonic()

    def allow_more(self, seconds: float) -> None:
        """Extend the time limit by these seconds."""
        self._limit += seconds

    @property
    def remaining(self) -> float:
        """Seconds until the time limit."""
        return self._began + self._limit - time.monotonic()

    def say(self, message: messages.Message) -> None:
        """Send a further message to the case."""
        self._send(wire.encode(message))

    def next_message(self, kind: type[Said], otherwise: str) -> Said:
        """Return the next message of the case; if it ended, raise how, else raise `otherwise`."""
        while not self._replies:
            remaining = self.remaining
            if remaining <= 0 or self._answer is not None or self.has_ended:
                outcome_of(self.finish(), messages.Done)
                raise CaseFailedError(otherwise, kind="lost")
            self.wait(remaining)
        message = self._replies.popleft()
        assert isinstance(message, kind), message
        return message

    def finish(self) -> Ending:
        """Wait until the case has ended or has reached the limit."""
        is_over = self._listen(self._began + self._limit)
        if not is_over:
            self.kill()
            self._listen(time.monotonic() + _GRACE)
        if self._status is None:  # nobody else is left to kill the processes that it started
            self.kill()
        stdout, stderr, *_ = self._texts()
        answer = self._answer
        return Ending(
            outcome=answer and answer.outcome,
            status=self._status,
            pid=self._pid,
            output=Output(stdout=stdout, stderr=stderr, facts=answer.facts if answer else {}),
            limit=None if is_over else self._limit,
        )

    def _send(self, data: bytes) -> None:
        self._talk.settimeout(self._limit)
        with contextlib.suppress(OSError):  # the case has ended; reading shows how
            self._talk.sendall(data)
        self._talk.setblocking(False)

    def _listen(self, deadline: float) -> bool:
        """Read until the parent of the case reports its end or is gone; False if time ran out."""
        while not self.has_ended:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            self.wait(remaining)
        return True

    def wait(self, seconds: float) -> None:
        """Read whatever arrives next, for at most these seconds."""
        for key, _ in self._selector.select(seconds):
            if key.data is not None:
                if not key.data.drain():
                    self._selector.unregister(key.fd)
            elif not self._hear():
                self.has_ended = True

    def _hear(self) -> bool:
        """Read what has arrived on the talk socket; False if nothing more will come."""
        try:
            data = self._talk.recv(1 << 20)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._said += data
        *lines, rest = self._said.split(b"\n")
        self._said = bytearray(rest)
        for line in filter(None, lines):
            with contextlib.suppress(wire.CutLineError):
                self._take(wire.decode(bytes(line)))
        return bool(data) and self._status is None

    def _take(self, message: messages.Message) -> None:
        if isinstance(message, messages.Forked):
            self._pid = message.pid
        elif isinstance(message, messages.Ended):
            self._status = message.status
        elif isinstance(message, messages.Answer):
            self._answer = message
        else:
            self._replies.append(message)

    def _read(self, output: Stream | MemoryFile) -> None:
        """Read and keep what the case prints there from now on."""
        self._printed.append(output)
        if isinstance(output, Stream):
            self._selector.register(output.ours, selectors.EVENT_READ, output)

    def _texts(self) -> list[str]:
        """Return what was printed, in the order in which the outputs were added."""
        return [each.text() for each in self._printed]

    def kill(self) -> None:
        """Kill the case with all its processes, if their group is known."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)


def outcome_of(ending: Ending, kind: type[Said]) -> Said:
    """Return the answer of a case that succeeded; raise an error if it ended any other way."""
    outcome = ending.outcome
    if ending.limit is not None:
        reason = (
            f"the case was stopped at its time limit of {ending.limit:g} s; raise the timeout if "
            "it needs longer"
        )
        raise _failure(ending, "timeout", reason, CaseTimeoutError)
    if outcome is None:
        raise _silent(ending)
    if isinstance(outcome, messages.SyntaxFailed):
        raise syntax_error(outcome)
    if isinstance(outcome, messages.NotForked):
        reason = f"no process could be started for the case: {outcome.reason}"
        raise _failure(ending, "lost", reason)
    if isinstance(outcome, messages.Unsupported):
        raise _failure(ending, "unsupported", outcome.reason)
    if isinstance(outcome, messages.Raised):
        raise _raised(outcome, ending)
    assert isinstance(outcome, kind), outcome
    return outcome


def syntax_error(outcome: messages.SyntaxFailed) -> StatementSyntaxError:
    """Return the error with the user's line and column; Python prints them with a caret."""
    details = (f"<{outcome.part}>", *outcome.details)
    return StatementSyntaxError(f"the {outcome.part} does not compile: {outcome.message}", details)


def _raised(outcome: messages.Raised, ending: Ending) -> CaseFailedError:
    what, kind = ("ran out of memory", "memory") if outcome.is_memory else ("raised", "raised")
    error = _failure(ending, kind, f"the case {what}: {describe_raised(outcome)}")
    error.traceback = f"{outcome.frames}\n{outcome.text}"
    error.builtin = outcome.builtin
    error.lacking = outcome.lacking
    return error


def describe_raised(outcome: messages.Raised) -> str:
    """Return the exception on one line, then where it was raised, then the rest of its text."""
    text = outcome.text if outcome.text != outcome.headline else ""
    return "\n".join(filter(None, (outcome.headline, outcome.frames, text)))


def _silent(ending: Ending) -> CaseFailedError:
    """Return the error for a case that ended without an answer, judging by its exit status."""
    status, stderr = ending.status, ending.output.stderr
    if status is None:
        kind, what = "lost", "ended the process that watches it"
    elif status == CUT_OFF << 8:
        kind, what = "exited", "closed the file descriptor on which torchmark waits for its answer"
    elif not os.WIFSIGNALED(status):
        kind, what = "exited", f"ended its process with status {os.waitstatus_to_exitcode(status)}"
    elif "bad_alloc" in stderr:
        kind, what = "memory", "ran out of memory"
    else:
        kind, what = "crashed", f"crashed its process with {signal_name(os.WTERMSIG(status))}"
    said = f"; it wrote:\n{stderr[-2000:]}" if stderr else ""
    return _failure(ending, kind, f"the case {what}{said}")


def signal_name(number: int) -> str:
    """Return the name of a signal, SIGSEGV for 11; real-time signals have no names."""
    names = {each.value: each.name for each in signal.Signals}
    return names.get(number, f"signal {number}")


def _failure(
    ending: Ending, kind: str, message: str, error: type[CaseFailedError] = CaseFailedError
) -> CaseFailedError:
    return error(message, kind=kind, stdout=ending.output.stdout, stderr=ending.output.stderr)
