"""The working zygote: it forks for every case that is handed over, in one of two ways.

*Under callgrind* it forks a keeper, and the keeper forks the child and waits for it. So the zygote
does the same few things between any two forks, whatever happens to a case. This is why counts
repeat to the instruction. The keeper kills the case when the zygote dies, and a case that kills its
parent does not affect other cases.

*Without callgrind* it does so too, except that it watches cases in haste itself. Forking a process
that uses torch takes 10 ms or more, and so does its end. With a keeper, a case costs this twice,
which would be most of the time of a process that alternates for a few hundredths of a second. Times
are not affected by what the zygote does meanwhile.

The parent of a child (a keeper or the zygote) tells the control side which process to kill at the
time limit, and how the process ended.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, Dict

from torchmark_probe.zygote import handlers, messages, wire

CUT_OFF = os.EX_IOERR
"""Exit status of a child whose statement closed the socket for its answer."""

_PR_SET_PDEATHSIG = 1

_ARCHIVE = 99
"""Descriptor of the probe's archive in a case; fixed, because counts depend on every byte."""

_libc = ctypes.CDLL(None)


def serve_counts(channel: socket.socket, around: handlers.Surroundings) -> None:
    """Fork for every case that is handed over, until the control side is gone.

    Nothing here depends on the case, so each fork finds the heap in the same state.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the keepers
    zygote = os.getpid()
    while True:
        case = wire.take_over(channel)
        if case is None:
            return
        files, _ = case
        if _fork(files) == 0:
            channel.close()
            _keep(files, around, zygote)
        for descriptor in files:
            os.close(descriptor)


def _fork(files: wire.CaseFiles) -> int:
    """Fork for a case, as `os.fork` does; return -1 if that fails, after telling the case why."""
    try:
        return os.fork()
    except OSError as error:
        not_forked = messages.NotForked(str(error))
        wire.send(files.talk, messages.Answer(not_forked, {}))
        return -1


def _keep(files: wire.CaseFiles, around: handlers.Surroundings, zygote: int) -> None:
    """Run the keeper of one case, which ends with it. Called in a fork; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Until the child is known, there is nothing to kill, so the default action will do.
        die_with_parent(signal.SIGTERM)
        if os.getppid() != zygote:
            os._exit(1)
        keeper = os.getpid()
        child = os.fork()
        if child == 0:
            _live(files, around, keeper)
        _see_it_through(files.talk, child)
    finally:
        os._exit(1)


def _see_it_through(talk: int, child: int) -> None:
    """Wait for the child and report how it ended."""

    def take_along(_signal: int, _frame: Any) -> None:
        _kill_group(child)
        os._exit(1)

    signal.signal(signal.SIGTERM, take_along)
    _introduce(child, talk)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    _bury_child(child, talk)
    _be_gone()


def serve_times(channel: socket.socket, around: handlers.Surroundings) -> None:
    """Fork for every case that is handed over; when the control side is gone, end all cases."""
    # The end of the channel signals this too, and leaves time to kill all cases.
    die_with_parent(0)
    watch = _Watch(channel, around)
    try:
        while watch.wait():
            pass
    finally:
        watch.end()


class _Watch:
    """The running children, and what their parent waits for."""

    def __init__(self, channel: socket.socket, around: handlers.Surroundings) -> None:
        self._channel = channel
        self._around = around
        self._zygote = os.getpid()
        self._talks: Dict[int, int] = {}
        self._woken, self._wakes = os.pipe()
        for descriptor in (self._woken, self._wakes):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
        self._news = select.poll()
        for descriptor in (channel.fileno(), self._woken):
            self._news.register(descriptor, select.POLLIN)

    def wait(self) -> bool:
        """Wait for the next case or the end of one; return False if the control side is gone."""
        news = [descriptor for descriptor, _ in self._news.poll()]
        if self._woken in news:
            self._bury()
        if self._channel.fileno() not in news:
            return True
        case = wire.take_over(self._channel)
        if case is None:
            return False
        self._begin(*case)
        return True

    def end(self) -> None:
        for child in self._talks:
            _kill_group(child)

    def _begin(self, files: wire.CaseFiles, in_haste: bool) -> None:
        child = _fork(files)
        if child == 0:
            self._leave()
            be = _live if in_haste else _keep
            be(files, self._around, self._zygote)
        if child > 0 and in_haste:
            self._talks[child] = os.dup(files.talk)
            with contextlib.suppress(OSError):  # the control side has closed the case
                _introduce(child, files.talk)
        for descriptor in files:
            os.close(descriptor)

    def _leave(self) -> None:
        """Close the files of its parent's other children; called in a fork."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._channel.close()
        for descriptor in (self._woken, self._wakes, *self._talks.values()):
            os.close(descriptor)

    def _bury(self) -> None:
        """Handle the end of children; one signal may be for several of them."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:  # there are no children
                return
            if ended is None:
                return
            self._bury_one(ended.si_pid)

    def _bury_one(self, child: int) -> None:
        talk = self._talks.pop(child, None)
        if talk is None:  # a keeper, which has reported the end of its case itself
            os.waitpid(child, 0)
            return
        with contextlib.suppress(OSError):  # the control side has closed the case
            _bury_child(child, talk)
        os.close(talk)


def die_with_parent(how: int) -> None:
    """Ask the kernel to send this process a signal when its parent dies for any reason."""
    _libc.prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)


def _introduce(child: int, talk: int) -> None:
    """Tell the control side the process id; the process gets its own process group."""
    # The child does this too, so it happens whichever process is first.
    with contextlib.suppress(OSError):  # it has already ended
        os.setpgid(child, child)
    wire.send(talk, messages.Forked(child))


def _bury_child(child: int, talk: int) -> None:
    """Report how a child has ended; the processes that it started are killed."""
    _kill_group(child)  # before it is reaped, while its id cannot be reused
    _, status = os.waitpid(child, 0)
    # The child may have died while sending a line.
    wire.write(talk, b"\n" + wire.encode(messages.Ended(status)))


def _kill_group(child: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)


def _live(files: wire.CaseFiles, around: handlers.Surroundings, parent: int) -> None:
    """Run the child of one case, from request to answer. Called in a fork; never returns."""
    try:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _move_in(files)
        request = wire.receive(files.talk)
        if not isinstance(request, messages.Request):
            os._exit(1)
        outcome = handlers.outcome_of(request, around, files.talk)
        flush_everything()
        answer = messages.Answer(outcome, handlers.collect_reports())
        try:
            wire.send(files.talk, answer)
        except OSError:
            os._exit(CUT_OFF)
        _be_gone()
    except BaseException:  # an internal error; its output is kept with the case
        traceback.print_exc()
    finally:
        os._exit(1)


def _be_gone() -> None:
    """End this process by a signal, without running anything more.

    This does what `_exit` does, except under callgrind, where an exit would write another file.
    """
    os.kill(os.getpid(), signal.SIGKILL)


def flush_everything() -> None:
    """Flush what the case printed, from Python and from C."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the statement closed it
            stream.flush()
    _libc.fflush(None)


def _move_in(files: wire.CaseFiles) -> None:
    """Give the case its own output, an empty input and the user's working directory."""
    os.fchdir(files.directory)
    os.dup2(files.stdout, 1)
    os.dup2(files.stderr, 2)
    _move_archive()
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    for descriptor in (files.stdout, files.stderr, files.directory, empty):
        os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        # A crash would lose what is still in a buffer.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _move_archive() -> None:
    """Move the probe's archive from descriptor 0, which is about to be closed.

    A case whose code imports torchmark reads more modules from it.
    """
    os.dup2(0, _ARCHIVE, inheritable=False)
    for importer in sys.path_importer_cache.values():
        if getattr(importer, "archive", None) == "/proc/self/fd/0":
            importer.archive = "/proc/self/fd/{}".format(_ARCHIVE)  # type: ignore[union-attr]
