"""A keeper between the zygote and a child.

The zygote forks a keeper, the keeper forks the child and waits for it. So under callgrind the
zygote does the same few things between any two forks, whatever becomes of a case: that is what
makes counts repeat to the instruction. The keeper takes the case with it when the zygote dies, and
a case that kills its parent costs nobody else.
"""

import os
import signal
import socket
from typing import Any

from torchmark_probe.zygote import children, handlers, messages, wire


def serve(channel: socket.socket, around: handlers.Surroundings) -> None:
    """Fork for every case that is handed over, until the control side is gone.

    Nothing here depends on the case: the next fork finds the heap as the last one did.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the keepers
    zygote = os.getpid()
    while True:
        case = wire.take_over(channel)
        if case is None:
            return
        if forked(case.files) == 0:
            channel.close()
            keep(case.files, around, zygote)
        for descriptor in case.files:
            os.close(descriptor)


def forked(files: wire.CaseFiles) -> int:
    """Fork for a case, as `os.fork` does; -1 where that cannot be, which the case is then told."""
    try:
        return os.fork()
    except OSError as error:
        not_forked = messages.NotForked(str(error))
        wire.send(files.talk, messages.Answer(not_forked, {}))
        return -1


def keep(files: wire.CaseFiles, around: handlers.Surroundings, zygote: int) -> None:
    """Be the keeper of one case, and end with it. Called in a fork; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Until the child is known there is nothing to take along, so the default will do.
        children.die_with_parent(signal.SIGTERM)
        if os.getppid() != zygote:
            os._exit(1)
        keeper = os.getpid()
        child = os.fork()
        if child == 0:
            children.live(files, around, keeper)
        _see_it_through(files.talk, child)
    finally:
        os._exit(1)


def _see_it_through(talk: int, child: int) -> None:
    """Wait for the child and tell how it ended."""

    def take_along(_signal: int, _frame: Any) -> None:
        children.kill_group(child)
        os._exit(1)

    signal.signal(signal.SIGTERM, take_along)
    children.introduce(child, talk)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    children.bury(child, talk)
    children.be_gone()
