"""One case, from its hand-over to its end: the request, the answer, the output, the time limit.

The control side reads what a case prints and kills it when its time is up, because here that
costs nothing; under valgrind every line of it would.
"""

from __future__ import annotations

import collections
import contextlib
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchmark.errors import CaseFailedError, CaseTimeoutError, StatementSyntaxError
from torchmark_probe.loops.sampling import Sampling
from torchmark_probe.zygote import wire

if TYPE_CHECKING:
    from torchmark.engine.zygote.process import ZygoteProcess

_KEPT = 32 * 1024
"""Bytes kept of the beginning, and as many of the end, of what a case prints."""

_GRACE = 30.0
"""Seconds after a kill until the zygote itself is held to be stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a case printed; a long one has its middle left out, and says so."""

    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a case came to its end."""

    answer: dict[str, Any] | None
    """What the case said of itself, if it came to say anything."""

    status: int | None
    """The status of its process as `os.waitpid` gives it; None if nobody was left to tell."""

    pid: int | None
    """The number of its process."""

    output: Output
    seconds: float
    """From the hand-over to the end."""

    limit: float | None
    """The time limit in seconds, if that is what ended it."""


class _Kept:
    """The beginning and the end of a stream of any length."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        room = _KEPT - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        surplus = len(self._tail) - _KEPT
        if surplus > 0:
            del self._tail[:surplus]
            self._left_out += surplus

    def text(self) -> str:
        cut = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
        return bytes(self._head + cut + self._tail).decode(errors="replace")


class Conversation:
    """The three ends that the control side has of a case: talk, stdout and stderr."""

    def __init__(self, zygote: ZygoteProcess, directory: str, *, in_haste: bool = False) -> None:
        """`in_haste` is as in `wire.Case`."""
        self._talk, theirs = socket.socketpair()
        self._said = bytearray()
        self._messages: list[dict[str, Any]] = []
        self._replies: collections.deque[dict[str, Any]] = collections.deque()
        self._has_ended = False
        self._selector = selectors.DefaultSelector()
        self._printed: dict[int, _Kept] = {}
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        self._ends = (out, err)
        home = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            files = wire.CaseFiles(theirs.fileno(), their_out, their_err, home)
            zygote.hand_over(wire.Case(files, in_haste))
        except OSError:
            self.close()
            raise
        finally:
            theirs.close()
            for descriptor in (their_out, their_err, home):
                os.close(descriptor)
        for descriptor in self._ends:
            os.set_blocking(descriptor, False)
            self._printed[descriptor] = _Kept()
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._selector.register(self._talk, selectors.EVENT_READ)

    def close(self) -> None:
        self._selector.close()
        self._talk.close()
        for descriptor in self._ends:
            os.close(descriptor)

    def hold(self, request: dict[str, Any], limit: float) -> Ending:
        """Send the request and stay until the case has ended, by itself or by the limit."""
        self.begin(request, limit)
        return self.finish()

    def begin(self, request: dict[str, Any], limit: float) -> None:
        """Send the request; the time that the case may take begins."""
        self._began = time.monotonic()
        self._limit = limit
        self._send(wire.padded(wire.encoded(request)), limit)

    def begin_anew(self) -> None:
        """The time that the case may take begins again: it does one thing after the other."""
        self._began = time.monotonic()

    def say(self, message: dict[str, Any]) -> None:
        """Send the next order to a case that takes several."""
        self._send(wire.encoded(message), self._limit)

    def next_message(self, otherwise: str) -> dict[str, Any]:
        """What the case says next; how it ended, if it did, is an error, else `otherwise` is."""
        message = self._next_reply()
        if message is not None:
            return message
        answer_of(self.finish())
        raise CaseFailedError(otherwise, kind="lost")

    def finish(self) -> Ending:
        """Stay until the case has ended, by itself or by the limit."""
        is_over = self._listen(self._began + self._limit)
        if not is_over:
            self._kill()
            self._listen(time.monotonic() + _GRACE)
        if self._told("status") is None:  # nobody is left who would take along what it started
            self._kill()
        for descriptor in self._ends:
            self._drain(descriptor)
        return Ending(
            answer=next((said for said in self._messages if "outcome" in said), None),
            status=self._told("status"),
            pid=self._told("pid"),
            output=Output(stdout=self._text(0), stderr=self._text(1)),
            seconds=time.monotonic() - self._began,
            limit=None if is_over else self._limit,
        )

    def _send(self, data: bytes, limit: float) -> None:
        self._talk.settimeout(limit)
        with contextlib.suppress(OSError):  # the case is gone: what follows shows how
            self._talk.sendall(data)
        self._talk.setblocking(False)

    def _next_reply(self) -> dict[str, Any] | None:
        """None if the case has given its answer, ended, or run out of time."""
        while not self._replies:
            remaining = self._began + self._limit - time.monotonic()
            if remaining <= 0 or self._told("outcome") is not None or self._has_ended:
                return None
            self._wait(remaining)
        return self._replies.popleft()

    def _listen(self, deadline: float) -> bool:
        """Read until the parent of the case has told the end, or is gone; False if time ran out."""
        while not self._has_ended:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            self._wait(remaining)
        return True

    def _wait(self, seconds: float) -> None:
        """Take whatever arrives next."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is not self._talk:
                self._drain(key.fd)
            elif not self._hear():
                self._has_ended = True

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
            try:
                message = wire.decoded(bytes(line))
            except wire.WireError:  # a child died in the middle of its line
                continue
            is_reply = not {"pid", "status", "outcome"} & message.keys()
            (self._replies if is_reply else self._messages).append(message)
        return bool(data) and self._told("status") is None

    def _drain(self, descriptor: int) -> None:
        while True:
            try:
                data = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                if descriptor in self._selector.get_map():
                    self._selector.unregister(descriptor)
                return
            self._printed[descriptor].add(data)

    def _text(self, which: int) -> str:
        return self._printed[self._ends[which]].text()

    def _told(self, what: str) -> Any:
        return next((said[what] for said in self._messages if what in said), None)

    def _kill(self) -> None:
        pid = self._told("pid")
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def answer_of(ending: Ending) -> dict[str, Any]:
    """What a case answered that came to its end as it should; any other way is an error."""
    answer = ending.answer
    if ending.limit is not None:
        raise CaseTimeoutError(
            f"the case was stopped at its limit of {ending.limit:g} s", **_facts("timeout", ending)
        )
    if answer is None:
        raise _silent(ending)
    outcome = answer["outcome"]
    if outcome == "done":
        return answer
    if outcome == "syntax":
        details = (f"<{answer['part']}>", answer["line"], answer["column"], answer["text"],
                   answer["end_line"], answer["end_column"])  # fmt: skip
        message = f"the {answer['part']} does not compile: {answer['message']}"
        raise StatementSyntaxError(message, details)
    if outcome == "no fork":
        raise CaseFailedError(
            f"no process could be made for the case: {answer['reason']}", **_facts("lost", ending)
        )
    what = "ran out of memory" if outcome == "memory" else "raised"
    where, _, raised = answer["traceback"].strip("\n").rpartition("\n")
    raise CaseFailedError(
        f"the case {what}: {raised}\n{where}".rstrip(),
        traceback=answer["traceback"],
        **_facts(outcome, ending),
    )


def sampling_in(answer: dict[str, Any]) -> Sampling:
    """The blocks that a case took, as it answered them."""
    raw = answer["sampling"]
    return Sampling(
        number=raw["number"],
        wall=tuple(raw["wall"]),
        cpu=tuple(raw["cpu"]),
        pace=tuple(raw["pace"]),
        quiet_pace=raw["quiet_pace"],
        clock_resolution=raw["clock_resolution"],
    )


def _silent(ending: Ending) -> CaseFailedError:
    """The error for a case that ended without an answer: how its process died says which."""
    status, stderr = ending.status, ending.output.stderr
    said = f"; it wrote:\n{stderr[-2000:]}" if stderr else ""
    if status is None:
        return CaseFailedError(
            f"the case took the process down that watched it{said}", **_facts("lost", ending)
        )
    if not os.WIFSIGNALED(status):
        code = os.waitstatus_to_exitcode(status)
        return CaseFailedError(
            f"the case ended its process with status {code}{said}", **_facts("exited", ending)
        )
    if "bad_alloc" in stderr:
        return CaseFailedError(f"the case ran out of memory{said}", **_facts("memory", ending))
    number = os.WTERMSIG(status)
    names = {each.value: each.name for each in signal.Signals}
    name = names.get(number, f"signal {number}")  # a real-time signal has no name
    return CaseFailedError(
        f"the case crashed its process with {name}{said}", **_facts("crashed", ending)
    )


def _facts(kind: str, ending: Ending) -> dict[str, str]:
    return {"kind": kind, "stdout": ending.output.stdout, "stderr": ending.output.stderr}
