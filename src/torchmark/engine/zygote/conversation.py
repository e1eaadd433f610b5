"""One case, from its hand-over to its end: the request, the answer, the output, the time limit.

The control side reads what a case prints and kills it when its time is up, because here that
costs nothing; under valgrind every line of it would. What alternates with another process writes
into a file in memory instead: a reader would be woken by the one that it waits for and not by the
other, which made `print(1)` 1 to 7 % slower than itself, and would leave the other's pipe to fill.
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
"""Bytes kept of the beginning, and as many of the end, of what a case prints."""

_GRACE = 30.0
"""Seconds after a kill until the zygote itself is held to be stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a case said of itself, beside what was asked for."""

    stdout: str
    """What it printed; a long text has its middle left out, and says so."""

    stderr: str
    """What it wrote to standard error, in the same way."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    """What its code reported (`torchmark_probe.zygote.handlers.report`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a case came to its end."""

    outcome: messages.Message | None
    """What the case answered, if it came to that."""

    status: int | None
    """The status of its process as `os.waitpid` gives it; None if nobody was left to tell."""

    pid: int | None
    """The number of its process."""

    output: Output
    limit: float | None
    """The time limit in seconds, if that is what ended it."""

    turn: int = 0
    """Of several statements in one process, the one that ran last; `output` is its own."""

    outputs: tuple[Output, ...] = ()
    """What each of several statements printed."""


class Stream:
    """Output that is read while it comes; of any length, its beginning and its end are kept."""

    def __init__(self, ours: int) -> None:
        self.ours = ours
        os.set_blocking(ours, False)
        self._bytes = bytearray()
        self._left_out = 0

    def drain(self) -> bool:
        """Take what is there; False when nothing more will come."""
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
    """A stream whose other end is a case's."""

    def __init__(self) -> None:
        ours, self.theirs = os.pipe()
        super().__init__(ours)


class MemoryFile:
    """Output that nobody has to read; its writer goes back to the start when it has grown large."""

    def __init__(self) -> None:
        self.ours = os.memfd_create("torchmark-output")
        self.theirs = os.dup(self.ours)

    def text(self) -> str:
        """The end of what was written; the position in the file is the writer's."""
        end = os.lseek(self.ours, 0, os.SEEK_CUR)
        start = max(0, end - 2 * _KEPT)
        is_all = start == 0 and os.fstat(self.ours).st_size == end
        cut = b"" if is_all else b"[earlier output left out]\n"
        return (cut + os.pread(self.ours, end - start, start)).decode(errors="replace")


class Conversation:
    """The three ends that the control side has of a case: talk, stdout and stderr.

    The process of the case ends with the `with` block.
    """

    makes_output: type[Pipe] | type[MemoryFile] = Pipe
    """Where the case prints, and where it complains."""

    def __init__(self, zygote: ZygoteProcess, directory: str, *, in_haste: bool = False) -> None:
        """`in_haste` is as in `wire.hand_over`."""
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
        """Send the request; the time that the case may take begins."""
        self._began = time.monotonic()
        self._limit = limit
        self._send(wire.pad(wire.encode(request)))

    def begin_anew(self) -> None:
        """The time that the case may take begins again: it does one thing after the other."""
        self._began = time.monotonic()

    def allow_more(self, seconds: float) -> None:
        """Let the case take so much longer."""
        self._limit += seconds

    @property
    def remaining(self) -> float:
        """Seconds that the case may still take."""
        return self._began + self._limit - time.monotonic()

    def say(self, message: messages.Message) -> None:
        """Send what comes next to a case that is told several things."""
        self._send(wire.encode(message))

    def next_message(self, kind: type[Said], otherwise: str) -> Said:
        """What the case says next; how it ended, if it did, is an error, else `otherwise` is."""
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
        """Stay until the case has ended, by itself or by the limit."""
        is_over = self._listen(self._began + self._limit)
        if not is_over:
            self.kill()
            self._listen(time.monotonic() + _GRACE)
        if self._status is None:  # nobody is left who would take along what it started
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
        with contextlib.suppress(OSError):  # the case is gone: what follows shows how
            self._talk.sendall(data)
        self._talk.setblocking(False)

    def _listen(self, deadline: float) -> bool:
        """Read until the parent of the case has told the end, or is gone; False if time ran out."""
        while not self.has_ended:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            self.wait(remaining)
        return True

    def wait(self, seconds: float) -> None:
        """Take whatever arrives next."""
        for key, _ in self._selector.select(seconds):
            if key.data is not None:
                if not key.data.drain():
                    self._selector.unregister(key.fd)
            elif not self._hear():
                self.has_ended = True

    def _hear(self) -> bool:
        """Take what has arrived on the talk socket; False when nothing more will come."""
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
        """Keep what the case prints there from now on."""
        self._printed.append(output)
        if isinstance(output, Stream):
            self._selector.register(output.ours, selectors.EVENT_READ, output)

    def _texts(self) -> list[str]:
        """What was printed, in the order in which the outputs were added."""
        return [each.text() for each in self._printed]

    def kill(self) -> None:
        """End the case with all its processes, if it is known by then which they are."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)


def outcome_of(ending: Ending, kind: type[Said]) -> Said:
    """What a case answered that came to its end as it should; any other way is an error."""
    outcome = ending.outcome
    if ending.limit is not None:
        limit = f"the case was stopped at its limit of {ending.limit:g} s"
        raise _failure(ending, "timeout", limit, CaseTimeoutError)
    if outcome is None:
        raise _silent(ending)
    if isinstance(outcome, messages.SyntaxFailed):
        raise syntax_error(outcome)
    if isinstance(outcome, messages.NotForked):
        reason = f"no process could be made for the case: {outcome.reason}"
        raise _failure(ending, "lost", reason)
    if isinstance(outcome, messages.Unsupported):
        raise _failure(ending, "unsupported", outcome.reason)
    if isinstance(outcome, messages.Raised):
        raise _raised(outcome, ending)
    assert isinstance(outcome, kind), outcome
    return outcome


def syntax_error(outcome: messages.SyntaxFailed) -> StatementSyntaxError:
    """The error with the user's own line and column; Python prints them with a caret."""
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
    """The exception on one line, then where it was raised, then the rest of what it says."""
    text = outcome.text if outcome.text != outcome.headline else ""
    return "\n".join(filter(None, (outcome.headline, outcome.frames, text)))


def _silent(ending: Ending) -> CaseFailedError:
    """The error for a case that ended without an answer: how its process died says which."""
    status, stderr = ending.status, ending.output.stderr
    if status is None:
        kind, what = "lost", "took the process down that watched it"
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
    """SIGSEGV for 11; a real-time signal has no name."""
    names = {each.value: each.name for each in signal.Signals}
    return names.get(number, f"signal {number}")


def _failure(
    ending: Ending, kind: str, message: str, error: type[CaseFailedError] = CaseFailedError
) -> CaseFailedError:
    return error(message, kind=kind, stdout=ending.output.stdout, stderr=ending.output.stderr)
