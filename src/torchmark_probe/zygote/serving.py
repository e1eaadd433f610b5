"""A zygote at work: it forks for every case that is handed over, in one of two ways.

*Under callgrind* it forks a keeper, and the keeper forks the child and waits for it. So the zygote
does the same few things between any two forks, whatever becomes of a case: that is what makes
counts repeat to the instruction. The keeper takes the case with it when the zygote dies, and a case
that kills its parent costs nobody else.

*Plainly* it does so too, but watches over those that are in haste itself. A fork of a process that
has torch in it takes ten milliseconds and more, and so does its end; with a keeper in between a
case costs that twice: most of what a process costs that alternates for a few hundredths of a
second. Times do not mind what the zygote does meanwhile.

The parent of a child, a keeper or the zygote itself, tells the control side which process to kill
when the time is up, and how the process ended.
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
"""The status of a child whose statement closed the socket for its answer."""

_PR_SET_PDEATHSIG = 1

_ARCHIVE = 99
"""Where a case has the archive of the probe: a fixed number, as counts depend on every byte."""

_libc = ctypes.CDLL(None)


def serve_counts(channel: socket.socket, around: handlers.Surroundings) -> None:
    """Fork for every case that is handed over, until the control side is gone.

    Nothing here depends on the case: the next fork finds the heap as the last one did.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the keepers
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
    """Fork for a case, as `os.fork` does; -1 where that cannot be, which the case is then told."""
    try:
        return os.fork()
    except OSError as error:
        not_forked = messages.NotForked(str(error))
        wire.send(files.talk, messages.Answer(not_forked, {}))
        return -1


def _keep(files: wire.CaseFiles, around: handlers.Surroundings, zygote: int) -> None:
    """Be the keeper of one case, and end with it. Called in a fork; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Until the child is known there is nothing to take along, so the default will do.
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
    """Wait for the child and tell how it ended."""

    def take_along(_signal: int, _frame: Any) -> None:
        _kill_group(child)
        os._exit(1)

    signal.signal(signal.SIGTERM, take_along)
    _introduce(child, talk)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    _bury_child(child, talk)
    _be_gone()


def serve_times(channel: socket.socket, around: handlers.Surroundings) -> None:
    """Fork for every case that is handed over, until the control side is gone; so are all cases."""
    # The end of the channel says it as well, and leaves time to take everybody along.
    die_with_parent(0)
    watch = _Watch(channel, around)
    try:
        while watch.wait():
            pass
    finally:
        watch.end()


class _Watch:
    """The children that live, and what their parent waits for."""

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
        """Wait for the next case, or for the end of one; False if the control side is gone."""
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
            with contextlib.suppress(OSError):  # the control side has left the case
                _introduce(child, files.talk)
        for descriptor in files:
            os.close(descriptor)

    def _leave(self) -> None:
        """A fork has nothing to do with its parent's other children."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._channel.close()
        for descriptor in (self._woken, self._wakes, *self._talks.values()):
            os.close(descriptor)

    def _bury(self) -> None:
        """One signal may stand for several children."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:  # nobody is left
                return
            if ended is None:
                return
            self._bury_one(ended.si_pid)

    def _bury_one(self, child: int) -> None:
        talk = self._talks.pop(child, None)
        if talk is None:  # a keeper, which has told the end of its case itself
            os.waitpid(child, 0)
            return
        with contextlib.suppress(OSError):  # the control side has left the case
            _bury_child(child, talk)
        os.close(talk)


def die_with_parent(how: int) -> None:
    """Ask the kernel for a signal at the death of the parent, whatever kills it."""
    _libc.prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)


def _introduce(child: int, talk: int) -> None:
    """Tell the control side which process it is; it leads a group of its own."""
    # The child does this too, so it is done whoever comes first.
    with contextlib.suppress(OSError):  # it has ended already
        os.setpgid(child, child)
    wire.send(talk, messages.Forked(child))


def _bury_child(child: int, talk: int) -> None:
    """Tell how a child ended that has; its own processes end with it."""
    _kill_group(child)  # before it is reaped, so the number is still its own
    _, status = os.waitpid(child, 0)
    # The child may have died in the middle of a line.
    wire.write(talk, b"\n" + wire.encode(messages.Ended(status)))


def _kill_group(child: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)


def _live(files: wire.CaseFiles, around: handlers.Surroundings, parent: int) -> None:
    """Be the child of one case, from its request to its answer. Called in a fork; never returns."""
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
    except BaseException:  # a mistake of ours; where it prints is kept with the case
        traceback.print_exc()
    finally:
        os._exit(1)


def _be_gone() -> None:
    """End with nothing more to do. A signal does what `_exit` does, but for callgrind: at an exit
    it would write one more file, for which nobody waits and everybody would have to.
    """
    os.kill(os.getpid(), signal.SIGKILL)


def flush_everything() -> None:
    """What the case printed leaves the process, from Python and from C."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the statement closed it
            stream.flush()
    _libc.fflush(None)


def _move_in(files: wire.CaseFiles) -> None:
    """The case gets its own output, nothing to read, and the user's working directory."""
    os.fchdir(files.directory)
    os.dup2(files.stdout, 1)
    os.dup2(files.stderr, 2)
    _move_archive()
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    for descriptor in (files.stdout, files.stderr, files.directory, empty):
        os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        # A crash loses what is still in a buffer.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _move_archive() -> None:
    """The probe is imported from descriptor 0, which is about to be closed; a case whose code
    imports torchmark needs more of it.
    """
    os.dup2(0, _ARCHIVE, inheritable=False)
    for importer in sys.path_importer_cache.values():
        if getattr(importer, "archive", None) == "/proc/self/fd/0":
            importer.archive = "/proc/self/fd/{}".format(_ARCHIVE)  # type: ignore[union-attr]
