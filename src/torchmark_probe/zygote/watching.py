"""A plain zygote: it forks for every case, and watches over those that are in haste itself.

A fork of a process that has torch in it takes ten milliseconds and more, and so does its end. With
a keeper in between (`keepers.py`) a case costs that twice: most of what a process costs that takes
turns for a few hundredths of a second. Times do not mind what the zygote does meanwhile.
"""

import contextlib
import os
import select
import signal
import socket
from typing import Dict

from torchmark_probe.zygote import children, handlers, keepers, wire


def serve(channel: socket.socket, around: handlers.Surroundings) -> None:
    """Fork for every case that is handed over, until the control side is gone; so are all cases."""
    # The end of the channel says it as well, and leaves time to take everybody along.
    children.die_with_parent(0)
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
        self._begin(case)
        return True

    def end(self) -> None:
        for child in self._talks:
            children.kill_group(child)

    def _begin(self, case: wire.Case) -> None:
        files = case.files
        child = keepers.forked(files)
        if child == 0:
            self._leave()
            be = children.live if case.in_haste else keepers.keep
            be(files, self._around, self._zygote)
        if child > 0 and case.in_haste:
            self._talks[child] = os.dup(files.talk)
            with contextlib.suppress(OSError):  # the control side has left the case
                children.introduce(child, files.talk)
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
            children.bury(child, talk)
        os.close(talk)
